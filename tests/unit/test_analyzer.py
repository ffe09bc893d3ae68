"""The Python interface of the analyses: any input, typed results, reports, write-back, and what it refuses."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import msmemscope
from msmemscope.analysis.inefficient.inefficient import InefficientOptions
from msmemscope.analysis.leaks.overview import LeaksOptions
from msmemscope.errors import ConfigurationError, DumpError, InputError
from msmemscope.questions import QUESTIONS
from tests.support.recorded_runs import HELD_BYTES, HOLDING_LINE, KEPT_BYTES, MARK_TEXT, with_dumps, write_run

if TYPE_CHECKING:
    from pathlib import Path

NAMES = [*QUESTIONS]


def inputs(root: Path) -> dict[str, Path]:
    """The same run in every form."""
    log, csv, db = (write_run(root / name) for name in ("log", "csv", "db"))
    return {"log": log, "csv": with_dumps(csv), "db": with_dumps(db, "db")}


def test_the_analyses_are_listed_with_their_parameters() -> None:
    """By the published names; the configuration is a dataclass with these fields."""
    assert msmemscope.list_analyzers() == NAMES
    found = msmemscope.get_analyzer_config("inefficient")
    assert found["config_class"] is InefficientOptions
    assert found["parameters"][:4] == ["input_path", "mem_size", "inefficient_type", "idle_threshold"]
    assert msmemscope.get_analyzer_config("leaks") == {
        "config_class": LeaksOptions,
        "parameters": ["input_path", "mstx_info", "start_index"],
    }


@pytest.mark.parametrize("name", NAMES)
def test_every_analysis_prints_and_returns(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A report on stdout, a frozen dataclass with a table; quiet writes nothing anywhere."""
    capture = write_run(tmp_path)
    result = msmemscope.analyze(name, input_path=capture)
    captured = capsys.readouterr()
    assert captured.out.strip()
    assert isinstance(result.to_polars(), pl.DataFrame)
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.anything = 1
    again = msmemscope.analyze(name, input_path=msmemscope.load(capture), quiet=True)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")
    assert again.to_polars().equals(result.to_polars())


def test_leaks_between_marks_are_the_same_in_every_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Event log, CSV and DB; printed in the known form."""
    found = {}
    for form, path in inputs(tmp_path).items():
        result = msmemscope.check_leaks(str(path), mstx_info=MARK_TEXT, start_index=1)
        found[form] = result.to_polars().select("device", "pool", "size", "address", "malloc_sequence").rows()
        text = capsys.readouterr().out
        assert (
            "INFO: Starting to analyze data for device cpu...\n\nLeak Analysis Results for the Custom Range:\n" in text
        )
        assert (
            "====== ERROR: Detected memory leaks on device cpu ======\nDirect Host memory leak of 0.5 Mb(s) at 0x"
            in text
        )
    assert found["log"] == found["csv"] == found["db"]
    assert [row[2] for row in found["log"]] == [KEPT_BYTES]


def test_leaks_over_steps_without_marks(tmp_path: Path) -> None:
    """Steps are judged where no text of marks is given."""
    result = msmemscope.analyze("leaks", input_path=write_run(tmp_path), quiet=True)
    # Steps 2 to 5: the first is warm-up, and nothing can be said of the last.
    assert result.to_polars()["size"].to_list() == [KEPT_BYTES] * 4


def test_inefficient_memory_is_the_same_in_every_form(tmp_path: Path) -> None:
    """An analysis finds the same in a dump as in the event log."""
    found = {
        form: msmemscope.analyze("inefficient", input_path=path, write_back=False, quiet=True)
        .to_polars()
        .select("kind", "allocation_id", "size", "operators_wasted", "saved_bytes")
        .rows()
        for form, path in inputs(tmp_path).items()
    }
    assert found["log"] == found["csv"] == found["db"]
    assert sorted({row[0] for row in found["log"]}) == ["late_deallocation"]
    assert sorted({row[2] for row in found["log"]}) == [HELD_BYTES]
    assert len(found["log"]) == 6


@pytest.mark.parametrize("form", ["csv", "db", "log"])
def test_inefficient_types_are_written_back(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Into the dump that was given, by a relative path too, or into those of a capture; once and for all."""
    capture = write_run(tmp_path)
    dump = with_dumps(capture, "db" if form == "db" else "csv")
    before = dump.read_bytes()
    assert b"inefficient_type" not in before
    monkeypatch.chdir(tmp_path)
    path = os.path.relpath(capture if form == "log" else dump)
    result = msmemscope.check_inefficient(path)
    captured = capsys.readouterr()
    assert "Inefficient memory: 6 findings in 6 blocks" in captured.out
    # Dumps have stacks only if they were asked for.
    assert (set(result.findings["call_site"]) == {HOLDING_LINE}) == (form == "log")
    assert "inefficient_type written into 6 rows of" in captured.err
    written = dump.read_bytes()
    assert written.count(b"late_deallocation") == len(result.findings) == 6
    msmemscope.check_inefficient(path, quiet=True)
    if form != "db":
        assert written.replace(b",inefficient_type:late_deallocation", b"") == before
        assert dump.read_bytes() == written


def test_options_of_inefficient_memory(tmp_path: Path) -> None:
    """They choose; nothing found writes nothing."""
    dump = with_dumps(write_run(tmp_path))
    before = dump.read_bytes()
    assert msmemscope.check_inefficient(dump, mem_size=HELD_BYTES + 1, quiet=True).findings.is_empty()
    assert msmemscope.check_inefficient(dump, inefficient_type=["early_allocation"], quiet=True).findings.is_empty()
    assert dump.read_bytes() == before
    result = msmemscope.check_inefficient(dump, inefficient_type="late_deallocation", quiet=True)
    assert result.findings.height == 6


def test_memory_changes_go_into_a_new_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All of them, by position; a file that is there is not touched."""
    capture, target = write_run(tmp_path), tmp_path / "changes.csv"
    result = msmemscope.analyze("operators", input_path=capture, csv=target)
    rows = pl.read_csv(target)
    assert rows["Net Memory(byte)"].to_list() == result.to_polars()["net_bytes"].to_list()
    assert rows["Name"].to_list()[:4] == ["aten.ones", "aten.mm", "aten.add", "aten.relu"]
    assert "24 rows written to" in capsys.readouterr().err
    before = target.read_bytes()
    with pytest.raises(DumpError, match="is there already"):
        msmemscope.analyze("operators", input_path=capture, csv=target)
    assert target.read_bytes() == before


@pytest.mark.parametrize(
    "name, parameters, error, text",
    [
        ("leaks", {"mstx_info": 5}, TypeError, "mstx_info: not a text: 5"),
        ("leaks", {"mstx_info": " "}, ConfigurationError, "mstx_info: is blank"),
        ("leaks", {"mstx_info": "test", "start_index": -1}, ConfigurationError, "start_index: not accepted: '-1'"),
        ("leaks", {"mstx_info": "test", "start_index": True}, ConfigurationError, "start_index: not accepted: 'True'"),
        ("leaks", {"mstx_info": "test", "start_index": 4}, ConfigurationError, "accepted: 0 to 3"),
        ("leaks", {"mstx_info": "tset"}, ConfigurationError, "no mark of .* has this text: 'tset' .*'test'"),
        ("leaks", {"mem_size": 5}, TypeError, "takes no parameter 'mem_size' .*mstx_info, start_index"),
        ("inefficient", {"mem_size": -1}, ConfigurationError, "mem_size: not accepted: '-1'"),
        ("inefficient", {"idle_threshold": 0}, ConfigurationError, "idle_threshold: not accepted: '0'"),
        ("inefficient", {"inefficient_type": []}, ConfigurationError, "inefficient_type: .*accepted: None, or"),
        ("inefficient", {"inefficient_type": "early"}, ConfigurationError, "inefficient_type: .*'early'"),
        ("decompose", {"moments": -1}, ConfigurationError, "moments: not accepted: '-1'"),
        ("peak", {"device": "gpu"}, ConfigurationError, "device: not a device: 'gpu'"),
        ("peak", {"at": 10**9}, ConfigurationError, "at: .* has no such event"),
        ("operators", {"level": "layer"}, ConfigurationError, "level: not a level: 'layer'"),
        ("operators", {"level": ""}, ConfigurationError, "level: names nothing"),
        ("operators", {"level": 0}, TypeError, "level: not a text: 0"),
        ("oom", {"limit": 0}, ConfigurationError, "limit: not accepted: '0'"),
        ("growth", {"significance": 1.5}, ConfigurationError, "significance: not a chance: '1.5'"),
        ("leak", {}, ConfigurationError, "type: no such analysis: 'leak' .*leaks, inefficient"),
    ],
)
def test_what_is_refused(
    name: str, parameters: dict[str, Any], error: type[Exception], text: str, tmp_path: Path
) -> None:
    """The error says what is wrong, the value, and what is accepted. Nothing is printed."""
    with pytest.raises(error, match=text):
        msmemscope.analyze(name, input_path=write_run(tmp_path), **parameters)


@pytest.mark.parametrize(
    "path, error", [(5, TypeError), (None, TypeError), ("", ConfigurationError), ("nowhere.csv", InputError)]
)
def test_inputs_that_are_none(path: Any, error: type[Exception]) -> None:
    """A path that is none, or where nothing is."""
    with pytest.raises(error):
        msmemscope.check_leaks(path, "test", 0)
    with pytest.raises(TypeError, match="needs the parameter 'input_path'"):
        msmemscope.analyze("leaks")


def test_one_process_at_a_time(tmp_path: Path) -> None:
    """A folder of several is refused; `load_all` gives what can be analysed one by one."""
    for process_id in (1001, 1002):
        write_run(tmp_path, process_id=process_id)
    with pytest.raises(InputError, match="holds 2 processes"):
        msmemscope.analyze("leaks", input_path=tmp_path)
    results = [msmemscope.analyze("leaks", input_path=one, quiet=True) for one in msmemscope.load_all(tmp_path)]
    assert [result.to_polars().height for result in results] == [4, 4]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_dump_that_cannot_be_replaced_is_refused_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is analysed or printed."""
    dump = with_dumps(write_run(tmp_path))
    dump.parent.chmod(0o500)
    try:
        with pytest.raises(DumpError, match="no permission"):
            msmemscope.check_inefficient(dump)
    finally:
        dump.parent.chmod(0o750)
    assert capsys.readouterr().out == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_an_input_of_somebody_else_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is read all the same."""
    dump = with_dumps(write_run(tmp_path))
    os.chown(dump, 12345, -1)
    msmemscope.check_leaks(dump, MARK_TEXT)
    assert "belongs to another user" in capsys.readouterr().err

"""Verbs without a path find the latest run, and words that are nearly right get a hint."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from msmemscope.cli.commands import VERBS, VERBS_OF_OTHERS
from msmemscope.cli.main import main
from msmemscope.launch.latest_runs import runs_in
from msmemscope.questions import QUESTIONS
from tests.fakes.event_log_builder import ATEN_END, EventLogBuilder

if TYPE_CHECKING:
    from pathlib import Path


def a_process(output: Path, number: int, *, session: int, start: int) -> Path:
    """The capture of a process of one operator."""
    fields = {"session": session, "start_ns": 1_700_000_000_000_000_000 + start}
    log = EventLogBuilder(output, process_id=number, header_fields=fields)
    log.malloc(0x1000 * number, 64 * number)
    log.add(ATEN_END, name_id=log.string("aten.add"))
    return log.write()


@pytest.fixture
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two launches, the first one of two processes that began before and after each other, and a process without one."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "memscopeDumpResults"
    a_process(folder, 11, session=7, start=1)
    a_process(folder, 13, session=0, start=3)
    a_process(folder, 10, session=7, start=4)
    a_process(folder, 12, session=8, start=5)
    (folder / "msmemscope_99_20990101000000_ascend").mkdir()  # without a log
    return folder


def names(paths: tuple[Path, ...]) -> list[str]:
    """The process numbers in the names of captures."""
    return [path.name.split("_")[1] for path in paths]


def test_runs_are_grouped_by_session(output: Path) -> None:
    """In the order of their start; a process that was not launched is a run of its own."""
    assert [names(run.captures) for run in runs_in(output)] == [["11", "10"], ["13"], ["12"]]


def test_analyze_takes_the_latest_run(output: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All processes of it, and says on stderr which one that is."""
    assert main(["analyze", "peak", "--json"]) == 0
    seen = capsys.readouterr()
    assert [process["process_id"] for process in json.loads(seen.out)["processes"]] == [12]
    assert seen.err.startswith(f"msmemscope: the latest run: {output}/msmemscope_12_")
    a_process(output, 14, session=8, start=9)
    assert main(["analyze", "peak", "--json"]) == 0
    seen = capsys.readouterr()
    assert [process["process_id"] for process in json.loads(seen.out)["processes"]] == [12, 14]
    assert "and 1 more of the same run" in seen.err


def test_compare_takes_the_two_latest_runs(output: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The later one is compared to the one before it; a base can be named."""
    assert main(["compare", "--json"]) == 0
    seen = capsys.readouterr()
    assert "the run before it: " in seen.err
    assert "msmemscope_13_" in seen.err
    assert "the latest run: " in seen.err
    (base,) = output.glob("msmemscope_10_*")
    assert main(["compare", str(base), "--json"]) == 0
    assert "the run before it" not in capsys.readouterr().err
    a_process(output, 14, session=8, start=9)
    assert main(["compare"]) == 2
    assert "the latest run has 2 processes; name one of them" in capsys.readouterr().err


def test_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """There is nothing to take."""
    monkeypatch.chdir(tmp_path)
    assert main(["analyze", "leaks"]) == 2
    assert f"a path is missing, and no run lies in {tmp_path}/memscopeDumpResults" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "status", "hint"),
    [
        (["analyse", "leaks"], 127, "did you mean msmemscope analyze?"),
        (["analyze", "peek"], 2, "did you mean msmemscope analyze peak?"),
        (["recovr"], 127, "did you mean msmemscope recover?"),
    ],
)
def test_words_that_are_nearly_right(
    line: list[str], status: int, hint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names what was meant."""
    assert main([f"--output={tmp_path}", *line] if status == 127 else line) == status
    assert f"hint: {hint}" in capsys.readouterr().err


def test_recover_takes_the_latest_run(output: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And leaves the others alone, which it finishes where it is told their folder."""
    assert main(["recover"]) == 0
    assert f"the latest run: {output}/msmemscope_12_" in capsys.readouterr().err
    assert [path.parent.name.split("_")[1] for path in output.glob("*/report.txt")] == ["12"]
    assert main(["recover"]) == 0, "a second time"
    assert main(["recover", str(output)]) == 0
    assert len(list(output.glob("*/report.txt"))) == 4


def test_without_any_run_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By every verb that takes one, in the same words."""
    monkeypatch.chdir(tmp_path)
    for line in (["summary"], ["recover"], ["analyze", "leaks"], ["report"], ["top"]):
        assert main(line) == 2
        assert "a path is missing, and no run lies in" in capsys.readouterr().err


def test_analyze_alone_lists_its_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    """Each with what it answers."""
    assert main(["analyze"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(QUESTIONS)
    assert all(QUESTIONS[line.split()[0]].summary in line for line in lines)


@pytest.mark.parametrize("word", VERBS_OF_OTHERS)
def test_words_of_other_profilers_lead_to_ours(
    word: str, output: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where no program has that name, the hint names commands that there are."""
    monkeypatch.setenv("PATH", str(output))
    assert main([word, "x.bin"]) == 127
    message, _, hint = capsys.readouterr().err.partition("\nhint: ")
    assert f"program not found: '{word}'" in message
    named = hint.split("msmemscope ")[1].split()[0]
    assert named in {*VERBS, "python"}

"""`msmemscope analyze`: results on stdout, words on stderr, exit statuses, JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from msmemscope.cli.main import main
from tests.fakes.event_log_builder import ATEN_END, ATEN_START, EventLogBuilder
from tests.support.recorded_runs import KEEPING_LINE, KEPT_BYTES, MARK_TEXT, with_dumps, write_run

if TYPE_CHECKING:
    from pathlib import Path

RESULT_KEYS = {
    "leaks": {
        "process_id",
        "source",
        "step_leaks",
        "fluctuation",
        "slow_leaks",
        "outside_steps",
        "waiting_cycles",
        "host_growth",
        "host_rise",
        "is_growth_ruled_out",
        "copied_pages",
        "pinned_growth",
        "driver_leaks",
        "coverage",
    },
    "inefficient": {"findings", "pools", "operator_count", "coverage", "patterns"},
    "decompose": {"pools", "at_steps", "over_time", "ledger", "devices", "coverage"},
    "card": {"parts", "sites", "coverage"},
    "host": {
        "parts",
        "lines",
        "containers",
        "course",
        "shares",
        "peak_bytes",
        "end_bytes",
        "group_bytes",
        "group_end_bytes",
        "group_limit_bytes",
        "is_sampled",
        "coverage",
    },
    "reserved": {"found", "is_judged", "coverage"},
    "peak": {"devices", "coverage"},
    "operators": {"row_count", "by_name", "highest", "coverage"},
    "oom": {"failure_count", "failures", "coverage"},
    "growth": {"sites", "judged_sites", "basis", "filling", "one_pass", "longer_caches", "remarks", "coverage"},
    "history": {"series", "course", "moment_count", "judged_ns", "coverage"},
    "sleep": {"cycles", "kept", "sites", "judged", "coverage"},
    "watch": {"changes", "watched", "extent", "declared", "files", "coverage"},
}


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """The one object that a command writes to stdout."""
    assert main(["analyze", *arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("kind", RESULT_KEYS)
def test_text_goes_to_stdout(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And nothing to stderr, if there is nothing to say beside it; the input is as it was."""
    dump = with_dumps(write_run(tmp_path)).rename(tmp_path / "alone.csv")
    before = dump.read_bytes()
    assert main(["analyze", kind, str(dump)]) == 0
    captured = capsys.readouterr()
    assert captured.out.strip()
    assert "\x1b" not in captured.out
    assert captured.err == ""
    assert dump.read_bytes() == before


@pytest.mark.parametrize("kind", RESULT_KEYS)
def test_json_is_one_object(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the same keys whatever was found."""
    capture, empty = write_run(tmp_path / "a"), write_run(tmp_path / "b", leaks=False, steps=0)
    for path in (capture, empty):
        found = as_json(capsys, kind, str(path))
        assert set(found) == {"analysis", "path", "processes", "merged"}
        (process,) = found["processes"]
        assert (found["analysis"], found["path"]) == (kind, str(path))
        assert set(process) == {
            "process_id",
            "place",
            "source",
            "form",
            "coverage",
            "problems",
            "is_answered",
            "result",
        }
        assert (process["process_id"], process["form"]) == (4242, "event log")
        assert set(process["result"]) == RESULT_KEYS[kind] | {"python_stacks", "native_stacks"}


def test_values_in_json_are_those_of_dumps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Devices, pools and addresses as words; each block names its stack, whose text is given once."""
    (process,) = as_json(capsys, "leaks", str(write_run(tmp_path)))["processes"]
    result = process["result"]
    blocks = [block for block in result["step_leaks"]["blocks"] if block["fate"] == "leaked"]
    assert [block["size"] for block in blocks] == [KEPT_BYTES] * 4
    assert {(block["device"], block["pool"]) for block in blocks} == {("cpu", "HOST")}
    assert blocks[0]["address"] == "0x0000000000210000"
    assert blocks[0]["operator"] == "aten.ones"
    assert result["python_stacks"] == {str(blocks[0]["python_stack_id"]): f"{KEEPING_LINE}\n"}
    assert result["step_leaks"]["pools"][0]["pool"] == "HOST"


def test_several_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One after the other, each under its name; one that cannot be read is told and left out."""
    for process_id in (1001, 1002, 1003):
        write_run(tmp_path, process_id=process_id)
    damaged = next(tmp_path.glob("msmemscope_1002_*"))
    (damaged / "event_log" / "process.header").write_bytes(b"nonsense" * 100)
    assert main(["analyze", "leaks", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert [line for line in captured.out.splitlines() if line.startswith("Process")] == [
        f"Process {number}: {tmp_path}/msmemscope_{number}_20240101120000_ascend" for number in (1001, 1003)
    ]
    assert captured.out.count("====== SUMMARY: 2 Mb(s) leaked in 4 allocation(s) ======") == 2
    assert "warning: " in captured.err
    assert "msmemscope_1002" in captured.err
    assert [one["process_id"] for one in as_json(capsys, "leaks", str(tmp_path))["processes"]] == [1001, 1003]


def test_leaks_between_marks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The marks are chosen by text and position."""
    path = str(write_run(tmp_path))
    assert main(["analyze", "leaks", path, "--mark", MARK_TEXT, "--start-index=2"]) == 0
    assert "Direct Host memory leak of 0.5 Mb(s) at 0x0000000000410000 in Index" in capsys.readouterr().out
    # Between marks nothing but the range counts.
    (process,) = as_json(capsys, "leaks", path, f"--mark={MARK_TEXT}")["processes"]
    assert process["result"]["devices"][0]["leaked_blocks"] == 1


@pytest.mark.parametrize(
    "arguments, leaks, status",
    [
        (["leaks"], True, 1),
        (["leaks"], False, 0),
        (["leaks", "--mark=test"], True, 1),
        (["inefficient"], True, 1),
        (["inefficient", "--type=temporary_idleness"], True, 0),
        (["oom"], True, 0),
        (["growth"], True, 0),
    ],
)
def test_findings_can_fail_a_pipeline(
    arguments: list[str], status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], *, leaks: bool
) -> None:
    """Only where that is asked for."""
    path = str(write_run(tmp_path, leaks=leaks))
    assert main(["analyze", *arguments, path]) == 0
    assert main(["analyze", *arguments, path, "--fail-on-findings"]) == status
    assert capsys.readouterr().err == ""


def test_write_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only where that is asked for; the file is told on stderr."""
    dump = with_dumps(write_run(tmp_path))
    assert main(["analyze", "inefficient", str(dump)]) == 0
    assert "inefficient_type" not in dump.read_text()
    assert main(["analyze", "inefficient", str(dump), "--write-back", "--type=late_deallocation,"]) == 0
    assert dump.read_text().count("inefficient_type:late_deallocation") == 6
    assert f"inefficient_type written into 6 rows of {dump}" in capsys.readouterr().err


def test_names_that_look_like_formulas_are_text_in_the_csv(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A spreadsheet must not run what an operator is called, and numbers below zero stay numbers."""
    log = EventLogBuilder(tmp_path)
    operator = log.string('=HYPERLINK("http://evil")')
    log.add(ATEN_START, name_id=operator)
    log.malloc(0x1000, 4096, name_id=operator)
    log.free(99, 0x9000, 512)
    log.free(2, 0x1000, 4096)
    log.free(2, 0x1000, 4096)
    log.add(ATEN_END, name_id=operator)
    target = tmp_path / "changes.csv"
    assert main(["analyze", "operators", str(log.write()), "--csv", str(target)]) == 0
    assert target.read_text().splitlines()[1].startswith('1,OP_LAUNCH,"\'=HYPERLINK(""http://evil"")",')
    assert "1 row written" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, text",
    [
        (["leak", "x"], "'leak' is no KIND\nhint: did you mean msmemscope analyze leaks?"),
        (["leaks"], "a path is missing, and no run lies in "),
        (["leaks", ""], "PATH: names nothing"),
        (["leaks", "nowhere"], "'nowhere' cannot be read"),
        (["leaks", "{run}", "--start-index=1"], "--start-index: goes together with --mark"),
        (["leaks", "{run}", "--mark=test", "--start-index=x"], "--start-index: not a whole number: 'x'"),
        (["leaks", "{run}", "--mark=test", "--start-index=9"], "--start-index: there are 6 marks"),
        (["leaks", "{run}", "--mark="], "--mark: is blank"),
        (["leaks", "{run}", "--mark=other"], "--mark: no mark of"),
        (["inefficient", "{run}", "--mem-size=big"], "--mem-size: not a size: 'big'"),
        (["inefficient", "{run}", "--type=,"], "--type: names nothing"),
        (["inefficient", "{run}", "--type=early"], "--type: not a kind of inefficient memory: 'early'"),
        (["inefficient", "{run}", "--idle-threshold=0"], "--idle-threshold: not accepted: '0'"),
        (["peak", "{run}", "--device=gpu"], "--device: not a device: 'gpu'"),
        (["peak", "{run}", "--at=0"], "--at: "),
        (["operators", "{run}", "--level=layer"], "--level: not a level: 'layer'"),
        (["operators", "{run}", "--fail-on-findings"], "unrecognized arguments: --fail-on-findings"),
        (["growth", "{run}", "--significance=much"], "--significance: not a number: 'much'"),
        (["growth", "{run}", "--significance=2"], "--significance: not a chance: '2.0'"),
        *(
            (["leaks", "{run}", f"--frames={n}"], f"--frames: must be a number of frames: '{n}' (accepted: 1 to 1000)")
            for n in ("0", "-1", "1001", "x", "9" * 5000)
        ),
        (["leaks", "{text}"], "is nothing that can be analysed"),
        (["leaks", "{empty}"], "holds nothing that can be analysed"),
    ],
)
def test_bad_command_lines(arguments: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line that says what is wrong with which value, exit status 2, and nothing on stdout."""
    other = tmp_path / "notes.txt"
    other.write_text("no dump at all\n")
    (tmp_path / "empty").mkdir()
    places = {"run": write_run(tmp_path), "text": other, "empty": tmp_path / "empty"}
    assert main(["analyze", *(argument.format(**places) for argument in arguments)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert text in captured.err
    assert captured.err.startswith("msmemscope: error: ")


def test_a_dump_says_what_it_lacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Steps that were taken from an optimizer are in the event log alone: nobody is told that there were none."""
    log = EventLogBuilder(tmp_path / "runs")
    log.fact("setting.output", str(tmp_path))
    for number in range(1, 9):
        log.malloc(0x10000 * number, 4096)
    capture = log.write()
    assert main(["analyze", "leaks", str(capture)]) == 0
    assert "steps: dumps have" not in capsys.readouterr().out
    dump = with_dumps(capture)
    for kind in ("leaks", "growth"):
        assert main(["analyze", kind, str(dump)]) == 0
        written = capsys.readouterr()
        assert "steps: dumps have those of msmemscope.step() and mstx ranges alone" in " ".join(written.out.split())
        assert "which has no steps" not in written.out
        assert f"a dump has less than its capture: msmemscope analyze {kind} {capture}" in written.err
        alone = dump.rename(tmp_path / f"{kind}.csv")
        assert main(["analyze", kind, str(alone)]) == 0
        assert "less than its capture" not in capsys.readouterr().err
        alone.rename(dump)

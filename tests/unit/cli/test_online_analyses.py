"""The analyses at the end of a run deal with captures that they cannot judge."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from msmemscope.analysis.judged import NotJudged
from msmemscope.cli.main import main
from msmemscope.formats.event_log import Capture
from msmemscope.launch import analyses
from msmemscope.launch.analyses import RunAnalyses, find_first
from tests.fakes.event_log_builder import EventLogBuilder
from tests.support.recorded_runs import KEPT_BYTES, write_run

if TYPE_CHECKING:
    from pathlib import Path


def analyzed(capture: Capture) -> RunAnalyses:
    """The findings about a capture at the end of a run."""
    return analyses.analyze_run(capture, find_first(capture))


def test_leaks_are_judged_by_default(tmp_path: Path) -> None:
    """Nothing else is done that nobody asked for."""
    found = analyzed(Capture(write_run(tmp_path)))
    assert found.leaks is not None
    assert found.leaks.to_polars()["size"].to_list() == [KEPT_BYTES] * 4
    assert found.inefficient is None
    assert found.remarks == ()


def test_what_was_asked_for_at_any_time_is_done(tmp_path: Path) -> None:
    """A program can change its settings while it runs."""
    log = EventLogBuilder(tmp_path)
    for text in ("inefficient", "leaks"):
        log.fact("setting.analysis", text)
    log.malloc(0x1000, 64)
    found = analyzed(Capture(log.write()))
    assert [remark.partition(":")[0] for remark in found.remarks] == ["inefficient memory"] * 2
    assert [one.subject for one in found.not_judged] == ["leaks"]


@pytest.mark.parametrize("analysis", ["", "oom"])
def test_nothing_is_done_where_nothing_was_asked_for(analysis: str, tmp_path: Path) -> None:
    """No remark either; that leaks were not judged is known, for a summary that found nothing."""
    not_judged = (NotJudged("leaks", "--analysis leaves them out", "--analysis=leaks"),)
    assert analyzed(Capture(write_run(tmp_path, analysis=analysis))) == RunAnalyses(not_judged=not_judged)


def test_a_process_without_blocks_needs_no_remark(tmp_path: Path) -> None:
    """A shell that recorded a mark or two."""
    log = EventLogBuilder(tmp_path)
    log.fact("setting.analysis", "leaks")
    log.add(30, name_id=log.string("mark"))
    not_judged = (NotJudged("leaks", "no allocations were recorded"),)
    assert analyzed(Capture(log.write())) == RunAnalyses(not_judged=not_judged)


@pytest.mark.parametrize(
    "steps, settings, sentence",
    [
        (0, {}, "leaks not judged: no steps were seen (call msmemscope.step() after each)"),
        (1, {}, "leaks not judged: 1 step has ended, at least 3 are needed"),
        (6, {"steps": "2,3"}, "leaks not judged: with --steps"),
    ],
)
def test_runs_whose_leaks_cannot_be_judged(steps: int, settings: dict[str, str], sentence: str, tmp_path: Path) -> None:
    """One sentence says why, and how to get it."""
    found = analyzed(Capture(write_run(tmp_path, steps=steps, settings=settings)))
    assert found.leaks is None
    assert found.not_judged[0].sentence.startswith(sentence)


def test_two_steps_show_fluctuation(tmp_path: Path) -> None:
    """Which needs one step after the warm-up; leaks need two."""
    found = analyzed(Capture(write_run(tmp_path, steps=2)))
    assert found.leaks is not None
    assert found.leaks.fluctuation.pools
    assert found.leaks.step_leaks.remarks


def test_captures_that_are_too_large_are_left_to_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The remark has the command; each analysis counts only the events that it needs."""
    capture = Capture(write_run(tmp_path, analysis="leaks,inefficient"))
    monkeypatch.setattr(analyses, "MOST_EVENTS", 80)
    found = analyzed(capture)
    assert found.leaks is not None
    assert found.inefficient is None
    (reported,) = found.remarks
    assert "more than 80" in reported
    assert reported.endswith(f"msmemscope analyze inefficient {capture.directory}")


def test_a_fault_of_ours_costs_one_analysis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other ones, and the summary, go on."""

    def broken(*_arguments: object) -> object:
        message = "surprise"
        raise RuntimeError(message)

    monkeypatch.setattr(analyses, "find_leaks", broken)
    found = analyzed(Capture(write_run(tmp_path, analysis="leaks,inefficient")))
    assert found.leaks is None
    assert found.inefficient is not None
    (reported,) = found.remarks
    assert reported.startswith(
        "leaks: failed, this is a fault of msmemscope: RuntimeError: surprise (launch/analyses.py:"
    )


@pytest.mark.parametrize("data_format", ["csv", "db"])
def test_recover_shows_them_and_writes_them_into_the_dumps(
    data_format: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the form that scripts know, on stderr like all of the summary; in the dumps that are just written."""
    settings = {"data_format": data_format}
    capture = write_run(tmp_path, analysis="leaks,inefficient", settings=settings, has_trace=True)
    assert main(["recover", str(capture)]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    for line in (
        "====== ERROR: Detected memory leaks on device cpu ======",
        "Direct Host memory leak of 0.500000 Mb(s) at 0x210000 at step 2.",
        "====== SUMMARY: 2 Mb(s) leaked in 4 allocation(s) ======",
        "======= Host memory Gap Analysis of Device cpu =======",
    ):
        assert f"\n{line}\n" in captured.err
    assert (
        "\nInefficient memory: 6 findings in 6 blocks, which would not lower the peak\n"
        in (capture / "report.txt").read_text()
    )
    assert "error" not in captured.err
    (dump,) = capture.glob(f"device_cpu/dump/memscope_dump_*.{data_format}")
    found = re.findall(rb"inefficient_type\W+late_deallocation", dump.read_bytes())
    assert len(found) == 6


def test_what_several_processes_leak_at_one_line_is_one_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the processes that it is found in; each of them has the lines that scripts look for."""
    for process_id in range(1001, 1006):
        write_run(tmp_path, process_id=process_id)
    write_run(tmp_path, process_id=1006, leaks=False)
    assert main(["recover", str(tmp_path)]) == 0
    text = capsys.readouterr().err
    assert "msmemscope: leak: 10.0 MiB in 20 blocks on cpu at /home/me/train.py(11): keep" in " ".join(text.split())
    assert "(processes 1001, 1002, 1003, 1004 and 1 more)" in " ".join(text.split())
    assert text.count("====== SUMMARY: 2 Mb(s) leaked in 4 allocation(s) ======") == 5
    assert text.count("Direct Host memory leak of") == 10
    assert "\nand 10 more in report.txt of each process\n" in text
    for folder in tmp_path.glob("msmemscope_100[1-5]_*"):
        assert (folder / "report.txt").read_text().count("Direct Host memory leak of") == 4


def test_of_several_processes_without_findings_one_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The one with the highest peak, as with the rest of the summary; what all lack is said once."""
    for process_id in (1001, 1002):
        write_run(tmp_path, process_id=process_id, leaks=False)
    for process_id in (1003, 1004):
        write_run(tmp_path, process_id=process_id, steps=0)
    assert main(["recover", str(tmp_path)]) == 0
    text = capsys.readouterr().err
    assert text.count("Gap Analysis of Device cpu") <= 1
    first_line = " ".join(text.split("\n\n")[0].split())
    assert first_line == (
        "msmemscope: leaks not judged: no steps were seen (call msmemscope.step() after each) (processes 1003, 1004); "
        "otherwise no leak over 6 steps, no failed allocation (202 events of 4 processes)"
    )

"""Processes that end without a chance to say so, and disks that are full: what was committed is there."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from msmemscope.formats.event_log.layout import CaptureState
from msmemscope.model.events import EventKind
from tests.support.recordings import assert_sound, count, events_of
from tests.support.small_disk import small_disk

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import BuildTarget, RunUnderTool
    from tests.support.tool import ToolRun

SMALL_DISK_KIB = 2048


def assert_everything_printed_is_recorded(run: ToolRun) -> None:
    """Assert that the counts which the program printed before its end are in the capture."""
    events = events_of(run.capture)
    assert_sound(events)
    assert count(events, EventKind.MALLOC) == int(run.report["allocs"])
    assert count(events, EventKind.FREE) == int(run.report["frees"])


@pytest.mark.parametrize(
    "way, number",
    [
        ("_exit", None),
        ("abort", signal.SIGABRT),
        ("kill", signal.SIGKILL),
        ("fault", signal.SIGSEGV),
    ],
)
def test_what_was_committed_survives(
    build_target: BuildTarget, run_under_tool: RunUnderTool, way: str, number: signal.Signals | None
) -> None:
    """Every event before the end is there, whole, and the status tells how the program ended."""
    run = run_under_tool([build_target("abrupt_end"), way, "5000"])
    if number is None:
        assert run.returncode == 7
    else:
        assert run.returncode == -number
    assert_everything_printed_is_recorded(run)


def test_threads_killed_in_the_middle_tear_nothing(build_target: BuildTarget, run_under_tool: RunUnderTool) -> None:
    """At least what the program said it had done is there, and no event is torn."""
    run = run_under_tool([build_target("kill_in_threads"), "20"])
    events = events_of(run.capture)
    assert_sound(events)
    assert count(events, EventKind.MALLOC) >= int(run.report["allocs"])
    assert count(events, EventKind.FREE) >= int(run.report["frees"])
    assert run.capture.header.state is CaptureState.OPEN


def test_dumps_are_written_for_a_killed_process(build_target: BuildTarget, run_under_tool: RunUnderTool) -> None:
    """The launcher finishes such a capture by itself."""
    run = run_under_tool([build_target("abrupt_end"), "kill", "1000"])
    dumps = list(run.capture.directory.glob("device_cpu/dump/memscope_dump_*.csv"))
    assert len(dumps) == 1
    rows = dumps[0].read_text(encoding="utf-8").splitlines()
    assert len([row for row in rows if ",MALLOC," in row]) == 1000


@pytest.fixture
def on_small_disk(tmp_path: Path) -> tuple[list[str], Path, Path]:
    """A prefix of a command line that runs it on a small disk, the disk's folder, and where its content is copied."""
    return small_disk(tmp_path, SMALL_DISK_KIB)


def test_a_full_disk_stops_the_recording_and_not_the_program(
    build_target: BuildTarget, on_small_disk: tuple[list[str], Path, Path]
) -> None:
    """One line says so; the program finishes with its own status, and what fitted is readable."""
    from tests.support import tool

    prefix, disk, copy = on_small_disk
    output = disk / "output"
    options = ["--device=cpu", f"--output={output}"]
    line: list[object] = [*tool.TOOL, *options, "--", build_target("fill_disk"), disk, "100000"]
    run = tool.run([*prefix, *line], output=copy / "output")
    assert run.returncode == 0, run.stderr
    assert run.report["full"] == "1"
    assert run.stderr.count("No space left on device") >= 1
    events = events_of(run.capture)
    assert_sound(events)
    assert count(events, EventKind.MALLOC) >= 10
    header = run.capture.header
    assert header.state is CaptureState.FAILED
    assert header.failure_errno == 28
    assert header.dropped_failure >= 1
    assert events.height < int(run.report["allocs"])


def test_a_limit_on_file_sizes_does_not_kill_the_program(
    build_target: BuildTarget, run_under_tool: RunUnderTool
) -> None:
    """Growing a file past RLIMIT_FSIZE raises SIGXFSZ, which ends a process that does not expect it."""
    limited = ["bash", "-c", 'ulimit -f 512; exec "$@"', "limited", str(build_target("alloc_free")), "100000"]
    run = run_under_tool(limited)
    assert run.returncode == 0, run.stderr
    assert run.report["allocs"] == "100000"
    events = events_of(run.capture)
    assert_sound(events)
    assert run.capture.header.state is CaptureState.FAILED
    assert 0 < events.height < 200_000


def test_an_output_root_that_cannot_be_written_does_not_stop_the_program(
    build_target: BuildTarget, run_under_tool: RunUnderTool, tmp_path: Path
) -> None:
    """The folder disappears behind the program's back: no capture, and the program is fine."""
    gone = tmp_path / "gone"
    script = f"rm -rf {gone}; ln -s /proc/nowhere {gone}; exec {build_target('alloc_free')} 1000"
    run = run_under_tool(["bash", "-c", script], output=gone)
    assert run.report["allocs"] == "1000"
    assert run.returncode == 0, run.stderr

"""One program, one point: what the program says it did equals what was recorded, and the program notices nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from msmemscope.formats.event_log.layout import CaptureState
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from tests.support.nightly import nightly
from tests.support.recordings import assert_sound, bytes_alive, count, events_of, never_freed, unmatched_frees
from tests.support.targets import Binding

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import BuildTarget, RunUnderTool
    from tests.support.targets import Builder
    from tests.support.tool import ToolRun

PROGRAMS = [
    pytest.param("alloc_free", ("2000", "7"), id="pairs, and blocks that are kept"),
    pytest.param("alloc_free", ("1", "0"), id="a single pair"),
    pytest.param("alloc_free", ("100000", "0"), id="more than one chunk"),
    pytest.param("threads", ("8", "3000"), id="threads at once, freeing each other's blocks"),
    pytest.param("thread_exit", ("100",), id="short-lived threads, and allocations while they end"),
    pytest.param("exit_order", (), id="atexit, static destructors, finalisation"),
    pytest.param("static_constructor", (), id="before main"),
    pytest.param("recursion", ("5000",), id="a stack deeper than any depth"),
    pytest.param("small_stack", (), id="smallest stacks"),
]


def assert_same_for_user(observed: ToolRun, alone: ToolRun) -> None:
    """Assert that a user of the program cannot tell the two runs apart."""
    assert observed.returncode == alone.returncode, observed.stderr
    assert observed.stdout == alone.stdout


def assert_recorded(run: ToolRun) -> pl.DataFrame:
    """Assert that the one capture has exactly the program's allocations and frees; return its events."""
    events = events_of(run.capture)
    assert_sound(events)
    assert count(events, EventKind.MALLOC) == int(run.report["allocs"])
    assert count(events, EventKind.FREE) == int(run.report["frees"])
    return events


@pytest.mark.parametrize("name, arguments", PROGRAMS)
def test_every_allocation_is_recorded_once(
    build_target: BuildTarget,
    run_under_tool: RunUnderTool,
    run_alone: RunUnderTool,
    name: str,
    arguments: tuple[str, ...],
) -> None:
    """Each block has its MALLOC, each free its FREE that names the block, and nothing else is there."""
    command = [build_target(name), *arguments]
    run = run_under_tool(command)
    assert_same_for_user(run, run_alone(command))
    events = assert_recorded(run)
    assert unmatched_frees(events) == 0
    assert never_freed(events) == int(run.report["allocs"]) - int(run.report["frees"])
    memory = events.filter(pl.col("kind").is_in([int(EventKind.MALLOC), int(EventKind.FREE)]))
    assert set(memory["device"]) == {DEVICE_CPU}
    assert set(memory["pool"]) == {int(Pool.HOST)}
    header = run.capture.header
    assert header.state is CaptureState.CLOSED
    assert header.dropped_reentrant == header.dropped_failure == header.untracked_blocks == 0


def test_sizes_are_those_asked_for(build_target: BuildTarget, run_under_tool: RunUnderTool) -> None:
    """The bytes of all MALLOC rows add up to what the program asked for, and so do those of kept blocks."""
    run = run_under_tool([build_target("alloc_free"), "310", "31"])
    events = assert_recorded(run)
    blocks = events.filter(pl.col("kind") == int(EventKind.MALLOC))
    assert blocks["size"].sum() == int(run.report["bytes"])
    assert bytes_alive(events) == sum(64 * (1 + number) for number in range(31))


@pytest.mark.parametrize("binding", list(Binding), ids=lambda binding: binding.name.lower())
def test_every_way_of_binding_is_patched(
    build_target: BuildTarget, run_under_tool: RunUnderTool, binding: Binding
) -> None:
    """It does not matter how the library was linked: lazily, at once with read-only entries, or without a PLT."""
    run = run_under_tool([build_target("alloc_free", binding), "500", "3"])
    assert run.returncode == 0, run.stderr
    assert_recorded(run)


def test_threads_are_told_apart(build_target: BuildTarget, run_under_tool: RunUnderTool) -> None:
    """Each thread's events carry its own id."""
    run = run_under_tool([build_target("threads"), "6", "200"])
    events = assert_recorded(run)
    assert events.filter(pl.col("kind") == int(EventKind.MALLOC))["thread_id"].n_unique() == 6


def test_segments_of_ended_threads_are_used_again(build_target: BuildTarget, run_under_tool: RunUnderTool) -> None:
    """Four hundred threads, four at a time, do not leave four hundred files behind."""
    run = run_under_tool([build_target("thread_exit"), "100"])
    assert_recorded(run)
    segments = list((run.capture.directory / "event_log").glob("events_*.segment"))
    assert len(segments) < 40


@pytest.mark.parametrize("way", ["bare name", "path", "bare name, with threads"])
def test_a_library_opened_later_is_observed(
    build_target: BuildTarget, target_builder: Builder, run_under_tool: RunUnderTool, run_alone: RunUnderTool, way: str
) -> None:
    """Whether dlopen was given a path or a bare name that only the caller's RUNPATH finds."""
    name = str(target_builder.library()) if way == "path" else "libc10.so"
    command = [build_target("dlopen_late"), name, *(["threads"] if "threads" in way else [])]
    run = run_under_tool(command)
    assert_same_for_user(run, run_alone(command))
    assert_recorded(run)


def test_a_library_may_be_closed_and_opened_again(
    build_target: BuildTarget, target_builder: Builder, run_under_tool: RunUnderTool
) -> None:
    """Its entries are patched anew each time, and a block may be freed by the next copy."""
    run = run_under_tool([build_target("dlclose"), target_builder.library(), "25"])
    assert run.returncode == 0, run.stderr
    assert unmatched_frees(assert_recorded(run)) == 0


def test_signal_handlers_may_allocate(build_target: BuildTarget, run_under_tool: RunUnderTool) -> None:
    """Allocations of a handler during a recording are recorded or counted as dropped, and nothing is damaged."""
    run = run_under_tool([build_target("signal_handler"), "300"])
    assert run.returncode == 0, run.stderr
    report = run.report
    assert int(report["pool_calls"]) == int(report["allocs"]) + int(report["frees"]), "the program's own allocator"
    events = events_of(run.capture)
    assert events["sequence"].is_unique().all()
    assert events["kind"].is_in([int(EventKind.MALLOC), int(EventKind.FREE)]).all()
    # A handler that interrupted a recording: its block is dropped and counted, and so its FREE has no block to name.
    dropped = run.capture.header.dropped_reentrant
    assert count(events, EventKind.MALLOC) + dropped == int(report["allocs"])
    assert count(events, EventKind.FREE) + dropped == int(report["frees"])


def test_a_program_that_allocates_nothing_leaves_nothing(
    build_target: BuildTarget, run_under_tool: RunUnderTool
) -> None:
    """No folder for a process without an event."""
    run = run_under_tool([build_target("no_allocations")])
    assert run.returncode == 0, run.stderr
    assert run.report["allocs"] == "0"
    assert list(run.output.glob("msmemscope_*")) == []


def test_a_static_program_is_run_and_said_to_be_unobservable(
    build_target: BuildTarget, run_under_tool: RunUnderTool
) -> None:
    """Without a dynamic loader there is nothing to hook; the user is told so."""
    run = run_under_tool([build_target("statically_linked")])
    assert run.returncode == 0, run.stderr
    assert "static" in run.stderr
    assert run.captures == []


@pytest.mark.parametrize("status", [77, *(pytest.param(status, marks=nightly) for status in (0, 1, 2, 255))])
def test_status_and_streams_are_the_programs_own(
    build_target: BuildTarget, run_under_tool: RunUnderTool, status: int
) -> None:
    """The exit status is passed on, stdin reaches the program, and stdout has nothing else."""
    run = run_under_tool([build_target("exit_status"), str(status)], stdin="a line\nanother\n")
    assert run.returncode == status
    assert run.stdout == "a line\nanother\nallocs=1 frees=1\n"


def test_a_program_may_close_all_its_file_descriptors(
    build_target: BuildTarget, run_under_tool: RunUnderTool, tmp_path: Path
) -> None:
    """Nothing of the recording is written into files that got the numbers of ours."""
    own = tmp_path / "own"
    own.mkdir()
    run = run_under_tool([build_target("closes_all_fds"), own, "50000"])
    assert run.returncode == 0, run.stderr
    assert run.report["files_intact"] == "1"
    assert_recorded(run)


def test_event_log_is_as_small_as_promised(build_target: BuildTarget, run_under_tool: RunUnderTool) -> None:
    """16 bytes an event where no stacks are taken, plus what a growing file has reserved."""
    run = run_under_tool([build_target("alloc_free"), "100000"], "--call-stack=")
    events = assert_recorded(run)
    on_disk = sum(path.stat().st_size for path in (run.capture.directory / "event_log").glob("events_*.segment"))
    assert on_disk <= 16 * events.height + 512 * 1024


def test_native_stacks_name_the_callers(build_target: BuildTarget, run_under_tool: RunUnderTool) -> None:
    """Innermost first, the functions of the program, as far as the depth allows."""
    run = run_under_tool([build_target("recursion"), "40"], "--call-stack=c:20")
    events = assert_recorded(run)
    stack_id = events.filter(pl.col("kind") == int(EventKind.MALLOC))["native_stack_id"][0]
    lines = run.capture.native_stack_text(stack_id).splitlines()
    assert len(lines) == 20
    assert any("fake_tensor_allocate" in line for line in lines[:3])
    assert "recursion" in lines[5]


def test_flight_recorder_keeps_within_its_limit_and_what_is_alive(
    build_target: BuildTarget, run_under_tool: RunUnderTool
) -> None:
    """Oldest events go, are counted, and every block still alive keeps its MALLOC."""
    run = run_under_tool([build_target("alloc_free"), "100000", "50"], "--max-size=1M", "--call-stack=")
    assert run.returncode == 0, run.stderr
    events = events_of(run.capture)
    assert_sound(events)
    header = run.capture.header
    assert header.dropped_recycled > 0
    assert events.height + header.dropped_recycled == 200_050
    assert never_freed(events) == 50
    assert header.log_bytes <= 1024 * 1024

"""Programs of several processes or several images: one capture each, and all of them are found."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from msmemscope.model.events import EventKind
from tests.support.nightly import NIGHT, nightly
from tests.support.recordings import assert_sound, count, events_of, unmatched_frees

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import BuildTarget, RunUnderTool
    from tests.support.tool import ToolRun


FORKS = 20 if NIGHT else 8


def assert_every_process_recorded(run: ToolRun, *, leave_out: tuple[str, ...] = ()) -> None:
    """Assert that each report line has a capture of its own process with exactly those counts."""
    assert run.returncode == 0, run.stderr
    for report in run.reports:
        if report["who"] in leave_out:
            continue
        counts = []
        for capture in run.captures_of(report["pid"]):
            events = events_of(capture)
            assert_sound(events)
            size = report.get("size")
            counts.append((count(events, EventKind.MALLOC, size=size), count(events, EventKind.FREE, size=size)))
        assert (int(report["allocs"]), int(report["frees"])) in counts, f"{report} is not among {counts}"


def test_fork_gives_each_process_its_capture(build_target: BuildTarget, run_under_tool: RunUnderTool) -> None:
    """Parent, child and grandchild each have what they did themselves, and nothing of the others."""
    run = run_under_tool([build_target("fork")])
    assert_every_process_recorded(run)
    assert len(run.captures) == len(run.reports) == 3
    assert sum(unmatched_frees(events_of(capture)) for capture in run.captures) == 0


def test_a_child_may_free_what_it_inherited(build_target: BuildTarget, run_under_tool: RunUnderTool) -> None:
    """The child's capture never saw that block, so it has no event of it; the parent's own block stays alive."""
    run = run_under_tool([build_target("fork"), "inherited"])
    assert_every_process_recorded(run)
    assert sum(unmatched_frees(events_of(capture)) for capture in run.captures) == 0


def test_fork_while_other_threads_allocate(build_target: BuildTarget, run_under_tool: RunUnderTool) -> None:
    """The child never waits for a lock that was held by a thread it does not have."""
    run = run_under_tool([build_target("fork_in_threads"), str(FORKS)], timeout_s=60)
    assert_every_process_recorded(run)
    assert len(run.captures) == FORKS + 1


def test_vfork_leaves_the_parent_as_it_was(build_target: BuildTarget, run_under_tool: RunUnderTool) -> None:
    """The child shares the parent's memory until it calls exec, and opens its capture only then."""
    run = run_under_tool([build_target("vfork_exec")])
    assert_every_process_recorded(run)
    assert len(run.captures) == 2


def test_exec_begins_a_second_capture(build_target: BuildTarget, run_under_tool: RunUnderTool) -> None:
    """One process with two images has two captures. The first one simply ends."""
    run = run_under_tool([build_target("exec")])
    assert_every_process_recorded(run)
    assert len(run.captures) == 2
    assert len({capture.header.process_id for capture in run.captures}) == 1


def test_programs_of_a_shell_script_are_all_observed(
    build_target: BuildTarget, run_under_tool: RunUnderTool, tmp_path: Path
) -> None:
    """`bash user.sh` runs two programs, one in the background."""
    program = build_target("alloc_free")
    script = tmp_path / "user.sh"
    script.write_text(f"{program} 100 &\n{program} 200 3\nwait\n", encoding="utf-8")
    run = run_under_tool(["bash", script])
    assert run.returncode == 0, run.stderr
    counted = sorted(count(events_of(capture), EventKind.MALLOC) for capture in run.captures)
    assert counted == [100, 203]


def test_a_launch_inside_a_launch_keeps_its_results_apart(
    build_target: BuildTarget, run_under_tool: RunUnderTool, tmp_path: Path
) -> None:
    """The inner launch's options hold for its programs; the outer one's for the rest."""
    program = build_target("alloc_free")
    inner_root = tmp_path / "inner"
    inner = f"{sys.executable} -m msmemscope --device=cpu --output={inner_root} -- {program} 100"
    run = run_under_tool(["bash", "-c", f"{program} 200; {inner}; {program} 300"])
    assert run.returncode == 0, run.stderr
    counted = sorted(count(events_of(capture), EventKind.MALLOC) for capture in run.captures)
    assert counted == [200, 300]
    assert len(list(inner_root.glob("msmemscope_*_ascend*"))) == 1


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param("mp_spawn", marks=nightly), "mp_fork"])
def test_multiprocessing_workers_are_observed(
    python_target: Callable[..., list[str | Path]], run_under_tool: RunUnderTool, name: str
) -> None:
    """Workers of either start method have captures, and so has the parent."""
    assert_every_process_recorded(run_under_tool(python_target(name)))


@pytest.mark.torch
@pytest.mark.slow
def test_data_loader_workers_are_observed(
    python_target: Callable[..., list[str | Path]], run_under_tool: RunUnderTool
) -> None:
    """Samples made in worker processes are in the workers' captures."""
    run = run_under_tool(python_target("dataloader_workers"))
    assert run.returncode == 0, run.stderr
    report = run.report
    assert report["total"] == "28"
    made = 0
    for capture in run.captures:
        if capture.header.process_id != int(report["pid"]):
            made += count(events_of(capture), EventKind.MALLOC, size=report["size"])
    assert made >= int(report["samples"])

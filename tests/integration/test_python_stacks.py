"""Python call stacks are the ones that Python itself sees, from every kind of frame, without the GIL."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import polars as pl

from msmemscope.model.events import EventKind
from tests.support.recordings import assert_sound, events_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import RunUnderTool
    from tests.support.targets import Builder


def recorded_stacks(events: pl.DataFrame, kind: EventKind) -> dict[int, int]:
    """The stack id of each block, by its size; every size occurs once."""
    rows = events.filter(pl.col("kind") == int(kind)).select("size", "python_stack_id")
    assert rows["size"].is_unique().all()
    return dict(rows.iter_rows())


def test_python_stacks_equal_what_python_sees(
    python_target: Callable[..., list[str | Path]], target_builder: Builder, run_under_tool: RunUnderTool
) -> None:
    """File, line and function of every frame, for allocations and frees alike."""
    run = run_under_tool(python_target("python_stacks", str(target_builder.library())), "--call-stack=python:200")
    assert run.returncode == 0, run.stderr
    expected = {int(size): lines for size, lines in json.loads(run.stdout).items()}
    events = events_of(run.capture)
    assert_sound(events)
    for kind in (EventKind.MALLOC, EventKind.FREE):
        stacks = recorded_stacks(events, kind)
        assert stacks.keys() == expected.keys()
        for size, lines in expected.items():
            recorded = run.capture.python_stack_text(stacks[size]).splitlines()
            assert recorded[0].endswith(": allocate"), size
            assert recorded[1:] == lines, size


def test_the_depth_limits_the_stack(
    python_target: Callable[..., list[str | Path]], target_builder: Builder, run_under_tool: RunUnderTool
) -> None:
    """The innermost frames stay."""
    run = run_under_tool(python_target("python_stacks", str(target_builder.library())), "--call-stack=python:3")
    assert run.returncode == 0, run.stderr
    expected = {int(size): lines for size, lines in json.loads(run.stdout).items()}
    stacks = recorded_stacks(events_of(run.capture), EventKind.MALLOC)
    for size, lines in expected.items():
        assert run.capture.python_stack_text(stacks[size]).splitlines()[1:] == lines[:2], size


def test_no_stacks_where_none_are_wanted(
    python_target: Callable[..., list[str | Path]], target_builder: Builder, run_under_tool: RunUnderTool
) -> None:
    """An empty --call-stack collects none; without the option, allocations alone have one, for the summary."""
    command = python_target("python_stacks", str(target_builder.library()))
    run = run_under_tool(command, "--call-stack=")
    assert set(events_of(run.capture)["python_stack_id"]) == {0}


def test_stacks_for_the_summary_are_not_written_to_the_dump(
    python_target: Callable[..., list[str | Path]], target_builder: Builder, run_under_tool: RunUnderTool
) -> None:
    """Without --call-stack the columns are empty, and the summary still names source lines."""
    run = run_under_tool(python_target("python_stacks", str(target_builder.library())))
    events = events_of(run.capture)
    allocations = events.filter(pl.col("kind") == int(EventKind.MALLOC))
    assert (allocations["python_stack_id"] != 0).all()
    assert (events.filter(pl.col("kind") == int(EventKind.FREE))["python_stack_id"] == 0).all()
    dump = next(run.capture.directory.glob("device_cpu/dump/memscope_dump_*.csv"))
    columns = pl.read_csv(dump, infer_schema=False)
    assert columns["Call Stack(Python)"].fill_null("").unique().to_list() == [""]
    assert "python_stacks.py(" in run.stderr


def test_an_isolated_python_is_told(
    python_target: Callable[..., list[str | Path]], target_builder: Builder, run_under_tool: RunUnderTool
) -> None:
    """-I keeps our bootstrap out: blocks are still observed, and the coverage says what is not."""
    program, script, *arguments = python_target("python_stacks", str(target_builder.library()))
    run = run_under_tool([program, "-I", script, *arguments], "--call-stack=python")
    assert run.returncode == 0, run.stderr
    events = events_of(run.capture)
    assert_sound(events)
    assert set(events["python_stack_id"]) == {0}
    assert "not observed: python: it ignores PYTHONPATH" in run.stderr

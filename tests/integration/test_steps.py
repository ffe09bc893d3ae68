"""--steps collects the chosen steps and nothing else, and what was alive when one of them began."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from msmemscope.model.events import EventFlag, EventKind
from tests.support.recordings import assert_sound, count, events_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import RunUnderTool
    from tests.support.targets import Builder


def allocated(events: pl.DataFrame, *, shadow: bool = False) -> list[int]:
    """Sizes of blocks that were allocated while collecting, or that were there when it began."""
    of_kind = events.filter(pl.col("kind") == int(EventKind.MALLOC))
    is_shadow = (of_kind["flags"] & int(EventFlag.SHADOW)) != 0
    return sorted(of_kind.filter(is_shadow if shadow else ~is_shadow)["size"].to_list())


def test_without_steps_everything_is_collected(
    python_target: Callable[..., list[str | Path]], target_builder: Builder, run_under_tool: RunUnderTool
) -> None:
    """Each step ends with a STEP event that has its number."""
    run = run_under_tool(python_target("steps", str(target_builder.library())))
    events = events_of(run.capture)
    assert_sound(events)
    assert allocated(events) == [1000, 2000, 3000, 4000, 5000, 6000, 9000]
    assert events.filter(pl.col("kind") == int(EventKind.STEP))["size"].to_list() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("extra", [(), ("--collect-mode=deferred",)], ids=["immediate", "deferred"])
def test_only_the_chosen_steps_are_collected(
    python_target: Callable[..., list[str | Path]],
    target_builder: Builder,
    run_under_tool: RunUnderTool,
    extra: tuple[str, ...],
) -> None:
    """The block from before the second step appears as existing, and its end is known although it lies outside."""
    command = python_target("steps", str(target_builder.library()), *(["start"] if extra else []))
    run = run_under_tool(command, "--steps=2,4", *extra)
    assert run.returncode == 0, run.stderr
    events = events_of(run.capture)
    assert_sound(events)
    assert allocated(events) == [2000, 4000]
    assert allocated(events, shadow=True) == [9000]
    frees = events.filter((pl.col("kind") == int(EventKind.FREE)) & (pl.col("size") == 9000))
    assert frees["flags"].to_list() == [int(EventFlag.SHADOW)]
    assert count(events, EventKind.STEP) == 5


def test_the_first_step_begins_with_the_program(
    python_target: Callable[..., list[str | Path]], target_builder: Builder, run_under_tool: RunUnderTool
) -> None:
    """Events before the first call of step() belong to step 1."""
    run = run_under_tool(python_target("steps", str(target_builder.library())), "--steps=1")
    assert allocated(events_of(run.capture)) == [1000, 9000]

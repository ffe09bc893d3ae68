"""Growth of pinned memory: sizes that add up, and what is set up, fills up or is kept for varied batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from msmemscope.analysis.host.pinned_settings import COMMON
from msmemscope.analysis.leaks.pinned_growth import PinnedGrowth, find_pinned_growth
from msmemscope.analysis.leaks.step_leaks import find_step_leaks
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from msmemscope.recording import build_blocks
from tests.fakes.traces import Trace

if TYPE_CHECKING:
    from collections.abc import Callable

MEBIBYTE = 1 << 20
SITE = "/app/load.py(5): decode"
STEPS = 40


def pinned(size_of: Callable[[int], int], site: str = SITE) -> Trace:
    """A block of pinned memory in each step that has a size for it; none is freed."""
    trace = Trace()
    for step in range(1, STEPS + 1):
        if size := size_of(step):
            trace.malloc(size, site, pool=Pool.HAL, device=DEVICE_CPU)
        trace.step()
    return trace


def test_sizes_that_come_one_after_another_add_up() -> None:
    """Each comes once; the line and the pace are named."""
    found = find_pinned_growth(pinned(lambda step: step * MEBIBYTE if step % 5 == 0 else 0).recording())
    assert found == PinnedGrowth(1, STEPS, sum(range(5, STEPS + 1, 5)) * MEBIBYTE, SITE, COMMON)
    assert found.bytes_per_step == round(found.growth_bytes / (STEPS - 1))


@pytest.mark.parametrize(
    "size_of",
    [
        lambda step: 64 * MEBIBYTE if step <= 4 else 0,
        lambda step: 64 * MEBIBYTE if step in {1, 30} else 0,
        lambda step: MEBIBYTE if step % 5 == 0 else 0,
        lambda step: 64 * MEBIBYTE if step in {1, 3, 5, 7, 22} else 0,
    ],
    ids=["set up", "evaluation", "little", "filled"],
)
def test_no_growth_is_none(size_of: Callable[[int], int]) -> None:
    """Memory that a program takes at its start, once more later, or in small amounts is no growth."""
    assert find_pinned_growth(pinned(size_of).recording()) is None


def test_one_size_in_each_step_is_a_leak_and_many_now_and_then_are_none() -> None:
    """Memory that the program keeps is a leak. Memory that torch's allocator keeps for varied batches is none."""
    kept = find_step_leaks(pinned(lambda _: MEBIBYTE).recording())
    assert kept.leaking_sites["leaked_blocks"].sum() > STEPS / 2
    varied = find_step_leaks(pinned(lambda step: (1 << step % 4) * MEBIBYTE if step % 7 < 2 else 0).recording())
    assert varied.leaking_sites.is_empty()


def test_what_was_asked_for_and_when_memory_came_back_are_of_the_block() -> None:
    """REQUESTED and FREE_COMPLETED name it."""
    trace = Trace()
    block = trace.malloc(16 * MEBIBYTE, SITE, pool=Pool.HAL, device=DEVICE_CPU)
    trace.add(EventKind.REQUESTED, size=9_000_000, extra=block, pool=int(Pool.HAL), device=DEVICE_CPU)
    waiting = trace.malloc(MEBIBYTE)
    trace.free(waiting)
    completed = trace.add(EventKind.FREE_COMPLETED, size=MEBIBYTE, extra=waiting, pool=int(Pool.PTA))
    recording = trace.recording()
    blocks = build_blocks(recording.events, recording.strings)
    assert blocks["requested_bytes"].to_list() == [9_000_000, None]
    assert blocks["returned_sequence"].to_list() == [None, completed]

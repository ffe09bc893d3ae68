"""Growth of host memory without tensors: what is a steady rise, and what is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from msmemscope.analysis.leaks.host_growth import LEAST_HOST_GROWTH_BYTES, HostGrowth, find_host_growth
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from tests.fakes.traces import Trace

if TYPE_CHECKING:
    from collections.abc import Callable

MEBIBYTE = 1 << 20
BASE = 200 * MEBIBYTE


def growth_of(resident: Callable[[int], int], steps: int = 100, tensor_bytes: int = 0) -> HostGrowth | None:
    """What is found where step `i` ends with some resident memory, and keeps one CPU tensor."""
    trace = Trace()
    for step in range(1, steps + 1):
        if tensor_bytes:
            trace.malloc(tensor_bytes, address=step << 32, device=DEVICE_CPU, pool=Pool.HOST)
        trace.add(EventKind.STEP, size=step, extra=BASE + resident(step))
    return find_host_growth(trace.recording())


def test_a_steady_rise_is_growth_with_its_pace() -> None:
    """From the second step on, where the first ones rose at the same pace."""
    found = growth_of(lambda step: step * MEBIBYTE)
    assert found is not None
    assert (found.is_growing, found.growth_bytes, found.bytes_per_step) == (True, 98 * MEBIBYTE, MEBIBYTE)
    assert (found.first_step, found.last_step) == (2, 100)
    assert found.resident_bytes == BASE + 100 * MEBIBYTE


def test_what_is_set_up_at_first_is_not_counted() -> None:
    """Libraries load what they need in the first steps."""
    found = growth_of(lambda step: step * MEBIBYTE + (500 * MEBIBYTE if step > 5 else 0))
    assert found is not None
    assert found.is_growing
    assert found.growth_bytes < 100 * MEBIBYTE


@pytest.mark.parametrize(
    "resident",
    [
        lambda step: 64 * MEBIBYTE * (step > 40),
        lambda step: min(step, 50) * MEBIBYTE,
        lambda step: step % 10 * 20 * MEBIBYTE,
        lambda step: step * (LEAST_HOST_GROWTH_BYTES // 200),
        lambda step: -step * MEBIBYTE,
    ],
    ids=["once", "filled", "swings", "little", "shrinks"],
)
def test_no_steady_rise_is_none(resident: Callable[[int], int]) -> None:
    """What is taken once, fills up, comes and goes, is little, or is given back."""
    found = growth_of(resident)
    assert found is not None
    assert not found.is_growing


def test_tensors_are_no_part_of_it() -> None:
    """They are leaks of their own."""
    found = growth_of(lambda step: step * MEBIBYTE, tensor_bytes=MEBIBYTE)
    assert found is not None
    assert (found.growth_bytes, found.is_growing) == (0, False)


def test_few_steps_are_not_judged() -> None:
    """Nothing is claimed of them."""
    assert growth_of(lambda step: step * MEBIBYTE, steps=20) is None


def test_steps_without_figures_are_not_judged() -> None:
    """As in logs of older versions."""
    trace = Trace()
    for step in range(1, 101):
        trace.add(EventKind.STEP, size=step)
    assert find_host_growth(trace.recording()) is None

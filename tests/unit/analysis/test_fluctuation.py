"""Fluctuation within steps, against an event-by-event reference."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.analysis.leaks.fluctuation import find_fluctuation
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from tests.fakes.traces import Trace
from tests.support.nightly import examples

PLACES = [(0, Pool.PTA), (1, Pool.PTA), (DEVICE_CPU, Pool.HOST)]


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Programs with steps that allocate and free what they like."""
    trace = Trace()
    alive: list[int] = []
    for action in draw(st.lists(st.sampled_from(["malloc", "malloc", "free", "step"]), max_size=60)):
        if action == "malloc":
            device, pool = draw(st.sampled_from(PLACES))
            alive.append(trace.malloc(draw(st.integers(0, 1000)), pool=pool, device=device))
        elif action == "free" and alive:
            trace.free(alive.pop(draw(st.integers(0, len(alive) - 1))))
        elif action == "step":
            trace.step()
    return trace


def reference(trace: Trace) -> dict[tuple[int, int, int], tuple[int, int]]:
    """Device, pool and step to the least and the most in use; only steps with an event of the pool, that have ended."""
    found: dict[tuple[int, int, int], tuple[int, int]] = {}
    in_use: dict[tuple[int, int], int] = {}
    open_step: dict[tuple[int, int], list[int]] = {}
    step = 1
    for row in trace.rows:
        place = (row["device"], row.get("pool", 0))
        if row["kind"] == EventKind.STEP:
            if step >= 2:
                for (device, pool), values in open_step.items():
                    found[device, pool, step] = (min(values), max(values))
            open_step = {}
            step += 1
            continue
        before = in_use.get(place, 0)
        in_use[place] = before + (row["size"] if row["kind"] == EventKind.MALLOC else -row["size"])
        open_step.setdefault(place, [before]).append(in_use[place])
    return found


@examples(by_day=40)
@given(traces())
def test_least_and_most_of_each_step(trace: Trace) -> None:
    """From the second step on, for every pool of every device; the smallest and the largest ratio with their steps."""
    found = find_fluctuation(trace.recording())
    expected = reference(trace)
    columns = ("device", "pool", "step", "minimum_bytes", "maximum_bytes")
    rows = found.steps.select(columns).rows()
    assert rows == sorted(rows)
    assert {row[:3]: row[3:] for row in rows} == expected
    for pool in found.pools:
        ratios = {
            step: least / most
            for (device, number, step), (least, most) in expected.items()
            if (device, number) == (pool.device, pool.pool) and most
        }
        assert pool.smallest.ratio == min(ratios.values()) == ratios[pool.smallest.step]
        assert pool.largest.ratio == max(ratios.values()) == ratios[pool.largest.step]
    assert {(pool.device, pool.pool) for pool in found.pools} == {
        key[:2] for key, value in expected.items() if value[1]
    }


def test_use_at_the_begin_of_a_step_counts() -> None:
    """A step that frees first is at its highest before its first event."""
    trace = Trace()
    for _ in range(3):
        block = trace.malloc(1000)
        trace.step()
        trace.free(block)
        trace.malloc(400)
    (pool,) = find_fluctuation(trace.recording()).pools
    assert (pool.smallest.step, pool.smallest.minimum_bytes, pool.smallest.maximum_bytes) == (2, 0, 1400)
    assert pool.smallest.ratio == pytest.approx(0)


def test_between_ranges_nothing_counts() -> None:
    """Events between two steps of a program are no part of either."""
    trace = Trace()
    for _ in range(3):
        number = trace.begin_range()
        trace.free(trace.malloc(100))
        trace.end_range(number)
        trace.free(trace.malloc(9999))
    assert find_fluctuation(trace.recording()).steps["maximum_bytes"].to_list() == [100, 100]


@pytest.mark.parametrize("steps", [0, 1])
def test_without_a_second_step_there_is_nothing(steps: int) -> None:
    """The first is warm-up."""
    trace = Trace()
    for _ in range(steps):
        trace.malloc(10)
        trace.step()
    found = find_fluctuation(trace.recording())
    assert (found.steps.height, found.pools) == (0, ())

"""Which steps a program told of, by ranges of mstx that nest, overlap, or never end."""

from __future__ import annotations

from msmemscope.analysis.leaks.step_leaks import find_step_leaks
from tests.fakes.traces import Trace


def test_ranges_within_a_step_are_part_of_it() -> None:
    """A loop that marks its parts as steps too has as many steps as it has turns, at any depth."""
    trace = Trace()
    for _ in range(3):
        outer = trace.begin_range()
        for _ in range(2):
            inner = trace.begin_range()
            trace.end_range(trace.begin_range())
            trace.end_range(inner)
        trace.end_range(outer)
    assert trace.recording().steps.rows() == [(1, 1, 10, 0), (2, 11, 20, 0), (3, 21, 30, 0)]


def test_leaks_are_judged_by_the_outer_steps() -> None:
    """A block that lives from one part of a step to the next outlives no step."""
    trace = Trace()
    for _ in range(4):
        outer = trace.begin_range()
        first = trace.begin_range()
        block = trace.malloc(100)
        trace.malloc(200)
        trace.end_range(first)
        for _ in range(3):
            trace.end_range(trace.begin_range())
        trace.free(block)
        trace.end_range(outer)
    found = find_step_leaks(trace.recording())
    assert found.steps_ended == 4
    assert found.leaked.select("step", "size").rows() == [(2, 200), (3, 200)]


def test_steps_of_other_devices_and_overlapping_ones_count() -> None:
    """Only what lies within a range of the same device is left out."""
    trace = Trace()
    first = trace.begin_range()
    on_other = trace.begin_range(device=1)
    second = trace.begin_range()
    trace.end_range(on_other, device=1)
    trace.end_range(first)
    trace.end_range(second)
    trace.end_range(trace.begin_range("step started"))
    assert trace.recording().steps.rows() == [(1, 1, 5, 0), (2, 2, 4, 1), (3, 3, 6, 0)]


def test_a_range_without_an_end_holds_nothing() -> None:
    """Forgotten ends make no step of the whole run: those behind count, those inside of an ended step do not."""
    trace = Trace()
    trace.begin_range()
    second = trace.begin_range()
    trace.begin_range()
    trace.end_range(second)
    trace.begin_range()
    assert trace.recording().steps.rows() == [(1, 1, None, 0), (2, 2, 4, 0), (3, 5, None, 0)]

"""When a program sleeps and wakes: what says so, and how several phases make one cycle."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

import msmemscope
from msmemscope.recording.sleep_cycles import CYCLE_SCHEMA, PHASE_SCHEMA, cycles_of, sleep_cycles, sleep_phases
from tests.fakes.event_log_builder import FUNCTION_CALL, MARK, START_NS, EventLogBuilder

RANGE_START, RANGE_END = 31, 32


def begin(builder: EventLogBuilder, name: str, number: int) -> int:
    """A range begins."""
    return builder.add(RANGE_START, name_id=builder.string(name), extra=number)


def end(builder: EventLogBuilder, number: int) -> int:
    """A range ends."""
    return builder.add(RANGE_END, extra=number)


def test_ranges_that_are_nested_are_one_sleep(builder: EventLogBuilder) -> None:
    """A worker's sleep calls the allocator's; the weights are woken before the cache; other ranges are nothing."""
    outer = begin(builder, "sleep", 1)
    begin(builder, "sleep", 2)
    end(builder, 2)
    begin(builder, "sleep better", 3)
    asleep = end(builder, 1)
    woken = begin(builder, "wake_up", 4)
    end(builder, 4)
    begin(builder, "wake", 5)
    awake = end(builder, 5)
    again = begin(builder, '"sleep"', 6)  # as older dumps have names
    asleep_again = end(builder, 6)
    begin(builder, "wake", 7)  # never ends
    found = sleep_cycles(msmemscope.load(builder.write()))
    assert found.rows() == [(1, outer, asleep, woken, awake), (2, again, asleep_again, None, None)]


def test_marks_and_calls(builder: EventLogBuilder) -> None:
    """A mark begins and ends at once; a call is recorded when it returns, and began at its time."""
    builder.malloc(0x1000, 8, timestamp_ns=START_NS + 10)
    inside = builder.malloc(0x2000, 8, timestamp_ns=START_NS + 30)
    returned = builder.add(
        FUNCTION_CALL, name_id=builder.string("sleep"), timestamp_ns=START_NS + 20, extra=START_NS + 40
    )
    mark = builder.add(MARK, name_id=builder.string("wake_up"), timestamp_ns=START_NS + 50)
    found = sleep_phases(msmemscope.load(builder.write()))
    assert found.rows() == [(True, inside, returned), (False, mark, mark)]


def test_a_call_in_which_nothing_was_recorded(builder: EventLogBuilder) -> None:
    """It begins where it ends."""
    builder.malloc(0x1000, 8, timestamp_ns=START_NS + 10)
    returned = builder.add(
        FUNCTION_CALL, name_id=builder.string("sleep"), timestamp_ns=START_NS + 20, extra=START_NS + 40
    )
    found = sleep_phases(msmemscope.load(builder.write()))
    assert found.rows() == [(True, returned, returned)]


def test_without_any(builder: EventLogBuilder) -> None:
    """Empty tables, of their schemas."""
    builder.malloc(0x1000, 8)
    recording = msmemscope.load(builder.write())
    assert sleep_phases(recording).equals(PHASE_SCHEMA.to_frame())
    assert sleep_cycles(recording).equals(CYCLE_SCHEMA.to_frame())


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 3), st.integers(0, 4))))
def test_cycles_are_runs_of_sleeps_and_wakes(phases: list[tuple[bool, int, int]]) -> None:
    """Against the definition: phases in groups of the same kind, a leading wake left out, two groups to a cycle."""
    rows = []
    moment = 0
    for is_sleep, gap, length in phases:
        moment += gap
        rows.append((is_sleep, moment, moment + length))
    found = cycles_of(pl.DataFrame(rows, PHASE_SCHEMA, orient="row"))
    groups: list[list[tuple[bool, int, int]]] = []
    for row in rows:
        if groups and groups[-1][0][0] == row[0]:
            groups[-1].append(row)
        elif groups or row[0]:
            groups.append([row])
    expected = []
    for number in range(0, len(groups), 2):
        sleeps, wakes = groups[number], groups[number + 1] if number + 1 < len(groups) else []
        asleep = max(until for _, _, until in sleeps)
        woken = wakes[0][1] if wakes else None
        awake = max(until for _, _, until in wakes) if wakes else None
        complete = asleep if woken is None else min(asleep, woken)
        expected.append((number // 2 + 1, sleeps[0][1], complete, woken, awake))
    assert found.rows() == expected

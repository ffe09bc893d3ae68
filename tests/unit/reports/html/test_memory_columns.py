"""Memory over time in columns: no peak is lost, and owners add up."""

from __future__ import annotations

import dataclasses

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.analysis.owners.decomposition import owned_blocks
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from msmemscope.recording import Recording
from msmemscope.reports.html.memory_columns import MOST_OWNERS, OTHER_OWNERS, MemoryColumns, memory_columns
from msmemscope.reports.html.memory_section import Room, memory_sections
from msmemscope.reports.html.time_axis import TimeAxis
from tests.fakes.traces import EVENT_NS, START_NS, Trace
from tests.support.nightly import examples

OWNERS = tuple(f"PTA@owner{number}" for number in range(MOST_OWNERS + 3))


@st.composite
def recordings(draw: st.DrawFn) -> Recording:
    """Blocks of any owners that come and go, at any times, also such that clocks fell back."""
    trace = Trace()
    alive: list[int] = []
    owners: list[str] = []
    for _ in range(draw(st.integers(1, 60))):
        kind = draw(st.sampled_from(["malloc", "malloc", "free", "step", "reserved"]))
        if kind == "malloc":
            alive.append(trace.malloc(draw(st.integers(0, 1 << 40))))
            owners.append(draw(st.sampled_from(OWNERS)))
        elif kind == "free" and alive:
            trace.free(alive.pop(draw(st.integers(0, len(alive) - 1))))
        elif kind == "step":
            trace.step()
        elif kind == "reserved":
            trace.add(EventKind.RESERVED, size=draw(st.integers(0, 1 << 42)), pool=int(Pool.PTA))
    if not owners:
        trace.malloc(1)
        owners.append(OWNERS[0])
    recording = trace.recording()
    gaps = draw(st.lists(st.integers(0, 1 << 50), min_size=len(trace.rows), max_size=len(trace.rows)))
    times = np.array(gaps, dtype=np.uint64) + np.uint64(1)
    if draw(st.booleans()):
        times = np.cumsum(times)
    if draw(st.booleans()):
        times[:] = 0
    return dataclasses.replace(
        recording,
        events=recording.events.with_columns(timestamp_ns=pl.Series(times)),
        blocks=recording.blocks.with_columns(owner=pl.Series(owners, dtype=pl.String)),
    )


def totals_of(recording: Recording) -> dict[int, int]:
    """Bytes in use after each event, added up one by one; 0 before the first."""
    totals = {0: 0}
    in_use = 0
    changes = {row["malloc_sequence"]: row["size"] for row in recording.blocks.iter_rows(named=True)}
    for row in recording.blocks.drop_nulls("free_sequence").iter_rows(named=True):
        changes[row["free_sequence"]] = -row["size"]
    for sequence in recording.events["sequence"]:
        in_use += changes.get(sequence, 0)
        totals[sequence] = in_use
    return totals


def columns_of(recording: Recording, count: int) -> MemoryColumns | None:
    """The columns of the only pool."""
    return memory_columns(recording, recording.blocks, TimeAxis.of(recording), count)


@examples(by_day=25)
@given(recordings(), st.integers(1, 90))
def test_no_peak_is_lost(recording: Recording, count: int) -> None:
    """The highest column is the exact peak, whatever the times and however few the columns."""
    totals = totals_of(recording)
    found = columns_of(recording, count)
    peak = max(totals.values())
    if found is None:
        assert peak == 0
        return
    assert found.peak_bytes == peak == int(found.most_bytes.max())
    assert int(found.most_bytes[found.peak_column]) == peak
    assert totals[found.peak_sequence] == peak
    assert len(found.most_bytes) == count


@examples(by_day=25)
@given(recordings(), st.integers(1, 90))
def test_owners_add_up_to_the_moment_of_each_column(recording: Recording, count: int) -> None:
    """The bytes of a column were in use at one moment of it: the sum of its owners is the total right then."""
    totals = totals_of(recording)
    found = columns_of(recording, count)
    if found is None:
        return
    sums = sum(values for _, values in found.owners)
    assert np.array_equal(sums, found.most_bytes)
    assert [totals[int(sequence)] for sequence in found.sequences] == found.most_bytes.tolist()
    assert all((values >= 0).all() for _, values in found.owners)
    assert len(found.owners) <= MOST_OWNERS + 1


@examples(by_day=25)
@given(recordings(), st.integers(1, 90))
def test_every_event_lies_within_its_column(recording: Recording, count: int) -> None:
    """Between the least and the most that the column says was in use."""
    found = columns_of(recording, count)
    if found is None:
        return
    axis = TimeAxis.of(recording)
    sequences = recording.events["sequence"].to_numpy()
    totals = totals_of(recording)
    for sequence, column in zip(sequences, axis.columns_of(sequences, count), strict=True):
        assert found.least_bytes[column] <= totals[int(sequence)] <= found.most_bytes[column]


def test_a_peak_of_one_event_is_labelled_in_its_own_column() -> None:
    """The moment is that of the event, not that of the column."""
    trace = Trace()
    trace.malloc(10)
    for _ in range(90):
        trace.step()
    short = trace.malloc(5000)
    trace.free(short)
    for _ in range(107):
        trace.step()
    found = columns_of(trace.recording(), 10)
    assert found is not None
    assert (found.peak_bytes, found.peak_sequence) == (5010, 92)
    assert found.peak_column == 4
    assert found.peak_moment == 91 * EVENT_NS
    assert found.most_bytes.tolist() == [10, 10, 10, 10, 5010, 10, 10, 10, 10, 10]
    assert found.least_bytes.tolist() == [0, *[10] * 9]


def test_reserved_memory_stands_beside_what_is_allocated() -> None:
    """The most that the pool held in each column; unknown before the first report, and of other pools."""
    trace = Trace()
    trace.malloc(10)
    trace.add(EventKind.RESERVED, size=4096, pool=int(Pool.PTA))
    trace.add(EventKind.RESERVED, size=8192, pool=int(Pool.ATB))
    trace.add(EventKind.RESERVED, size=1024, pool=int(Pool.PTA))
    found = columns_of(trace.recording(), 4)
    assert found is not None
    assert found.reserved_bytes is not None
    assert found.reserved_bytes.tolist() == [-1, 4096, 4096, 4096]
    trace = Trace()
    trace.malloc(10)
    assert (bare := columns_of(trace.recording(), 4)) is not None
    assert bare.reserved_bytes is None


def test_owners_beyond_the_colours_are_one() -> None:
    """The largest keep their names; the rest is what is missing to the total."""
    trace = Trace()
    for number in range(20):
        trace.malloc(1000 - number)
    recording = trace.recording()
    names = [f"PTA@owner{number:02}" for number in range(20)]
    found = columns_of(dataclasses.replace(recording, blocks=recording.blocks.with_columns(owner=pl.Series(names))), 1)
    assert found is not None
    assert [name for name, _ in found.owners] == [*names[: MOST_OWNERS - 1], OTHER_OWNERS]
    assert found.owners[-1][1].tolist() == [sum(1000 - number for number in range(MOST_OWNERS - 1, 20))]


def test_an_input_without_times_is_drawn_by_numbers_of_events() -> None:
    """As some dumps have none."""
    trace = Trace()
    trace.malloc(10)
    trace.malloc(20)
    recording = trace.recording()
    axis = TimeAxis.of(dataclasses.replace(recording, events=recording.events.with_columns(timestamp_ns=0)))
    assert not axis.is_time
    assert axis.moments.tolist() == [0, 1]
    assert TimeAxis.of(recording).begin_ns == START_NS + EVENT_NS


def test_a_section_has_what_happened_on_its_time_axis() -> None:
    """Steps, marks and failed allocations, each where it was; pools of frameworks come before the driver's."""
    trace = Trace()
    trace.malloc(1 << 20, pool=Pool.HAL)
    trace.malloc(100, "/app/train.py(3): keep", operator="aten.mm")
    trace.mark("warm")
    trace.step()
    trace.add(EventKind.OOM, size=1 << 30, name_id=trace.text("halMemAlloc"))
    recording = trace.recording()
    sections, left_out = memory_sections(
        recording, owned_blocks(recording)[0], pl.Series([], dtype=pl.UInt64), Room.among(1)
    )
    assert not left_out
    assert [(section["device"], section["pool"]) for section in sections] == [("npu:0", "PTA"), ("npu:0", "HAL")]
    chart = sections[0]["chart"]
    assert chart["marks"] == {"more": 0, "names": ["warm"], "moments": [2 * EVENT_NS]}
    assert chart["steps"] == {"numbers": [1], "moments": [0]}
    assert chart["failures"] == {"more": 0, "bytes": [1 << 30], "moments": [4 * EVENT_NS]}
    tree = sections[0]["trees"]["peak"]
    assert [tree["labels"][name] for name in tree["names"]] == [
        "in use at the peak", "/app/train.py(3): keep", "aten.mm",
    ]  # fmt: skip


@pytest.mark.parametrize("pools", [1, 40])
def test_pools_that_get_no_picture_are_counted(pools: int) -> None:
    """A process with very many devices keeps the file small, and the report says what it leaves out."""
    trace = Trace()
    for device in range(pools):
        trace.malloc(100 + device, device=device)
    recording = trace.recording()
    sections, left_out = memory_sections(
        recording, owned_blocks(recording)[0], pl.Series([], dtype=pl.UInt64), Room.among(1)
    )
    assert len(sections) == min(pools, 24)
    assert left_out == (("16 more pools of memory have no picture here",) if pools == 40 else ())

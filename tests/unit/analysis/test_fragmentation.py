"""Segments, their gaps, and what pins them: by hand, and against a map of single bytes."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.analysis.fragmentation.fragmentation import GAP_SCHEMA, SEGMENT_SCHEMA, TOTAL_SCHEMA, find_fragmentation
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.events import EventFlag
from msmemscope.model.pools import Pool
from tests.fakes.traces import EVENT_NS, Trace
from tests.support.nightly import examples

MEBIBYTE = 1 << 20
BASE = 0x12C0_0000_0000
KEEP = "/home/me/keep.py(3): keep"
LAYER = "/home/me/model.py(9): forward"


def two_segments() -> Trace:
    """100 MiB with a block of 1 MiB in its middle that outlives its neighbours; 20 MiB that are full."""
    trace = Trace()
    trace.malloc(100 * MEBIBYTE, pool=Pool.HAL, address=BASE)
    first = trace.malloc(40 * MEBIBYTE, LAYER, address=BASE)
    trace.malloc(MEBIBYTE, KEEP, operator="aten.clone", address=BASE + 40 * MEBIBYTE)
    last = trace.malloc(30 * MEBIBYTE, LAYER, address=BASE + 41 * MEBIBYTE)
    trace.malloc(20 * MEBIBYTE, pool=Pool.HAL, address=BASE + (1 << 32))
    trace.malloc(20 * MEBIBYTE, LAYER, address=BASE + (1 << 32))
    trace.free(first)
    trace.free(last)
    return trace


def test_gaps_and_pins() -> None:
    """The gaps lie around the block that stays; it pins the segment, with its age and call site."""
    found = find_fragmentation(two_segments().recording(), 8)
    assert found.gaps.rows() == [
        (0, BASE, BASE, 40 * MEBIBYTE),
        (0, BASE, BASE + 41 * MEBIBYTE, 59 * MEBIBYTE),
    ]
    assert (found.free_bytes, found.largest_gap_bytes) == (99 * MEBIBYTE, 59 * MEBIBYTE)
    assert found.ratio == pytest.approx(40 / 99)
    assert found.unusable_bytes(59 * MEBIBYTE) == 40 * MEBIBYTE
    assert found.unusable_bytes(60 * MEBIBYTE) == 99 * MEBIBYTE
    (pinned,) = found.pinned().rows(named=True)
    assert (pinned["block_count"], pinned["free_bytes"], pinned["gap_count"]) == (1, 99 * MEBIBYTE, 2)
    assert (pinned["pin_sequence"], pinned["pin_size"], pinned["pin_site"]) == (3, MEBIBYTE, KEEP)
    assert (pinned["pin_operator"], pinned["pin_age_ns"], pinned["pin_is_freed"]) == ("aten.clone", 5 * EVENT_NS, False)
    assert found.coverage == ()
    assert found.segments.schema == SEGMENT_SCHEMA


def test_what_is_freed_last_pins() -> None:
    """While all three are alive, what is never freed pins; of blocks that are freed, the one that is freed last."""
    trace = two_segments()
    before = find_fragmentation(trace.recording(), 6)
    assert before.segments["pin_sequence"].to_list() == [3, 6]
    trace.free(3)
    after = find_fragmentation(trace.recording(), 6)
    assert (after.segments["pin_sequence"][0], after.segments["pin_is_freed"][0]) == (3, True)


def test_a_segment_without_blocks_can_be_returned() -> None:
    """It is known to be a pool's by what lay in it; it counts as free, and nothing pins it."""
    trace = two_segments()
    trace.free(3)
    found = find_fragmentation(trace.recording(), 9)
    total = found.totals.row(0, named=True)
    assert (total["returnable_bytes"], total["free_bytes"]) == (100 * MEBIBYTE, 100 * MEBIBYTE)
    assert found.segments["pin_sequence"].to_list() == [None, 6]
    assert found.pinned().is_empty()


def test_what_was_there_comes_in_any_order() -> None:
    """When collection begins, a block may be told of before the memory of the driver that it lies in."""
    trace = Trace()
    gone = trace.malloc(20, pool=Pool.PTA, address=BASE + 200, flags=EventFlag.SHADOW)
    trace.malloc(20, LAYER, address=BASE + 10, flags=EventFlag.SHADOW)
    trace.malloc(100, pool=Pool.HAL, address=BASE, flags=EventFlag.SHADOW)
    trace.free(gone)
    trace.malloc(100, pool=Pool.HAL, address=BASE + 200, flags=EventFlag.SHADOW)
    found = find_fragmentation(trace.recording(), 6)
    assert found.segments["address"].to_list() == [BASE]
    assert found.gaps.select("address", "size").rows() == [(BASE, 10), (BASE + 30, 70)]


def test_blocks_over_several_blocks_of_the_driver() -> None:
    """Pieces that adjoin each other are one segment where a block reaches over them, with one gap behind it."""
    trace = Trace()
    for piece in range(4):
        trace.malloc(20, pool=Pool.HAL, address=BASE + 20 * piece)
    trace.malloc(20, pool=Pool.HAL, address=BASE + 100)
    trace.malloc(45, LAYER, address=BASE + 5)
    found = find_fragmentation(trace.recording(), 6)
    assert found.segments.select("address", "size", "driver_blocks", "free_bytes").rows() == [(BASE, 80, 4, 35)]
    assert found.gaps.select("address", "size").rows() == [(BASE, 5), (BASE + 50, 30)]


def test_neighbours_by_chance_are_two_segments() -> None:
    """Gaps that meet at the border of two segments are two gaps: no block may lie across."""
    trace = Trace()
    trace.malloc(20, pool=Pool.HAL, address=BASE)
    trace.malloc(20, pool=Pool.HAL, address=BASE + 20)
    trace.malloc(10, LAYER, address=BASE)
    trace.malloc(10, LAYER, address=BASE + 30)
    assert find_fragmentation(trace.recording(), 4).gaps["size"].to_list() == [10, 10]


def test_a_pool_in_a_pool_counts_once() -> None:
    """ATB hands out parts of a block that it has from the caching allocator."""
    trace = Trace()
    trace.malloc(100, pool=Pool.HAL, address=BASE)
    trace.malloc(60, LAYER, address=BASE)
    trace.malloc(30, LAYER, pool=Pool.ATB, address=BASE + 10)
    total = find_fragmentation(trace.recording(), 3).totals.row(0, named=True)
    assert (total["in_use_bytes"], total["free_bytes"]) == (60, 40)


def test_what_lies_nowhere_is_told() -> None:
    """Physical memory has handles for addresses: the blocks in it are counted, and the coverage says so."""
    trace = Trace()
    trace.malloc(100, pool=Pool.HAL, address=77)
    trace.malloc(60, LAYER, address=BASE)
    found = find_fragmentation(trace.recording(), 2)
    assert found.totals.select("segment_count", "unplaced_bytes", "unplaced_blocks").rows() == [(0, 60, 1)]
    assert "60 bytes in use on npu:0 lie in no known block" in found.coverage[0]


def test_without_memory_of_the_driver() -> None:
    """Nothing is guessed."""
    trace = Trace()
    trace.malloc(60, LAYER, address=BASE)
    found = find_fragmentation(trace.recording(), 1)
    assert found.segments.is_empty()
    assert found.coverage == ("fragmentation: memory of the driver was not observed, so segments are not known",)
    empty = find_fragmentation(Trace().recording(), 1)
    assert (empty.free_bytes, empty.largest_gap_bytes, empty.ratio) == (0, 0, 0.0)
    assert (empty.gaps.schema, empty.totals.schema) == (GAP_SCHEMA, TOTAL_SCHEMA)


def test_devices_are_apart() -> None:
    """The same addresses on two devices; memory of the host has no segments."""
    trace = Trace()
    for device, size in ((0, 10), (1, 30), (DEVICE_CPU, 20)):
        trace.malloc(100, pool=Pool.HAL, address=BASE, device=device)
        trace.malloc(size, LAYER, address=BASE, device=device)
    found = find_fragmentation(trace.recording(), 6)
    assert found.totals.select("device", "free_bytes").rows() == [(0, 90), (1, 70)]
    assert found.of(1).free_bytes == 70
    assert find_fragmentation(trace.recording(), 6, device=1).gaps.equals(found.of(1).gaps)


@st.composite
def layouts(draw: st.DrawFn) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Begin and end of blocks of the driver, some of them adjoining, and of blocks in the room that they span."""
    driver = []
    position = 1000
    for _ in range(draw(st.integers(1, 6))):
        position += draw(st.sampled_from([0, 0, 3, 7]))
        size = draw(st.integers(1, 12))
        driver.append((position, position + size))
        position += size
    blocks = []
    edge = 996
    for _ in range(draw(st.integers(0, 10))):
        edge += draw(st.integers(0, 5))
        size = draw(st.integers(1, 9))
        blocks.append((edge, edge + size))
        edge += size
    return driver, blocks


@examples(by_day=30)
@given(layouts())
def test_every_byte_is_used_or_free(layout: tuple[list[tuple[int, int]], list[tuple[int, int]]]) -> None:
    """Gaps and blocks together are the segment, byte by byte; what is in no segment is told."""
    driver, blocks = layout
    trace = Trace()
    for begin, end in driver:
        trace.malloc(end - begin, pool=Pool.HAL, address=begin)
    for begin, end in blocks:
        trace.malloc(end - begin, LAYER, address=begin)
    found = find_fragmentation(trace.recording(), len(trace.rows))
    used = {byte for begin, end in blocks for byte in range(begin, end)}
    placed = set()
    for row in found.segments.iter_rows(named=True):
        segment = set(range(row["address"], row["address"] + row["size"]))
        inside = {
            byte for begin, end in blocks if begin in segment for byte in range(begin, min(end, max(segment) + 1))
        }
        placed |= inside
        gaps = found.gaps.filter(pl.col("segment_address") == row["address"])
        in_gaps = {
            byte for address, size in gaps["address", "size"].iter_rows() for byte in range(address, address + size)
        }
        assert in_gaps == segment - inside
        assert int(gaps["size"].sum()) == len(in_gaps) == row["free_bytes"]
        assert row["in_use_bytes"] + row["free_bytes"] == row["size"]
        assert row["largest_gap_bytes"] == gaps["size"].to_numpy().max(initial=0)
        assert row["block_count"] == sum(begin in segment for begin, _ in blocks)
    all_segments = sum(found.segments["size"])
    covered = {byte for begin, end in driver for byte in range(begin, end)}
    assert all_segments <= len(covered)
    # Each block of the driver that a block begins in belongs to a segment.
    for begin, end in driver:
        if any(begin <= start < end for start, _ in blocks):
            assert any(
                row["address"] <= begin < row["address"] + row["size"] for row in found.segments.iter_rows(named=True)
            )
    total = sum(found.totals["unplaced_bytes"])
    assert total == len(used - placed)

"""Histories of a caching allocator: the counters that the allocator itself had at each moment come out of them."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.formats.reading import load
from msmemscope.model.events import EventFlag, EventKind
from msmemscope.model.pools import Pool
from tests.support.nightly import examples

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

MIB = 1 << 20
UNIT = 512
SIZES = st.one_of(st.integers(1, 3000), st.integers(900_000, 3 * MIB), st.integers(9 * MIB, 24 * MIB))
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("alloc", "alloc", "free", "complete", "release", "oom")), SIZES, st.integers(0, 1 << 30)
    ),
    max_size=40,
)


@dataclass
class Allocator:
    """PyTorch's caching allocator in its simplest form: best fit, blocks cut from the front, neighbours merged.

    Segments are lists of pieces: address, size, what was requested (0 of a gap), and whether its owner freed it.
    """

    padding: int = 0
    trace: list[dict[str, Any]] = field(default_factory=list)
    segments: list[tuple[bool, list[list[Any]]]] = field(default_factory=list)
    next_address: int = 0x7F0000000000
    counters: list[tuple[int, int, int]] = field(default_factory=list)

    def note(self, action: str, address: int, size: int) -> None:
        """Write an entry."""
        self.trace.append(
            {"action": action, "addr": address, "size": size, "stream": 3, "pool_id": (0, 0), "frames": []}
        )

    def allocate(self, requested: int) -> None:
        """Cut a block out of the smallest gap that is large enough, or of a new segment."""
        size = max(-(-(requested + self.padding) // UNIT) * UNIT, UNIT)
        is_small = size <= MIB
        fits = [
            (piece[1], piece[0], pieces)
            for small, pieces in self.segments
            if small == is_small
            for piece in pieces
            if not piece[2] and piece[1] >= size
        ]
        if not fits:
            total = 2 * MIB if is_small else 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB
            pieces = [[self.next_address, total, 0, False]]
            self.segments.append((is_small, pieces))
            self.note("segment_alloc", self.next_address, total)
            fits = [(total, self.next_address, pieces)]
            self.next_address += total
        _, address, pieces = min(fits, key=lambda fit: fit[:2])
        place = next(place for place, piece in enumerate(pieces) if piece[0] == address)
        left = pieces[place][1] - size
        if left >= UNIT if is_small else left > MIB:
            pieces.insert(place + 1, [address + size, left, 0, False])
            pieces[place][1] = size
        pieces[place][2] = requested
        self.note("alloc", address, requested)

    def free(self, choice: int, *, is_complete: bool) -> None:
        """End a block for its owner, or hand its memory back."""
        of_blocks = [piece for _, pieces in self.segments for piece in pieces if piece[2] and piece[3] == is_complete]
        if not of_blocks:
            return
        piece = of_blocks[choice % len(of_blocks)]
        self.note("free_completed" if is_complete else "free_requested", piece[0], piece[2])
        piece[3] = not is_complete
        if is_complete:
            piece[2] = 0
            self.merge()

    def merge(self) -> None:
        """Make one gap of neighbours."""
        for _, pieces in self.segments:
            for place in range(len(pieces) - 1, 0, -1):
                if not pieces[place][2] and not pieces[place - 1][2]:
                    pieces[place - 1][1] += pieces.pop(place)[1]

    def release(self) -> None:
        """Give back segments without blocks."""
        for entry in [entry for entry in self.segments if len(entry[1]) == 1 and not entry[1][0][2]]:
            self.segments.remove(entry)
            self.note("segment_free", entry[1][0][0], entry[1][0][1])

    def mark(self) -> None:
        """Note the counters, and an entry to find the moment by."""
        pieces = [piece for _, pieces in self.segments for piece in pieces]
        allocated = sum(piece[1] for piece in pieces if piece[2] and not piece[3])
        self.counters.append((allocated, sum(piece[2] for piece in pieces), sum(piece[1] for piece in pieces)))
        self.note("snapshot", 0, 0)

    def run(self, steps: list[tuple[str, int, int]]) -> None:
        """Do what the steps name."""
        for step, size, choice in steps:
            if step == "alloc":
                self.allocate(size)
            elif step == "release":
                self.release()
            elif step == "oom":
                self.note("oom", 0, 1 << 45)
            else:
                self.free(choice, is_complete=step == "complete")
            self.mark()

    def snapshot(self, latest: int) -> dict[str, Any]:
        """Return what torch would write, with the latest entries of the history."""
        states = {True: "active_pending_free", False: "active_allocated"}
        segments = [
            {
                "device": 0, "address": pieces[0][0], "total_size": sum(piece[1] for piece in pieces), "stream": 3,
                "segment_pool_id": (0, 0), "is_expandable": False,
                "blocks": [
                    {"address": address, "size": size, "requested_size": requested, "frames": [],
                     "state": states[is_freed] if requested else "inactive"}
                    for address, size, requested, is_freed in pieces
                ],
            }
            for _, pieces in self.segments
        ]  # fmt: skip
        return {"segments": segments, "device_traces": [self.trace[len(self.trace) - latest :]]}


def totals(blocks: pl.DataFrame, end: str, size: str, moments: list[int]) -> list[int]:
    """The sum of some blocks at each moment, by the definition."""
    lives = blocks.select("malloc_sequence", end, pl.col(size).fill_null(0)).rows()
    return [
        sum(bytes_ for begin, gone, bytes_ in lives if begin <= now and (gone is None or gone > now)) for now in moments
    ]


@examples(by_day=30)
@given(steps=STEPS, padding=st.sampled_from((0, 32)), cut=st.integers(0, 60))
def test_counters_of_an_allocator(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]], padding: int, cut: int
) -> None:
    """Allocated, requested and reserved bytes, at every moment, also where the history begins late."""
    allocator = Allocator(padding)
    allocator.allocate(1000)  # a block by which the padding is known, and which no step frees
    pinned = allocator.segments.pop()
    allocator.run(steps)
    allocator.segments.append(pinned)
    allocator.mark()
    latest = max(len(allocator.trace) - cut, 1)
    path = tmp_path_factory.mktemp("history") / "snapshot.pickle"
    path.write_bytes(pickle.dumps(allocator.snapshot(latest)))
    recording = load(path)
    moments = recording.events.filter(pl.col("kind") == EventKind.SNAPSHOT)["sequence"].to_list()
    is_segment = pl.col("pool") == Pool.HAL
    blocks, segments = recording.blocks.filter(~is_segment), recording.blocks.filter(is_segment)
    found = list(
        zip(
            totals(blocks, "free_sequence", "size", moments),
            totals(blocks, "returned_sequence", "requested_bytes", moments),
            totals(segments, "free_sequence", "size", moments),
            strict=True,
        )
    )
    of_pinned = (pinned[1][0][1], pinned[1][0][2], sum(piece[1] for piece in pinned[1]))
    expected = [tuple(map(sum, zip(counters, of_pinned, strict=True))) for counters in allocator.counters[:-1]]
    expected.append(allocator.counters[-1])
    assert found == expected[len(expected) - len(found) :]
    timeline = recording.timeline(pool="PTA").select("sequence", "in_use_bytes", "reserved_bytes")
    at = pl.DataFrame({"sequence": pl.Series(moments, dtype=pl.UInt64)}).join_asof(timeline, on="sequence")
    assert at["in_use_bytes"].to_list() == [counters[0] for counters in found]
    assert at["reserved_bytes"].to_list() == [counters[2] for counters in found]
    assert not any("estimates" in line for line in recording.coverage)


@examples(by_day=30)
@given(
    ranges=st.lists(st.tuples(st.booleans(), st.integers(0, 12), st.integers(1, 6)), max_size=20),
    cut=st.integers(0, 10),
)
def test_segments_that_grow_and_shrink_page_by_page(
    tmp_path_factory: pytest.TempPathFactory, ranges: list[tuple[bool, int, int]], cut: int
) -> None:
    """Pages that were mapped at once may be unmapped in parts, and the other way round: pages are counted."""
    page, base = 2 * MIB, 0x7F0000000000
    mapped: set[int] = set()
    trace, held = [], []
    for is_map, first, count in ranges:
        pages = set(range(first, first + count))
        if is_map == bool(mapped & pages) or (not is_map and not pages <= mapped):
            continue
        mapped = mapped | pages if is_map else mapped - pages
        action = "segment_map" if is_map else "segment_unmap"
        trace.append({"action": action, "addr": base + page * first, "size": page * count, "stream": 0, "frames": []})
        held.append(page * len(mapped))
    segments = [
        {"device": 0, "address": base + page * number, "total_size": page, "is_expandable": True, "blocks": []}
        for number in sorted(mapped)
    ]
    path = tmp_path_factory.mktemp("history") / "snapshot.pickle"
    path.write_bytes(pickle.dumps({"segments": segments, "device_traces": [trace[cut:]]}))
    recording = load(path)
    reserved = recording.events.filter(pl.col("kind") == EventKind.RESERVED)["size"].to_list()
    expected = held[cut:]
    before = held[cut - 1] if 0 < cut <= len(held) else held[-1] if held and cut else 0
    assert reserved == ([before] if before else []) + expected
    lives = recording.blocks.filter(pl.col("free_sequence").is_null())
    assert lives["size"].sum() == page * len(mapped)
    assert (recording.blocks["size"] > 0).all()
    kinds = recording.blocks.join(recording.attributes, on="attribute_id", how="left")["allocation_kind"].unique()
    assert kinds.to_list() in ([], ["map"])


def test_what_was_freed_while_nothing_was_recorded(tmp_path: Path) -> None:
    """A second allocation at an address ends the first one, unseen; so does a second segment there."""
    allocator = Allocator()
    allocator.note("segment_alloc", 0x1000, 2 * MIB)
    allocator.note("alloc", 0x1000, 700)
    allocator.note("segment_alloc", 0x1000, 2 * MIB)
    allocator.note("alloc", 0x1000, 100)
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [allocator.trace]}))
    recording = load(path)
    alive = recording.blocks.filter(pl.col("free_sequence").is_null())
    assert alive.select("pool", "size", "requested_bytes", "stream_id", "pool_id").rows() == [
        (Pool.HAL, 2 * MIB, None, 3, "0/0"),
        (Pool.PTA, 512, 100, 3, "0/0"),
    ]
    frees = recording.events.filter(pl.col("kind") == EventKind.FREE)
    assert frees["flags"].to_list() == [int(EventFlag.SHADOW)] * 2
    assert recording.blocks["size"].to_list() == [2 * MIB, 1024, 2 * MIB, 512]

"""Peak and blocks never freed, against an event-by-event reference."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.analysis.peak.overview import blocks_at_peaks, find_never_freed, find_peaks
from msmemscope.model.events import EventKind
from msmemscope.recording import EVENT_SCHEMA, STRING_SCHEMA, build_blocks
from msmemscope.recording.block_sets import NO_PYTHON_STACK, OUTSIDE_OPERATORS, BlockSet, Ranking, Share
from msmemscope.recording.timeline import peak_moments
from tests.support.nightly import examples

OPERATORS = {1: "aten.add", 2: "aten.mul", 3: "aten.mm"}
LINES = {1: "train.py(1): step", 2: "train.py(2): step", 3: "train.py(2): step"}
STRINGS = pl.DataFrame({"id": list(OPERATORS), "text": list(OPERATORS.values())}, schema=STRING_SCHEMA)
SOURCE_LINES = pl.DataFrame({"id": list(LINES), "text": list(LINES.values())}, schema=STRING_SCHEMA)
NO_LIMIT = 1000


class Block(NamedTuple):
    """One block of the reference."""

    size: int
    operator: str
    line: str


def rows_to_frame(rows: list[dict[str, int]]) -> pl.DataFrame:
    """An event table; what a row does not say is 0."""
    columns = {name: [row.get(name, 0) for row in rows] for name in EVENT_SCHEMA.names()}
    return pl.DataFrame(columns, schema=EVENT_SCHEMA)


@st.composite
def event_rows(draw: st.DrawFn) -> list[dict[str, int]]:
    """Allocations and frees of several pools in any order that a program could have, with other events between them."""
    rows: list[dict[str, int]] = []
    alive: list[dict[str, int]] = []
    for number in range(1, draw(st.integers(0, 40)) + 1):
        row = {"sequence": number, "timestamp_ns": number * 10}
        action = draw(st.sampled_from(["malloc", "malloc", "free", "foreign free", "operator"]))
        if action == "free" and not alive:
            action = "malloc"
        if action == "malloc":
            row |= {
                "kind": int(EventKind.MALLOC),
                "size": draw(st.integers(0, 1 << 40)),
                "device": draw(st.sampled_from([-2, 0, 1])),
                "pool": draw(st.sampled_from([2, 3])),
                "name_id": draw(st.integers(0, 3)),
                "python_stack_id": draw(st.integers(0, 4)),
            }
            alive.append(row)
        elif action == "free":
            block = alive.pop(draw(st.integers(0, len(alive) - 1)))
            row |= {key: block[key] for key in ("size", "device", "pool")}
            row |= {"kind": int(EventKind.FREE), "extra": block["sequence"]}
        elif action == "foreign free":
            # Allocated before anything was observed, or dropped by the flight recorder.
            extra = draw(st.sampled_from([0, 10_000]))
            row |= {"kind": int(EventKind.FREE), "device": -2, "pool": 2, "size": 5, "extra": extra}
        else:
            row |= {"kind": int(EventKind.ATEN_START), "device": -2}
        rows.append(row)
    return rows


Pool = tuple[int, int]


def reference(rows: list[dict[str, int]]) -> tuple[dict[Pool, tuple[int, int, list[Block]]], dict[Pool, list[Block]]]:
    """Peak bytes, moment and blocks by pool; blocks never freed by pool."""
    alive: dict[Pool, dict[int, Block]] = {}
    peaks: dict[Pool, tuple[int, int, list[Block]]] = {}
    for row in rows:
        pool = (row.get("device", 0), row.get("pool", 0))
        if row.get("kind") == int(EventKind.MALLOC):
            operator = OPERATORS.get(row["name_id"], OUTSIDE_OPERATORS)
            block = Block(row["size"], operator, LINES.get(row["python_stack_id"], NO_PYTHON_STACK))
            alive.setdefault(pool, {})[row["sequence"]] = block
            total = sum(one.size for one in alive[pool].values())
            if total > peaks.get(pool, (0,))[0]:
                peaks[pool] = (total, row["sequence"], list(alive[pool].values()))
        elif row.get("kind") == int(EventKind.FREE):
            alive.get(pool, {}).pop(row["extra"], None)
    return peaks, {pool: list(blocks.values()) for pool, blocks in alive.items() if blocks}


def expected_ranking(blocks: list[Block], field: str) -> set[Share]:
    """Every label with its bytes and blocks."""
    sizes: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for block in blocks:
        label = getattr(block, field)
        sizes[label] += block.size
        counts[label] += 1
    return {Share(label, sizes[label], counts[label]) for label in counts}


def assert_same(described: BlockSet, blocks: list[Block]) -> None:
    """The same blocks, however they are grouped."""
    assert described.size_bytes == sum(block.size for block in blocks)
    assert described.block_count == len(blocks)
    assert set(described.by_operator.shares) == expected_ranking(blocks, "operator")
    assert set(described.by_source_line.shares) == expected_ranking(blocks, "line")


@examples(by_day=30)
@given(event_rows())
def test_peaks_and_never_freed_agree_with_the_reference(rows: list[dict[str, int]]) -> None:
    """Bytes, moment, blocks in use and their labels, for every pool of every device."""
    blocks = build_blocks(rows_to_frame(rows), STRINGS)
    peaks, rest = reference(rows)

    found = find_peaks(blocks, peak_moments(blocks), SOURCE_LINES, NO_LIMIT)
    assert {(peak.device, peak.pool): (peak.peak_bytes, peak.sequence) for peak in found} == {
        pool: (size, sequence) for pool, (size, sequence, _) in peaks.items()
    }
    for peak in found:
        assert peak.timestamp_ns == peak.sequence * 10
        assert peak.in_use.size_bytes == peak.peak_bytes
        assert_same(peak.in_use, peaks[peak.device, peak.pool][2])

    never = find_never_freed(blocks, SOURCE_LINES, NO_LIMIT)
    assert [(one.device, one.pool) for one in never] == sorted(rest)
    for one in never:
        assert_same(one.blocks, rest[one.device, one.pool])


@examples(by_day=30)
@given(event_rows(), st.integers(0, 3))
def test_what_is_not_listed_is_in_other(rows: list[dict[str, int]], limit: int) -> None:
    """Listed and other together are the total, the largest are the listed, and one other is never hidden."""
    blocks = build_blocks(rows_to_frame(rows), STRINGS)
    for peak in find_peaks(blocks, peak_moments(blocks), SOURCE_LINES, limit):
        for ranking in (peak.in_use.by_operator, peak.in_use.by_source_line):
            assert_complete(ranking, peak.in_use)
            assert len(ranking.shares) <= limit + 1
            assert ranking.other is None or len(ranking.shares) == limit


def assert_complete(ranking: Ranking, blocks: BlockSet) -> None:
    """Nothing is lost, and the order is by size."""
    shares = [*ranking.shares, *([ranking.other] if ranking.other else [])]
    assert sum(share.size_bytes for share in shares) == blocks.size_bytes
    assert sum(share.block_count for share in shares) == blocks.block_count
    sizes = [share.size_bytes for share in ranking.shares]
    assert sizes == sorted(sizes, reverse=True)


def test_the_first_of_equal_peaks_is_taken() -> None:
    """Reached, left and reached again: the moment is the first one."""
    rows = [
        {"sequence": 1, "kind": 1, "size": 8, "device": -2, "pool": 2, "timestamp_ns": 1},
        {"sequence": 2, "kind": 2, "size": 8, "device": -2, "pool": 2, "extra": 1, "timestamp_ns": 2},
        {"sequence": 3, "kind": 1, "size": 8, "device": -2, "pool": 2, "timestamp_ns": 3},
    ]
    blocks = build_blocks(rows_to_frame(rows), STRINGS)
    (peak,) = find_peaks(blocks, peak_moments(blocks), SOURCE_LINES, 5)
    assert (peak.peak_bytes, peak.sequence, peak.timestamp_ns) == (8, 1, 1)


def test_nothing_recorded() -> None:
    """An empty capture has no peak."""
    blocks = build_blocks(rows_to_frame([]), STRINGS)
    assert find_peaks(blocks, peak_moments(blocks), SOURCE_LINES, 5) == ()
    assert find_never_freed(blocks, SOURCE_LINES, 5) == ()
    assert blocks_at_peaks(blocks, peak_moments(blocks)) == []

"""Columns find what a loop over rows finds."""

from __future__ import annotations

from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.model.events import EventKind
from msmemscope.recording.block_pairing import block_sequences, outermost_operators, range_numbers

SCHEMA = {
    "sequence": pl.UInt64(), "kind": pl.UInt8(), "pool": pl.UInt8(), "device": pl.Int16(), "address": pl.UInt64(),
    "size": pl.Int64(), "allocation_id": pl.UInt64(),
}  # fmt: skip
MALLOC, FREE, READ = EventKind.MALLOC, EventKind.FREE, EventKind.ACCESS_READ

rows_without_ids = st.lists(
    st.tuples(st.sampled_from([MALLOC, FREE, READ]), st.integers(3, 4), st.integers(0, 12), st.integers(1, 6)),
    max_size=60,
)


@given(rows_without_ids)
def test_blocks_by_address(run: list[tuple[int, int, int, int]]) -> None:
    """A FREE ends the latest block of its address; an access belongs to a live block that holds all of it."""
    rows = [
        {"sequence": 10 + i, "kind": int(kind), "pool": pool, "device": 0, "address": address, "size": size,
         "allocation_id": 0}
        for i, (kind, pool, address, size) in enumerate(run)
    ]  # fmt: skip
    expected, alive = [], dict[tuple[int, int], dict[str, Any]]()
    for row in rows:
        key = (row["pool"], row["address"])
        found = 0
        if row["kind"] == MALLOC:
            alive[key] = row
        elif row["kind"] == FREE:
            found = alive.pop(key, {"sequence": 0})["sequence"]
        elif key in alive:
            found = alive[key]["sequence"]
        else:
            around = [
                block for (pool, base), block in alive.items()
                if pool == row["pool"] and base <= row["address"] and row["address"] + row["size"] <= base + block["size"]
            ]  # fmt: skip
            found = max(around, key=lambda block: block["address"])["sequence"] if around else 0
        expected.append(found)
    assert block_sequences(pl.DataFrame(rows, schema=SCHEMA)).to_list() == expected


@given(st.lists(st.tuples(st.sampled_from([MALLOC, FREE, READ]), st.integers(1, 5)), max_size=40))
def test_blocks_by_their_numbers(run: list[tuple[int, int]]) -> None:
    """Addresses do not matter then, and an access may come after the free."""
    rows = [
        {"sequence": 10 + i, "kind": int(kind), "pool": 3, "device": 0, "address": i, "size": 1, "allocation_id": block}
        for i, (kind, block) in enumerate(run)
    ]
    expected = []
    latest: dict[int, int] = {}
    freed: set[int] = set()
    for row in rows:
        block = row["allocation_id"]
        if row["kind"] == MALLOC:
            latest[block] = row["sequence"]
            freed.discard(block)
            expected.append(0)
        elif row["kind"] == FREE:
            expected.append(0 if block in freed else latest.get(block, 0))
            freed.add(block)
        else:
            expected.append(latest.get(block, 0))
    assert block_sequences(pl.DataFrame(rows, schema=SCHEMA)).to_list() == expected


def ranges(*rows: tuple[int, int, int]) -> pl.DataFrame:
    """Begins and ends: kind, device and number of an end."""
    return pl.DataFrame(
        {
            "sequence": pl.Series(range(1, len(rows) + 1), dtype=pl.UInt64),
            "kind": pl.Series([kind for kind, _, _ in rows], dtype=pl.UInt8),
            "device": pl.Series([device for _, device, _ in rows], dtype=pl.Int16),
            "extra": pl.Series([number for _, _, number in rows], dtype=pl.UInt64),
        }
    )


BEGIN, END = EventKind.RANGE_START, EventKind.RANGE_END


def test_ranges_by_their_numbers() -> None:
    """Ranges that overlap without being nested."""
    numbers = range_numbers(ranges((BEGIN, 0, 0), (BEGIN, 0, 0), (END, 0, 1), (END, 0, 2))).sort("sequence")
    assert numbers["extra"].to_list() == [1, 2, 1, 2]


def test_ranges_whose_numbers_are_lost() -> None:
    """An end belongs to the latest range that is open on its device."""
    numbers = range_numbers(
        ranges((BEGIN, 0, 0), (BEGIN, 0, 0), (BEGIN, 1, 0), (END, 0, 0), (END, 0, 0), (END, 1, 0))
    ).sort("sequence")
    assert numbers["extra"].to_list() == [1, 2, 3, 2, 1, 3]


def test_outermost_operator_of_each_thread() -> None:
    """Nested operators belong to the outermost one, and an end whose begin was not seen does no harm."""
    start, end = EventKind.ATEN_START, EventKind.ATEN_END
    run = [
        (end, 1, 9),
        (start, 1, 5),
        (start, 1, 6),
        (MALLOC, 1, 0),
        (MALLOC, 2, 0),
        (end, 1, 6),
        (end, 1, 5),
        (FREE, 1, 0),
    ]
    rows = pl.DataFrame(
        run, schema={"kind": pl.UInt8(), "thread_id": pl.UInt32(), "name_id": pl.UInt32()}, orient="row"
    )
    assert outermost_operators(rows).to_list() == [0, 5, 5, 5, 0, 5, 0, 0]

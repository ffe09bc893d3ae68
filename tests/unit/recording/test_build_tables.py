"""Allocations are paired with the frees that name them."""

from __future__ import annotations

from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.formats.event_log import Capture
from msmemscope.recording import (
    EVENT_SCHEMA,
    RECORDING_BLOCK_SCHEMA,
    STRING_SCHEMA,
    build_blocks,
    recording_without_stacks,
)
from tests.fakes.event_log_builder import ATEN_START, FREE, MALLOC, PTA, READ, EventLogBuilder


def test_block_has_what_its_two_events_tell(builder: EventLogBuilder) -> None:
    """The row of a block joins its MALLOC and its FREE."""
    operator = builder.string("torch._ops.aten.add.Tensor")
    block = builder.malloc(
        0x1000, 64, pool=PTA, device=1, name_id=operator, thread_id=7, python_stack_id=3, native_stack_id=4, flags=1
    )
    builder.add(READ, address=0x1000, size=64, extra=block)
    freed = builder.free(block, 0x1000, 64, pool=PTA, device=1, thread_id=8, python_stack_id=5, native_stack_id=6)
    tables = recording_without_stacks(Capture(builder.write()))
    assert tables.events.schema == EVENT_SCHEMA
    assert tables.blocks.schema == RECORDING_BLOCK_SCHEMA
    assert tables.strings.schema == STRING_SCHEMA
    assert len(tables.events) == 3
    row = tables.blocks.row(0, named=True)
    assert row == {
        "allocation_id": block, "address": 0x1000, "size": 64, "device": 1, "pool": PTA, "flags": 1,
        "allocated_ns": tables.events["timestamp_ns"][0], "freed_ns": tables.events["timestamp_ns"][2],
        "malloc_sequence": block, "free_sequence": freed, "name_id": operator, "name": "torch._ops.aten.add.Tensor",
        "attribute_id": 0, "python_stack_id": 3, "native_stack_id": 4, "thread_id": 7,
        "free_thread_id": 8, "free_python_stack_id": 5, "free_native_stack_id": 6, "owner": None,
            "returned_sequence": freed, "requested_bytes": None, "stream_id": None, "pool_id": None,
    }  # fmt: skip


def test_blocks_never_freed_have_no_end(builder: EventLogBuilder) -> None:
    """Columns that only a FREE fills are null, and so is the name outside of operators."""
    builder.malloc(0x1000, 64)
    row = recording_without_stacks(Capture(builder.write())).blocks.row(0, named=True)
    assert [row[name] for name in ("freed_ns", "free_sequence", "free_thread_id", "name")] == [None] * 4


def test_an_operator_whose_name_was_lost(builder: EventLogBuilder) -> None:
    """The block is inside of an operator all the same."""
    builder.malloc(0x1000, 64, name_id=77)
    assert recording_without_stacks(Capture(builder.write())).blocks["name"].to_list() == ["<unknown>"]


def test_free_without_block_makes_no_block(builder: EventLogBuilder) -> None:
    """A block that was never seen has no row, and neither has one whose MALLOC the log has lost."""
    builder.add(FREE, address=0x1000)
    builder.free(999, 0x2000, 64)
    builder.add(ATEN_START)
    assert recording_without_stacks(Capture(builder.write())).blocks.is_empty()


def test_empty_capture_has_empty_tables(builder: EventLogBuilder) -> None:
    """All tables keep their schemas."""
    tables = recording_without_stacks(Capture(builder.write()))
    assert tables.events.schema == EVENT_SCHEMA
    assert tables.blocks.schema == RECORDING_BLOCK_SCHEMA
    assert tables.blocks.is_empty()


EVENTS = st.lists(
    st.tuples(st.sampled_from([MALLOC, FREE, READ, ATEN_START]), st.integers(1, 2**40), st.integers(0, 60)),
    max_size=60,
)


def event_rows(steps: list[tuple[int, int, int]]) -> list[dict[str, Any]]:
    """Events in order; a FREE names the event at some index, whatever that is."""
    rows = []
    for index, (kind, size, other) in enumerate(steps):
        extra = other if kind in (FREE, READ) else 0
        rows.append(dict.fromkeys(EVENT_SCHEMA, 0) | {
            "sequence": index + 1, "timestamp_ns": 1000 + index, "kind": kind, "size": size, "extra": extra,
            "thread_id": other,
        })  # fmt: skip
    return rows


@given(EVENTS)
def test_pairing_is_that_of_a_plain_loop(steps: list[tuple[int, int, int]]) -> None:
    """The columnar join finds what a dictionary and a loop find, duplicates and strangers included."""
    rows = event_rows(steps)
    expected: dict[int, list[Any]] = {}
    for row in rows:
        if row["kind"] == MALLOC:
            expected[row["sequence"]] = [row["size"], row["timestamp_ns"], None, None, None]
    for row in rows:
        block = expected.get(row["extra"]) if row["kind"] == FREE else None
        if block is not None and block[2] is None and row["sequence"] > row["extra"]:
            block[2:] = [row["sequence"], row["timestamp_ns"], row["thread_id"]]
    blocks = build_blocks(pl.DataFrame(rows, schema=EVENT_SCHEMA), STRING_SCHEMA.to_frame())
    columns = ("allocation_id", "size", "allocated_ns", "free_sequence", "freed_ns", "free_thread_id")
    found = {row[0]: list(row[1:]) for row in blocks.select(columns).iter_rows()}
    assert found == expected
    assert list(blocks["allocation_id"]) == sorted(expected)

"""Schemas of the tables: the meaning of a row, and the columns with their types and units."""

from __future__ import annotations

from typing import Final

import polars as pl

from msmemscope.model.attributes import ATTRIBUTES, AttributeKey, AttributeType
from msmemscope.model.events import EventKind

EVENT_SCHEMA: Final = pl.Schema(
    {
        "sequence": pl.UInt64(),
        "timestamp_ns": pl.UInt64(),
        "thread_id": pl.UInt32(),
        "device": pl.Int16(),
        "kind": pl.UInt8(),
        "pool": pl.UInt8(),
        "flags": pl.UInt8(),
        "address": pl.UInt64(),
        "size": pl.Int64(),
        "name_id": pl.UInt32(),
        "attribute_id": pl.UInt32(),
        "python_stack_id": pl.UInt32(),
        "native_stack_id": pl.UInt32(),
        "extra": pl.UInt64(),
    }
)
"""One row per event, in sequence order. Columns as in `native/core/format/record.h`:

sequence: process-wide, unique, from 1; the ID column of dumps.
timestamp_ns: CLOCK_REALTIME.
thread_id: Linux thread id.
device: `msmemscope.model.devices`.
kind, pool, flags: `msmemscope.model.events`.
address, size: bytes concerned; FREE.size is 0 if the block was never seen.
name_id: string id, 0 if none.
attribute_id: of ATTRIBUTE_SCHEMA, 0 if none. OWNER: string id of labels; FUNCTION_CALL: code id.
python_stack_id, native_stack_id: stack ids, 0 if none.
extra: FREE, FREE_COMPLETED and ACCESS: sequence of the block's MALLOC, 0 if no such block was seen.
"""

BLOCK_SCHEMA: Final = pl.Schema(
    {
        "allocation_id": pl.UInt64(),
        "address": pl.UInt64(),
        "size": pl.Int64(),
        "device": pl.Int16(),
        "pool": pl.UInt8(),
        "flags": pl.UInt8(),
        "allocated_ns": pl.UInt64(),
        "freed_ns": pl.UInt64(),
        "malloc_sequence": pl.UInt64(),
        "free_sequence": pl.UInt64(),
        "name_id": pl.UInt32(),
        "name": pl.String(),
        "attribute_id": pl.UInt32(),
        "python_stack_id": pl.UInt32(),
        "native_stack_id": pl.UInt32(),
        "thread_id": pl.UInt32(),
        "free_thread_id": pl.UInt32(),
        "free_python_stack_id": pl.UInt32(),
        "free_native_stack_id": pl.UInt32(),
        "returned_sequence": pl.UInt64(),
        "requested_bytes": pl.Int64(),
        "stream_id": pl.UInt64(),
        "pool_id": pl.String(),
    }
)
"""One row per block: one allocation from its MALLOC to its FREE, in MALLOC order.

allocation_id: identity of the block, which the address alone is not; equals malloc_sequence.
address, size: bytes of the block, from its MALLOC.
device, pool, flags: of the MALLOC; see `msmemscope.model.events`.
allocated_ns, freed_ns: CLOCK_REALTIME; freed_ns is null if no FREE was seen.
malloc_sequence, free_sequence: the two events; free_sequence is null if no FREE was seen.
name_id, name: outermost operator at the MALLOC; 0 and null outside of operators.
attribute_id: of ATTRIBUTE_SCHEMA, 0 if none.
python_stack_id, native_stack_id, thread_id: of the MALLOC.
free_thread_id, free_python_stack_id, free_native_stack_id: of the FREE, null if none was seen.
returned_sequence: the event from which on its memory can be handed out again, null if there is none. It is the FREE, or
    the FREE_COMPLETED behind it where a recording has such: other streams may use a block longer than its owner.
requested_bytes: the bytes that were asked for; the allocator made `size` of them.
stream_id, pool_id: the stream that it was allocated for, and the part of the allocator that it is from. `0/0` is the
    common part; others belong to graphs or were made by the program. The last three are null where the recording does
    not have them: snapshots of torch do.
"""

STRING_SCHEMA: Final = pl.Schema({"id": pl.UInt32(), "text": pl.String()})
"""One row per string that events refer to."""

_COLUMN_TYPES: Final[dict[AttributeType, pl.DataType]] = {
    AttributeType.TEXT: pl.String(),
    AttributeType.NUMBER: pl.UInt64(),
    AttributeType.ADDRESS: pl.UInt64(),
    AttributeType.CHECKSUM: pl.String(),
    AttributeType.PERCENT: pl.Float64(),
    AttributeType.SWITCH: pl.Boolean(),
    AttributeType.TRUTH: pl.Boolean(),
}

ATTRIBUTE_SCHEMA: Final = pl.Schema(
    {
        "attribute_id": pl.UInt32(),
        **{
            attribute.column: _COLUMN_TYPES[attribute.type]
            for attribute in ATTRIBUTES
            if attribute.key not in {AttributeKey.RANGE_FIRST, AttributeKey.RANGE_LAST}
        },
        "ranges": pl.List(pl.Struct({"first": pl.UInt64(), "last": pl.UInt64()})),
    }
)
"""One row per attribute_id, one column per key of `model.attributes`; null where an event does not say.

*_bytes, allocation_flag, addresses, call numbers, offsets: whole numbers. *_rate: percent. before, after: 16 hexadecimal digits.
ranges: offsets of the bytes that differ, both inclusive.
"""


def has_attributes() -> pl.Expr:
    """Return whether the `attribute_id` of events names attributes: of some kinds it names something else."""
    return ~pl.col("kind").is_in([int(EventKind.OWNER), int(EventKind.FUNCTION_CALL)])

"""Where every byte of an event log lies: the reader's copy of `native/core/format/*.h`.

The structs are numpy dtypes in little-endian order; `in_byte_order` gives the
form for a log that was written on a big-endian machine. `tests/contracts/`
compares names, offsets and values with the C++ headers.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final

import numpy as np

FORMAT_VERSION: Final = 14
"""Newest format version that this reader knows; every older one is read too."""

FIRST_VERSION_WITH_KINDS: Final = 5
"""From here on devices have a kind."""

BYTE_ORDER_MARK: Final = 0x0102030405060708
"""Reads as `0x0807060504030201` where the writer's byte order is the other one."""

PROCESS_MAGIC: Final = 0x45504F43534D534D
EVENT_SEGMENT_MAGIC: Final = 0x53544E455645534D
"""Of segments whose records lie one behind the other."""
PACKED_SEGMENT_MAGIC: Final = 0x44454B434150534D
"""Of segments with a tail of records, and blocks of packed ones behind it."""
DEFINITION_SEGMENT_MAGIC: Final = 0x454E49464544534D

SEGMENT_DATA_OFFSET: Final = 4096
"""Byte of a segment file where its entries begin."""

PACKED_BLOCKS_OFFSET: Final = SEGMENT_DATA_OFFSET + (1 << 18)
"""Byte of a packed segment where its first block begins; its tail lies before it."""
PACKED_BLOCK_ALIGNMENT: Final = 4096
"""Blocks start at multiples of this many bytes."""
PACKED_BLOCK_COMMIT: Final = 0x4250534D
"""First word of a block that was completely written."""

DEFINITION_COMMIT: Final = 0x4645444D
"""First word of a definition entry that was completely written."""
DEFINITION_ALIGNMENT: Final = 8
"""Definition entries start at multiples of this many bytes."""


class CaptureState(IntEnum):
    """How far a capture came."""

    OPEN = 1
    """Still recording, or ended without a chance to say so."""
    CLOSED = 2
    """The process ended in an orderly way."""
    FAILED = 3
    """Recording stopped early; `ProcessHeader.failure_errno` says why."""


class DefinitionKind(IntEnum):
    """The kinds of definition entries."""

    NONE = 0
    STRING = 1
    CODE = 2
    PYTHON_STACK = 3
    NATIVE_STACK = 4
    MODULE = 5
    FACT = 6
    ATTRIBUTES = 7


class LineTableFormat(IntEnum):
    """How the line table of a code object is to be read."""

    NONE = 0
    PYTHON310 = 1
    PYTHON311 = 2


PROCESS_HEADER: Final = np.dtype(
    [
        ("magic", "<u8"),
        ("byte_order_mark", "<u8"),
        ("format_version", "<u4"),
        ("header_bytes", "<u4"),
        ("record_bytes", "<u4"),
        ("state", "<u4"),
        ("process_id", "<u4"),
        ("parent_process_id", "<u4"),
        ("start_ns", "<u8"),
        ("end_ns", "<u8"),
        ("process_start_ticks", "<u8"),
        ("session", "<u8"),
        ("failure_errno", "<u4"),
        ("python_version_hex", "<u4"),
        ("dropped_reentrant", "<u8"),
        ("dropped_failure", "<u8"),
        ("dropped_recycled", "<u8"),
        ("lost_definitions", "<u8"),
        ("untracked_blocks", "<u8"),
        ("tool_memory_bytes", "<u8"),
        ("tool_memory_limit_bytes", "<u8"),
        ("maximum_log_bytes", "<u8"),
        ("log_bytes", "<u8"),
    ]
)

SEGMENT_HEADER: Final = np.dtype(
    [
        ("magic", "<u8"),
        ("byte_order_mark", "<u8"),
        ("format_version", "<u4"),
        ("segment_number", "<u4"),
        ("tail_position", "<u8"),
        ("tail_bytes", "<u8"),
        ("sealed_checksum", "<u8"),
        ("sealed_records", "<u8"),
        ("sealed_position", "<u8"),
    ]
)

PACKED_BLOCK_HEADER: Final = np.dtype(
    [
        ("commit", "<u4"),
        ("record_count", "<u4"),
        ("payload_bytes", "<u4"),
        ("checksum", "<u4"),
        ("records_before", "<u8"),
        ("first_sequence", "<u8"),
    ]
)

RECORD: Final = np.dtype(
    [
        ("sequence", "<u8"),
        ("timestamp_ns", "<u8"),
        ("address", "<u8"),
        ("size", "<i8"),
        ("thread_and_device", "<u4"),
        ("device_low", "u1"),
        ("kind", "u1"),
        ("pool", "u1"),
        ("flags", "u1"),
        ("name_id", "<u4"),
        ("attribute_id", "<u4"),
        ("python_stack_id", "<u4"),
        ("native_stack_id", "<u4"),
        ("extra", "<u8"),
    ]
)

DEFINITION_HEADER: Final = np.dtype(
    [
        ("commit", "<u4"),
        ("kind", "<u2"),
        ("reserved", "<u2"),
        ("id", "<u4"),
        ("payload_bytes", "<u4"),
    ]
)

CODE_PAYLOAD: Final = np.dtype(
    [
        ("file_name_id", "<u4"),
        ("name_id", "<u4"),
        ("first_line", "<u4"),
        ("line_table_format", "<u4"),
        ("line_table_bytes", "<u4"),
        ("reserved", "<u4"),
    ]
)

PYTHON_FRAME: Final = np.dtype([("code_id", "<u4"), ("instruction_offset", "<u4")])

ATTRIBUTE: Final = np.dtype([("key", "<u2"), ("kind", "<u2"), ("reserved", "<u4"), ("value", "<u8")])
"""One of the pairs of `DefinitionKind.ATTRIBUTES`; see `model.attributes`."""


MODULE_PAYLOAD: Final = np.dtype(
    [
        ("load_bias", "<u8"),
        ("start", "<u8"),
        ("end", "<u8"),
        ("seen_at_sequence", "<u8"),
        ("build_id_bytes", "<u4"),
        ("path_bytes", "<u4"),
    ]
)


def in_byte_order(dtype: np.dtype[Any], *, big_endian: bool) -> np.dtype[Any]:
    """Return a dtype of this module for a log of the given byte order."""
    return dtype.newbyteorder(">") if big_endian else dtype


def struct_format(dtype: np.dtype[Any], *, big_endian: bool) -> str:
    """Return the `struct` format of a flat dtype of this module.

    Reading one small struct through `struct` is about ten times faster than through numpy.
    """
    codes = {"u1": "B", "i1": "b", "u2": "H", "u4": "I", "u8": "Q", "i8": "q"}
    fields = dtype.fields
    if fields is None:
        return (">" if big_endian else "<") + codes[dtype.str[1:]]
    return (">" if big_endian else "<") + "".join(codes[fields[name][0].str[1:]] for name in dtype.names or ())

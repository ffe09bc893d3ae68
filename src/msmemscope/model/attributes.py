"""Attributes of events: facts of an event beyond the fields that every event has.

Each has three things:

- a key, whose number is that of the event log (`native/core/format/attribute.h`; a contract test compares them)
- a name as a column of tables
- a type

Only the formats know how it is spelled as text; they agree on the names that stand here. This module is imported inside
the observed process, so it imports nothing but the standard library.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Final, NamedTuple


class AttributeKey(IntEnum):
    """Key of an attribute; never renumbered."""

    MODULE = 1
    PAGE_TYPE = 2
    ALLOCATION_KIND = 3
    IS_PINNED = 4
    FUNCTION = 10
    REQUESTED_BYTES = 11
    ALLOCATION_FLAG = 12
    RESERVED_BYTES = 13
    MAX_RESERVED_BYTES = 14
    ALLOCATED_BYTES = 15
    MAX_ALLOCATED_BYTES = 16
    TOTAL_BYTES = 17
    FREE_BYTES = 18
    DEVICE_RATE = 19
    RESERVED_RATE = 20
    LIMIT = 21
    LIMIT_BYTES = 22
    LIMIT_USED_BYTES = 23
    DTYPE = 30
    FORMAT = 31
    SHAPE = 32
    PATH = 33
    WORKSPACE_ADDRESS = 34
    WORKSPACE_BYTES = 35
    STREAM_ID = 40
    POOL_ID = 41
    STEP_SOURCE = 42
    WATCH = 50
    WATCH_ID = 51
    OUTPUT = 52
    CONTENT = 53
    REASON = 54
    WHEN = 55
    OPERATOR = 56
    CALL = 57
    SOURCE = 58
    PREVIOUS = 59
    PREVIOUS_CALL = 60
    IS_EXACT = 61
    IS_BESIDE = 62
    CONCURRENT = 63
    WRITER = 64
    WRITER_CALL = 65
    BEFORE = 66
    AFTER = 67
    CHANGED_BYTES = 68
    FIRST = 69
    LAST = 70
    GRANULARITY = 71
    RANGE_FIRST = 72
    RANGE_LAST = 73
    HAS_MORE_RANGES = 74
    NEIGHBOUR = 75
    NEIGHBOUR_ADDRESS = 76
    NEIGHBOUR_SIZE = 77
    NEIGHBOUR_IS_WRITTEN = 78
    NEIGHBOUR_FIRST = 79
    MORE_BLOCKS = 80
    MORE_UNTIL = 81
    IS_TRAINED = 82
    CONTAINER_TYPE = 90
    ENTRY_TYPE = 91
    FIRST_ENTRIES = 92
    FIRST_SEQUENCE = 93
    PRIVATE_BYTES = 94
    SHARED_BYTES = 95
    GROUP_BYTES = 96
    GROUP_LIMIT = 97
    PROPORTIONAL_BYTES = 98
    UNRECORDED_BYTES = 99
    VIEWED_BYTES = 100


class AttributeType(Enum):
    """Type of a value, and how texts spell it."""

    TEXT = "text"
    NUMBER = "number"
    """Whole, without a sign."""
    ADDRESS = "address"
    """A number, hexadecimal in texts."""
    CHECKSUM = "checksum"
    """64 bits; 16 hexadecimal digits wherever it is shown."""
    PERCENT = "percent"
    """A number of millionths of a percent; with six decimals in texts."""
    SWITCH = "switch"
    """`1` or `0`."""
    TRUTH = "truth"
    """`true`; absent otherwise."""


class Attribute(NamedTuple):
    """One attribute."""

    key: AttributeKey
    name: str
    """In texts of dumps and of older event logs."""
    type: AttributeType

    @property
    def column(self) -> str:
        """Its name in tables."""
        return self.key.name.lower()


class ValueKind(IntEnum):
    """How a value stands in the event log."""

    NUMBER = 1
    STRING = 2
    """The id of a string."""


_TEXT, _NUMBER = AttributeType.TEXT, AttributeType.NUMBER
_SWITCH, _CHECKSUM, _PERCENT = AttributeType.SWITCH, AttributeType.CHECKSUM, AttributeType.PERCENT

ATTRIBUTES: Final = tuple(
    Attribute(key, name, kind)
    for key, name, kind in (
        (AttributeKey.MODULE, "module", _TEXT),
        (AttributeKey.PAGE_TYPE, "page_type", _TEXT),
        (AttributeKey.ALLOCATION_KIND, "alloc_type", _TEXT),
        (AttributeKey.IS_PINNED, "pinned", AttributeType.TRUTH),
        (AttributeKey.FUNCTION, "func", _TEXT),
        (AttributeKey.REQUESTED_BYTES, "req_size", _NUMBER),
        (AttributeKey.ALLOCATION_FLAG, "flag", _NUMBER),
        (AttributeKey.RESERVED_BYTES, "reserved", _NUMBER),
        (AttributeKey.MAX_RESERVED_BYTES, "max_reserved", _NUMBER),
        (AttributeKey.ALLOCATED_BYTES, "allocated", _NUMBER),
        (AttributeKey.MAX_ALLOCATED_BYTES, "max_allocated", _NUMBER),
        (AttributeKey.TOTAL_BYTES, "total", _NUMBER),
        (AttributeKey.FREE_BYTES, "free", _NUMBER),
        (AttributeKey.DEVICE_RATE, "device_rate", _PERCENT),
        (AttributeKey.RESERVED_RATE, "reserved_rate", _PERCENT),
        (AttributeKey.LIMIT, "limit", _TEXT),
        (AttributeKey.LIMIT_BYTES, "limit_bytes", _NUMBER),
        (AttributeKey.LIMIT_USED_BYTES, "limit_used", _NUMBER),
        (AttributeKey.DTYPE, "dtype", _TEXT),
        (AttributeKey.FORMAT, "format", _TEXT),
        (AttributeKey.SHAPE, "shape", _TEXT),
        (AttributeKey.PATH, "path", _TEXT),
        (AttributeKey.WORKSPACE_ADDRESS, "workspace_ptr", AttributeType.ADDRESS),
        (AttributeKey.WORKSPACE_BYTES, "workspace_size", _NUMBER),
        (AttributeKey.STREAM_ID, "streamId", _NUMBER),
        (AttributeKey.POOL_ID, "pool_id", _TEXT),
        (AttributeKey.STEP_SOURCE, "step_source", _TEXT),
        (AttributeKey.WATCH, "watch", _TEXT),
        (AttributeKey.WATCH_ID, "id", _NUMBER),
        (AttributeKey.OUTPUT, "output", _NUMBER),
        (AttributeKey.CONTENT, "content", _TEXT),
        (AttributeKey.REASON, "reason", _TEXT),
        (AttributeKey.WHEN, "when", _TEXT),
        (AttributeKey.OPERATOR, "operator", _TEXT),
        (AttributeKey.CALL, "call", _NUMBER),
        (AttributeKey.SOURCE, "source", _TEXT),
        (AttributeKey.PREVIOUS, "previous", _TEXT),
        (AttributeKey.PREVIOUS_CALL, "previous_call", _NUMBER),
        (AttributeKey.IS_EXACT, "exact", _SWITCH),
        (AttributeKey.IS_BESIDE, "beside", _SWITCH),
        (AttributeKey.CONCURRENT, "concurrent", _NUMBER),
        (AttributeKey.WRITER, "writer", _TEXT),
        (AttributeKey.WRITER_CALL, "writer_call", _NUMBER),
        (AttributeKey.BEFORE, "before", _CHECKSUM),
        (AttributeKey.AFTER, "after", _CHECKSUM),
        (AttributeKey.CHANGED_BYTES, "changed_bytes", _NUMBER),
        (AttributeKey.FIRST, "first", _NUMBER),
        (AttributeKey.LAST, "last", _NUMBER),
        (AttributeKey.GRANULARITY, "granularity", _NUMBER),
        (AttributeKey.RANGE_FIRST, "range_first", _NUMBER),
        (AttributeKey.RANGE_LAST, "range_last", _NUMBER),
        (AttributeKey.HAS_MORE_RANGES, "more_ranges", _SWITCH),
        (AttributeKey.NEIGHBOUR, "neighbour", _NUMBER),
        (AttributeKey.NEIGHBOUR_ADDRESS, "neighbour_address", _NUMBER),
        (AttributeKey.NEIGHBOUR_SIZE, "neighbour_size", _NUMBER),
        (AttributeKey.NEIGHBOUR_IS_WRITTEN, "written_neighbour", _SWITCH),
        (AttributeKey.NEIGHBOUR_FIRST, "neighbour_first", _NUMBER),
        (AttributeKey.MORE_BLOCKS, "more_blocks", _NUMBER),
        (AttributeKey.MORE_UNTIL, "more_until", _NUMBER),
        (AttributeKey.IS_TRAINED, "trained", _SWITCH),
        (AttributeKey.CONTAINER_TYPE, "container_type", _TEXT),
        (AttributeKey.ENTRY_TYPE, "entry_type", _TEXT),
        (AttributeKey.FIRST_ENTRIES, "first_entries", _NUMBER),
        (AttributeKey.FIRST_SEQUENCE, "first_sequence", _NUMBER),
        (AttributeKey.PRIVATE_BYTES, "private_bytes", _NUMBER),
        (AttributeKey.SHARED_BYTES, "shared_bytes", _NUMBER),
        (AttributeKey.GROUP_BYTES, "group_bytes", _NUMBER),
        (AttributeKey.GROUP_LIMIT, "group_limit", _NUMBER),
        (AttributeKey.PROPORTIONAL_BYTES, "proportional_bytes", _NUMBER),
        (AttributeKey.UNRECORDED_BYTES, "unrecorded_bytes", _NUMBER),
        (AttributeKey.VIEWED_BYTES, "viewed_bytes", _NUMBER),
    )
)
"""All of them, by rising key."""

KEY_OF_NAME: Final = {attribute.name: attribute.key for attribute in ATTRIBUTES}
"""Attribute of each name in texts."""

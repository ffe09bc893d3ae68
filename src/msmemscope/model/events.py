"""Kinds of events and flags, and the words that dumps use for them.

The values are those of the event log (`native/core/format/record.h`); a contract test
compares the two. This module is imported inside the observed process, so it
imports nothing but `enum` and `typing`.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final


class EventKind(IntEnum):
    """Kind of an event."""

    NONE = 0
    MALLOC = 1
    FREE = 2
    ACCESS_READ = 3
    ACCESS_WRITE = 4
    ACCESS_UNKNOWN = 5
    FREE_COMPLETED = 6
    """The memory of a freed block can be handed out again: the streams that used it have got so far."""
    HOST_SAMPLE = 7
    """A sample of the host memory of the whole process: `extra` is how many bytes it stands for."""
    HOST_SAMPLE_FREE = 8
    """The block of a HOST_SAMPLE, which `extra` names, was freed."""
    HOST_MEMORY = 9
    """The bytes of the process's resident memory that belong to no file and are not shared."""
    ATEN_START = 10
    ATEN_END = 11
    ATB_START = 12
    ATB_END = 13
    CONTAINER = 14
    """A container of the program has grown from look to look: `size` is the number of its entries."""
    HOST_RESIDENT = 15
    """How much of a block of the host is in memory: the rest was never touched. `extra` names the block."""
    KERNEL_LAUNCH = 20
    KERNEL_EXECUTE_START = 21
    KERNEL_EXECUTE_END = 22
    KERNEL_START = 23
    KERNEL_END = 24
    MARK = 30
    RANGE_START = 31
    RANGE_END = 32
    ALLOCATOR_ALLOC = 33
    ALLOCATOR_FREE = 34
    ALLOCATOR_FREE_COMPLETED = 35
    SEGMENT_ALLOC = 36
    SEGMENT_FREE = 37
    SEGMENT_MAP = 38
    SEGMENT_UNMAP = 39
    ACL_INIT = 40
    ACL_FINI = 41
    START_TRACE = 42
    STOP_TRACE = 43
    STEP = 44
    IMPLIED_STEP = 45
    ALLOCATOR_OOM = 46
    CACHE_EMPTIED = 47
    ALLOCATOR_SETTING = 48
    SNAPSHOT = 50
    RESERVED = 51
    DEVICE_USAGE = 52
    OWNER = 53
    OOM = 54
    WATCH = 55
    WATCH_START = 56
    WATCH_STOP = 57
    HOLDER = 58
    FUNCTION_CALL = 60
    MAPPED = 61
    UNMAPPED = 62
    REQUESTED = 63


class EventFlag(IntFlag):
    """Particulars of one event."""

    SHADOW = 1
    """MALLOC or FREE that happened while nothing was collected. Of ALLOCATOR_KINDS: the allocator held it when that
    ended.
    """
    START_UNKNOWN = 2
    """FUNCTION_CALL that was already running when tracing began."""
    END_UNKNOWN = 4
    """FUNCTION_CALL that had not returned when tracing ended."""
    BACKWARD = 8
    """During an operator of a backward pass."""
    MAY_WRITE = 16
    """WATCH: an operator that ran may write this memory, by its schema and its arguments."""
    RECOMPUTED = 64
    """Beside BACKWARD: with gradients on, as where a checkpoint runs its forward pass again."""
    COLLECTED = 128
    """FREE: by Python's garbage collector, which had begun by itself."""
    WRITES_UNKNOWN = 32
    """WATCH: nobody knows what the operator may write: a kernel, or no operator at all."""


EVENT_WORDS: Final[dict[int, str]] = {
    EventKind.MALLOC: "MALLOC",
    EventKind.FREE: "FREE",
    EventKind.ACCESS_READ: "ACCESS",
    EventKind.ACCESS_WRITE: "ACCESS",
    EventKind.ACCESS_UNKNOWN: "ACCESS",
    EventKind.ATEN_START: "OP_LAUNCH",
    EventKind.ATEN_END: "OP_LAUNCH",
    EventKind.ATB_START: "OP_LAUNCH",
    EventKind.ATB_END: "OP_LAUNCH",
    EventKind.KERNEL_LAUNCH: "KERNEL_LAUNCH",
    EventKind.KERNEL_EXECUTE_START: "KERNEL_LAUNCH",
    EventKind.KERNEL_EXECUTE_END: "KERNEL_LAUNCH",
    EventKind.KERNEL_START: "KERNEL_LAUNCH",
    EventKind.KERNEL_END: "KERNEL_LAUNCH",
    EventKind.MARK: "MSTX",
    EventKind.RANGE_START: "MSTX",
    EventKind.RANGE_END: "MSTX",
    EventKind.ACL_INIT: "SYSTEM",
    EventKind.ACL_FINI: "SYSTEM",
    EventKind.START_TRACE: "SYSTEM",
    EventKind.STOP_TRACE: "SYSTEM",
    EventKind.STEP: "SYSTEM",
    EventKind.SNAPSHOT: "SNAPSHOT",
    EventKind.OOM: "OOM_DETAIL",
}
"""Kind to the word of column `Event`; kinds without one are no rows of a dump."""

EVENT_TYPE_WORDS: Final[dict[int, str]] = {
    EventKind.ACCESS_READ: "READ",
    EventKind.ACCESS_WRITE: "WRITE",
    EventKind.ACCESS_UNKNOWN: "UNKNOWN",
    EventKind.ATEN_START: "ATEN_START",
    EventKind.ATEN_END: "ATEN_END",
    EventKind.ATB_START: "ATB_START",
    EventKind.ATB_END: "ATB_END",
    EventKind.KERNEL_LAUNCH: "KERNEL_LAUNCH",
    EventKind.KERNEL_EXECUTE_START: "KERNEL_EXECUTE_START",
    EventKind.KERNEL_EXECUTE_END: "KERNEL_EXECUTE_END",
    EventKind.KERNEL_START: "KERNEL_START",
    EventKind.KERNEL_END: "KERNEL_END",
    EventKind.MARK: "Mark",
    EventKind.RANGE_START: "Range_start",
    EventKind.RANGE_END: "Range_end",
    EventKind.ACL_INIT: "ACL_INIT",
    EventKind.ACL_FINI: "ACL_FINI",
    EventKind.START_TRACE: "START_TRACE",
    EventKind.STOP_TRACE: "STOP_TRACE",
    EventKind.STEP: "STEP",
    EventKind.SNAPSHOT: "SNAPSHOT",
    EventKind.OOM: "OOM_TRIGGER",
}
"""Kind to the word of column `Event Type`; MALLOC and FREE take the word of their pool."""

OOM_TRIGGER_NAME: Final = "OOM_Trigger"
"""Column `Name` of the row of an allocation that failed for lack of memory."""
OOM_RECENT_WORDS: Final = ("OOM_RECENT_ALLOC", "OOM_RecentAlloc")
"""Columns `Event Type` and `Name` of the rows behind it that show the latest blocks alive."""
OOM_TOP_WORDS: Final = ("OOM_TOP_ALLOC", "OOM_TopAlloc")
"""The same of the rows that show the largest ones."""
OOM_SNAPSHOT_NAME: Final = "OOM_Snapshot"
"""Name of the snapshot that is taken inside an allocation that failed."""
OOM_SNAPSHOT_AFTER_NAME: Final = "OOM_Snapshot After"
"""Name of the snapshot of torch's memory once it has given an allocation up."""

WATCH_KINDS: Final = (EventKind.WATCH, EventKind.WATCH_START, EventKind.WATCH_STOP)
"""Kinds about watched memory."""
ALLOCATOR_KINDS: Final = (
    EventKind.ALLOCATOR_ALLOC,
    EventKind.ALLOCATOR_FREE,
    EventKind.ALLOCATOR_FREE_COMPLETED,
    EventKind.SEGMENT_ALLOC,
    EventKind.SEGMENT_FREE,
    EventKind.SEGMENT_MAP,
    EventKind.SEGMENT_UNMAP,
    EventKind.ALLOCATOR_OOM,
    EventKind.CACHE_EMPTIED,
    EventKind.ALLOCATOR_SETTING,
)
"""The caching allocator's own events: `--events=allocator`."""
ROWLESS_KINDS: Final = (
    EventKind.FREE_COMPLETED,
    EventKind.FUNCTION_CALL,
    EventKind.RESERVED,
    EventKind.DEVICE_USAGE,
    EventKind.OWNER,
    EventKind.IMPLIED_STEP,
    EventKind.HOLDER,
    EventKind.MAPPED,
    EventKind.UNMAPPED,
    EventKind.REQUESTED,
    EventKind.HOST_SAMPLE,
    EventKind.HOST_SAMPLE_FREE,
    EventKind.HOST_RESIDENT,
    EventKind.HOST_MEMORY,
    EventKind.CONTAINER,
    *ALLOCATOR_KINDS,
    *WATCH_KINDS,
)
"""Kinds that are no rows of a dump: they go into the Python trace, or into attributes of other rows."""
SCOPE_KINDS: Final = (EventKind.START_TRACE, EventKind.STOP_TRACE)
"""Kinds that say when collection was on. They are few, and the coverage of every answer depends on them."""
MEMORY_KINDS: Final = (EventKind.MALLOC, EventKind.FREE)
"""Kinds that change how much memory is in use."""
LAST_VALUE_KINDS: Final = (EventKind.RESERVED, EventKind.DEVICE_USAGE)
"""Kinds that tell a value which holds until the next of them."""
ACCESS_KINDS: Final = (EventKind.ACCESS_READ, EventKind.ACCESS_WRITE, EventKind.ACCESS_UNKNOWN)
"""Kinds that tell of a use of memory."""
LAUNCH_KINDS: Final = tuple(kind for kind, word in EVENT_WORDS.items() if word in {"OP_LAUNCH", "KERNEL_LAUNCH"})
"""Operators and kernels."""
MSTX_KINDS: Final = (EventKind.MARK, EventKind.RANGE_START, EventKind.RANGE_END)
"""Kinds whose name is free text of the observed program."""

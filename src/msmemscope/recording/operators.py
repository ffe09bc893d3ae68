"""Operators in their order, the events inside them, and the operators between two events.

An operator is an outermost one of its thread: nested operators and kernels inside it belong to it. A start and an end
belong together if they have the same name, are on one thread, and only whole operators lie between them. The end is
missing where the program threw out of the operator, or was killed. Then it lasts until the next operator begins or ends
on its thread. An end without a start ends nothing. Allocations, frees and accesses outside of operators are no
operators.

Time is counted in rows of the event table, which is in sequence order.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from msmemscope.model.events import EventKind

if TYPE_CHECKING:
    import polars as pl

IntegerArray: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
ShortIntegerArray: TypeAlias = "np.ndarray[Any, np.dtype[np.int32]]"
MaskArray: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"

NOWHERE: Final = -1
"""Index of an operator, or of a row, that does not exist."""

_STARTS: Final = (EventKind.ATEN_START, EventKind.ATB_START)
_ENDS: Final = (EventKind.ATEN_END, EventKind.ATB_END)
_DEEPEST_NESTING: Final = 64
"""As many levels as the recorder writes; this also bounds the work on damaged input."""
_PIECE_ROWS: Final = 1 << 20
"""Events that are looked at together, so that few arrays are as long as the recording."""


@dataclasses.dataclass(frozen=True)
class Operators:
    """The outermost operators of all threads of a process, in the order in which they began."""

    begin_rows: IntegerArray
    """Row of the start."""
    end_rows: IntegerArray
    """Row of the end; where it is missing, that of the next start or end on the thread, or the number of rows."""
    devices: IntegerArray
    """Device that the start names."""
    of_row: ShortIntegerArray
    """For each row of the events the operator that it is inside of, or NOWHERE. A start is inside, an end is not. There are
    fewer operators than half the events, which are counted with 32 bits."""

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.begin_rows)


@dataclasses.dataclass(frozen=True)
class DeviceOrder:
    """The operators of one device, numbered from 1 in the order in which they began.

    An operator is one of a device if its start names the device. It is one also if memory of the device was allocated,
    freed or accessed inside it. So one operator can be in the order of several devices.
    """

    operators: Operators
    members: IntegerArray
    """Index of each operator of the order, ascending."""
    positions: IntegerArray
    """For each operator of the process how many members there are up to it: its own number if it is a member."""

    def __len__(self) -> int:
        """Return how many operators the device has."""
        return len(self.members)

    def positions_at(self, rows: IntegerArray) -> IntegerArray:
        """Return the number of the operator that each row is inside of, 0 for rows outside of operators."""
        inside = self.operators.of_row[rows]
        return np.where(inside == NOWHERE, 0, self._positions_or_zero(inside))

    def owners_of(self, rows: IntegerArray) -> IntegerArray:
        """Return the number of the operator that each allocation or free belongs to, 0 before the first operator.

        That is the one that the row is inside of. For a row outside of operators, it is the last one that began before
        it. Python frees a block when a name goes out of scope, so right after that operator.
        """
        return self._last_up_to(rows)

    def first_after(self, rows: IntegerArray) -> IntegerArray:
        """Return the number of the first operator that is strictly after each row.

        That is the one after the operator that the row is inside of. For a row outside of operators, it is the first
        one that begins after it.
        """
        return self._last_up_to(rows) + 1

    def last_before(self, rows: IntegerArray) -> IntegerArray:
        """Return the number of the last operator that is strictly before each row.

        That is the one before the operator that the row is inside of. For a row outside of operators, it is the last
        one that began before it, even if it still runs on another thread.
        """
        result = self._last_up_to(rows)
        result[self.operators.of_row[rows] != NOWHERE] -= 1
        return result

    def _last_up_to(self, rows: IntegerArray) -> IntegerArray:
        return self._of_row[rows].astype(np.int64)

    @functools.cached_property
    def _of_row(self) -> ShortIntegerArray:
        """For each row of the events the number that `owners_of` returns: it is asked for again and again."""
        inside = self.operators.of_row
        result = np.empty_like(inside)
        begins = self.operators.begin_rows[self.members]
        for first in range(0, len(inside), _PIECE_ROWS):
            piece = slice(first, first + _PIECE_ROWS)
            edges = np.searchsorted(begins, [first, min(first + _PIECE_ROWS, len(inside))])
            begun = np.zeros(len(inside[piece]) + 1, np.int32)
            begun[begins[slice(*edges)] - first + 1] = 1
            before = edges[0] + np.cumsum(begun[:-1], dtype=np.int32)
            result[piece] = np.where(inside[piece] == NOWHERE, before, self._positions_or_zero(inside[piece]))
        return result

    def _positions_or_zero(self, operators: ShortIntegerArray) -> IntegerArray:
        if not len(self.operators):
            return np.zeros(len(operators), np.int64)
        positions: IntegerArray = self.positions[operators]
        return positions


def find_operators(events: pl.DataFrame) -> Operators:
    """Find the outermost operators of each thread.

    Args:
        events: A table of `recording.EVENT_SCHEMA`, in sequence order.
    """
    kind = events["kind"].to_numpy()
    is_boundary = np.isin(kind, [*_STARTS, *_ENDS])
    # Thread by thread, each in sequence order.
    threads = _numbered(events["thread_id"])
    by_thread = np.argsort(threads, kind="stable")
    boundary_places = np.flatnonzero(is_boundary[by_thread])
    rows = by_thread[boundary_places]
    thread = threads[rows].astype(np.int64)
    is_start = np.isin(kind[rows], _STARTS)
    is_atb = np.isin(kind[rows], [EventKind.ATB_START, EventKind.ATB_END])
    label = events["name_id"].to_numpy()[rows].astype(np.int64) * 2 + is_atb
    is_matched = _matched(thread, label, is_start)

    depth = np.cumsum(np.where(is_matched, np.where(is_start, 1, -1), 0))
    is_unfinished = is_start & ~is_matched
    begins = (is_start & is_matched & (depth == 1)) | is_unfinished
    is_open_after = (depth > 0) | is_unfinished
    ordinal = np.cumsum(begins) - 1

    begin_rows = rows[begins].astype(np.int64)
    end_rows = np.empty(len(begin_rows), np.int64)
    end_rows[~is_unfinished[begins]] = rows[is_matched & ~is_start & (depth == 0)]
    end_rows[is_unfinished[begins]] = _next_boundaries(rows, thread, events.height)[is_unfinished]

    # Every row takes the state after the last boundary of its thread.
    of_row = np.full(events.height, NOWHERE, np.int32)
    if len(rows):
        in_order = np.argsort(begin_rows, kind="stable")
        rank = np.empty(len(begin_rows), np.int64)
        rank[in_order] = np.arange(len(begin_rows))
        count = 0
        for begin in range(0, events.height, _PIECE_ROWS):
            members = by_thread[begin : begin + _PIECE_ROWS]
            last = np.cumsum(is_boundary[members]) + (count - 1)
            count = int(last[-1]) + 1
            inside = (last >= 0) & (threads[members] == thread[last]) & is_open_after[last]
            of_row[members[inside]] = rank[ordinal[last[inside]]]
        begin_rows, end_rows = begin_rows[in_order], end_rows[in_order]
    devices = events["device"].to_numpy()[begin_rows].astype(np.int64)
    return Operators(begin_rows, end_rows, devices, of_row)


def order_of_device(operators: Operators, device: int, rows: IntegerArray) -> DeviceOrder:
    """Number the operators of one device.

    Args:
        operators: Those of the process.
        device: The device.
        rows: Rows of the events that allocate, free or access memory of the device.
    """
    is_member = operators.devices == device
    inside = operators.of_row[rows]
    is_member[inside[inside != NOWHERE]] = True
    return DeviceOrder(operators, np.flatnonzero(is_member), np.cumsum(is_member, dtype=np.int64))


def _matched(thread: IntegerArray, label: IntegerArray, is_start: MaskArray) -> MaskArray:
    """Tell which starts and ends belong together.

    A start right before an end of its name is a pair. Without these pairs, the start and end around each of them meet.
    So there are as many rounds as operators are nested deep.
    """
    is_matched = np.zeros(len(thread), np.bool_)
    left = np.arange(len(thread))
    for _ in range(_DEEPEST_NESTING):
        first, second = left[:-1], left[1:]
        is_pair = is_start[first] & ~is_start[second]
        is_pair &= (thread[first] == thread[second]) & (label[first] == label[second])
        if not is_pair.any():
            break
        is_matched[first[is_pair]] = True
        is_matched[second[is_pair]] = True
        left = left[~is_matched[left]]
    return is_matched


def _next_boundaries(rows: IntegerArray, thread: IntegerArray, end: int) -> IntegerArray:
    """Return the row of the boundary that follows each one on its thread; the end where there is none."""
    following = np.full(len(rows), end, np.int64)
    if len(rows):
        following[:-1] = np.where(thread[1:] == thread[:-1], rows[1:], end)
    return following


def _numbered(values: pl.Series) -> np.ndarray[Any, np.dtype[Any]]:
    """Return values as small numbers: 16 bits are sorted by counting, which takes a tenth of the time."""
    known = values.unique().sort().to_numpy()
    numbers = np.searchsorted(known, values.to_numpy())
    return numbers.astype(np.uint16 if len(known) <= np.iinfo(np.uint16).max else np.uint32)

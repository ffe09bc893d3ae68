"""Records as columns that compress well: numbers become small or equal, and each byte of them a column of its own.

- `sequence` and `timestamp_ns` are differences to the record before.
- `extra` of a record that names its block is the difference to its own sequence number. If the record ends a call of a
  function, `extra` is the difference to the begin of the call.
- Differences and `size` can be negative. They are folded (0, -1, 1, -2, ... as 0, 1, 2, 3, ...), so that small ones
  have few bytes.
- Column `address_2` has the third byte of all addresses, counted from the lowest. High bytes are nearly always the
  same.

All of it is undone exactly, whatever the records hold. Numbers have 64 bits and wrap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from msmemscope.formats.event_log.layout import RECORD
from msmemscope.model.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    Records = np.ndarray[Any, np.dtype[Any]]
    Bytes = np.ndarray[Any, np.dtype[np.uint8]]
    Numbers = np.ndarray[Any, np.dtype[np.uint64]]

_FIELDS: Final = {name: np.dtype(f"<u{RECORD[name].itemsize}") for name in RECORD.names or ()}
"""Numbers of columns have no sign."""
COLUMNS: Final = tuple(f"{name}_{place}" for name, dtype in _FIELDS.items() for place in range(dtype.itemsize))
"""Names of the columns, in their order: one per byte of a record."""

_ONE: Final = np.uint64(1)
_SIGN: Final = np.uint64(63)
_NAMES_BLOCK: Final = np.zeros(256, np.bool_)
_NAMES_BLOCK[
    [
        EventKind.FREE, EventKind.ACCESS_READ, EventKind.ACCESS_WRITE, EventKind.ACCESS_UNKNOWN, EventKind.FREE_COMPLETED,
        EventKind.OWNER, EventKind.HOLDER, EventKind.WATCH, EventKind.WATCH_START, EventKind.WATCH_STOP,
    ]
] = True  # fmt: skip


def columns_of(records: Records) -> dict[str, Bytes]:
    """Return records (`layout.RECORD`, at least one) as columns of bytes, by the names of COLUMNS."""
    columns: dict[str, Bytes] = {}
    for name, dtype in _FIELDS.items():
        values = np.ascontiguousarray(_packed(name, records), dtype=dtype)
        # One copy to bytes in the order of the columns; each is then in one piece.
        planes = np.ascontiguousarray(values.view(np.uint8).reshape(len(records), dtype.itemsize).T)
        columns.update({f"{name}_{place}": plane for place, plane in enumerate(planes)})
    return columns


def records_of(columns: Mapping[str, Bytes]) -> Records:
    """Return the records that `columns_of` was given."""
    rows = len(columns[COLUMNS[0]])
    records = np.zeros(rows, RECORD)
    packed_extra = np.zeros(rows, np.uint64)
    for name, dtype in _FIELDS.items():
        planes = {place: columns[f"{name}_{place}"] for place in range(dtype.itemsize)}
        used = {place: plane for place, plane in planes.items() if plane.any()}
        if not used:
            continue  # 0 stands for 0 in every field
        content = np.zeros((rows, dtype.itemsize), np.uint8)
        for place, plane in used.items():
            content[:, place] = plane
        values = content.reshape(-1).view(dtype)
        if name == "extra":
            packed_extra = values
        else:
            records[name] = _unpacked(name, values)
    records["extra"] = _extra(records, packed_extra)
    return records


def _packed(name: str, records: Records) -> Records:
    if name in {"sequence", "timestamp_ns"}:
        return _folded(np.diff(_numbers(records[name]), prepend=np.uint64(0)))
    if name == "size":
        return _folded(_numbers(records[name]))
    return _packed_extra(records) if name == "extra" else records[name]


def _unpacked(name: str, values: Records) -> Records:
    if name in {"sequence", "timestamp_ns"}:
        return np.cumsum(_unfolded(values), dtype=np.uint64)
    return _unfolded(values).view(np.int64) if name == "size" else values


def _packed_extra(records: Records) -> Numbers:
    extra = _numbers(records["extra"])
    packed: Numbers = extra.copy()
    for chosen, base in _bases(records):
        given = extra[chosen]
        # 0 stands for none and stays 0; what would become 0 takes its place.
        distance = np.where(given == base, base, base - given)
        packed[chosen] = np.where(given == 0, np.uint64(0), _folded(distance))
    return packed


def _extra(records: Records, packed: Numbers) -> Numbers:
    """Undo `_packed_extra`, given records that lack `extra` alone."""
    extra: Numbers = packed.copy()
    for chosen, base in _bases(records):
        distance = _unfolded(packed[chosen])
        found = np.where(distance == base, base, base - distance)
        extra[chosen] = np.where(packed[chosen] == 0, np.uint64(0), found)
    return extra


def _bases(records: Records) -> tuple[tuple[Records, Numbers], tuple[Records, Numbers]]:
    """Return which records have an `extra` near another number of theirs, and those numbers."""
    blocks = np.flatnonzero(_NAMES_BLOCK[records["kind"]])
    calls = np.flatnonzero(records["kind"] == EventKind.FUNCTION_CALL)
    return (blocks, _numbers(records["sequence"][blocks])), (calls, _numbers(records["timestamp_ns"][calls]))


def _numbers(values: Records) -> Numbers:
    return np.ascontiguousarray(values).astype(np.uint64, copy=False)


def _folded(values: Numbers) -> Numbers:
    folded: Numbers = (values << _ONE) ^ (np.uint64(0) - (values >> _SIGN))
    return folded


def _unfolded(values: Numbers) -> Numbers:
    unfolded: Numbers = (values >> _ONE) ^ (np.uint64(0) - (values & _ONE))
    return unfolded

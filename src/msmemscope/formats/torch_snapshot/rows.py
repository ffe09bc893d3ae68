"""From the entries of a memory snapshot to rows; entries are validated here.

A pickle can refer to one object a million times, and any object can stand where a text or a number is expected. So the
type of a value is checked before its use. The size of the file bounds all that is made of it.
"""

from __future__ import annotations

import re
from typing import Any, Final

import polars as pl

from msmemscope.formats.dump.row_reader import excerpt
from msmemscope.formats.event_log.event_segments import MOST_BYTES
from msmemscope.formats.interning import Interner
from msmemscope.formats.problems import Problems
from msmemscope.model.devices import DeviceKind, device_number
from msmemscope.model.events import OOM_SNAPSHOT_NAME

ACTIONS: Final = frozenset(
    {
        "alloc",
        "free_requested",
        "free_completed",
        "segment_alloc",
        "segment_map",
        "segment_free",
        "segment_unmap",
        "oom",
        "snapshot",
    }
)
"""Actions of entries that are known."""
SEGMENT_BEGINS: Final = frozenset({"segment_alloc", "segment_map"})
SEGMENT_ENDS: Final = frozenset({"segment_free", "segment_unmap"})
WAITING: Final = "waiting"
"""Action of a block that was freed while its memory cannot be handed out yet: other streams still use it."""

_BLOCK_ACTIONS: Final = {
    "active_allocated": "alloc",
    "active_awaiting_free": WAITING,
    "active_pending_free": WAITING,
}
"""By the state of a block."""
_FEWEST_BYTES_OF_ROW: Final = 8
"""The least number of bytes that an entry takes in a file."""
_FEW_LETTERS: Final = 16 << 20
_LETTERS_PER_BYTE: Final = 64
"""Letters that the texts of stacks may have, for each byte of a file: frames are shared, so that many stacks take few bytes."""
_PYTHON_SUFFIXES: Final = (".py", ".pyw", ".pyx", ".ipynb")
_NATIVE_FILE: Final = re.compile(
    r"\.(?:[chS]|cc|cpp|cxx|c\+\+|cu|cuh|hh|hpp|hxx|inc|inl|ipp|tcc|asm|so(?:\.[\d.]+)?|dll|dylib)$|^(?:\?\?)?$"
)
_PYTHON_FUNCTION: Final = re.compile(r"[^\W\d]\w*|<\w+>")
ROW_SCHEMA: Final = pl.Schema(
    {
        "action": pl.String(),
        "device": pl.Int16(),
        "address": pl.UInt64(),
        "size": pl.Int64(),
        "block_bytes": pl.Int64(),
        "timestamp_ns": pl.UInt64(),
        "python_stack_id": pl.UInt32(),
        "native_stack_id": pl.UInt32(),
        "name_id": pl.UInt32(),
        "stream_id": pl.UInt64(),
        "pool_id": pl.String(),
        "free_bytes": pl.UInt64(),
    }
)
"""size: of an entry of a history, and what was requested of a block that is alive; null where that is not known.
block_bytes: of a block that is alive; null in a history, where it stands nowhere.
free_bytes: of the device.
"""
_NOT_KNOWN: Final = frozenset({"block_bytes", "stream_id", "pool_id", "free_bytes"})
"""Columns with nulls."""
_MOST_NUMBER: Final = (1 << 63) - 1


def _text(entry: dict[str, Any], key: str) -> str:
    """Return a text of an entry. Other objects are refused: even to format one can take forever."""
    value = entry[key]
    if not isinstance(value, str):
        message = f"{key} is no text but {type(value).__name__}"
        raise TypeError(message)
    return value


def _number(entry: dict[str, Any], key: str, default: int | None = None) -> int:
    """Return a number of an entry.

    Args:
        entry: Where it stands.
        key: Its name.
        default: Its value if it is missing; None if it must not be missing.
    """
    value = entry[key] if default is None else entry.get(key, default)
    if not isinstance(value, int):
        message = f"{key} is no whole number but {type(value).__name__}"
        raise TypeError(message)
    return value


def _stream(entry: dict[str, Any]) -> int | None:
    """Return the stream of an entry; older versions do not have it."""
    if entry.get("stream") is None:
        return None
    stream = _number(entry, "stream")
    if not 0 <= stream <= _MOST_NUMBER:
        message = f"no stream: {stream}"
        raise ValueError(message)
    return stream


def _pool_id(entry: dict[str, Any], key: str) -> str | None:
    """Return the two numbers of a pool as a text; older versions do not have them."""
    numbers = entry.get(key)
    if numbers is None:
        return None
    if not isinstance(numbers, (tuple, list)) or len(numbers) != len(("graph", "user")):
        message = f"{key} is no pair of numbers"
        raise TypeError(message)
    for number in numbers:
        if not (isinstance(number, int) and 0 <= number <= _MOST_NUMBER):
            message = f"{key} is no pair of numbers"
            raise TypeError(message)
    return "/".join(f"{number:d}" for number in numbers)


def _entries(value: Any, what: str) -> list[dict[str, Any]]:
    """Return a list of dictionaries, which it must be."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(entry, dict) for entry in value):
        message = f"{what} is no list of dictionaries"
        raise TypeError(message)
    return list(value)


def _is_python(file: str, line: int, name: str) -> bool:
    """Whether a frame is one of Python.

    Torch mixes frames of Python and C++ into one stack and does not mark them. A frame of C++ has a source file, a
    library or nothing known (`??`, line 0). A program of Python may have any name, and its functions have plain ones.
    """
    if file.endswith(_PYTHON_SUFFIXES) or (file.startswith("<") and file.endswith(">")):
        return True
    return _NATIVE_FILE.search(file) is None and line > 0 and _PYTHON_FUNCTION.fullmatch(name) is not None


class SnapshotRows:
    """The collector of rows, column by column, and of stacks as texts.

    Args:
        strings: Where names and attributes of events get their ids.
        size_bytes: The size of the file, unpacked. It bounds the rows and texts, since objects can be shared.
        kind: The kind of the devices.
    """

    def __init__(self, strings: Interner, size_bytes: int, kind: DeviceKind) -> None:
        self._kind = kind
        self.strings = strings
        self.python_stacks = Interner()
        self.native_stacks = Interner()
        # Each entry has a list of frames of its own, but the frames are shared. So the identities of its frames tell a
        # stack. They stay the same for as long as the snapshot is held.
        self._stacks: dict[tuple[int, ...], tuple[int, int]] = {(): (0, 0)}
        self._known_lists: dict[int, tuple[int, int]] = {}
        self._rows_left = size_bytes // _FEWEST_BYTES_OF_ROW
        self._letters_left = _FEW_LETTERS + _LETTERS_PER_BYTE * size_bytes
        self._parts: list[pl.DataFrame] = [ROW_SCHEMA.to_frame()]
        self._unknown: dict[str, int] = {}

    def take(self) -> pl.DataFrame:
        """Return the rows so far, and forget them; stacks stay."""
        rows = pl.concat(self._parts)
        self._parts = [ROW_SCHEMA.to_frame()]
        return rows

    def problems(self) -> list[str]:
        """Return the parts that were left out."""
        unknown = self._unknown.items()
        return Problems(
            *(f"events of unknown kind left out: {count} of {excerpt(action)}" for action, count in unknown)
        ).lines()

    def add_history(self, trace: list[dict[str, Any]], device: int) -> None:
        """Add the history of a device."""
        actions = [_text(entry, "action") for entry in _entries(trace, "device_traces")]
        known = [entry for entry, action in zip(trace, actions, strict=True) if action in ACTIONS]
        if len(known) < len(trace):
            for action in actions:
                if action not in ACTIONS:
                    self._unknown[action] = self._unknown.get(action, 0) + 1
        entries, free = self._with_states(known)
        name_id = self.strings.id_of(OOM_SNAPSHOT_NAME) if any(number is not None for number in free) else 0
        self._add(
            {
                "action": [entry["action"] for entry in entries],
                "device": [device_number(self._kind, device)] * len(entries),
                # An allocation that failed has no address.
                "address": [_number(entry, "addr", 0) if entry["action"] != "oom" else 0 for entry in entries],
                "size": [_number(entry, "size", 0) for entry in entries],
                "timestamp_ns": [_number(entry, "time_us", 0) * 1000 for entry in entries],
                "name_id": [0 if number is None else name_id for number in free],
                "stream_id": [_stream(entry) for entry in entries],
                "pool_id": [_pool_id(entry, "pool_id") for entry in entries],
                "free_bytes": free,
            },
            [entry.get("frames") or () for entry in entries],
        )

    def add_segment(self, segment: dict[str, Any]) -> None:
        """Add a segment and the blocks that are alive in it, or were freed and wait for other streams."""
        device = device_number(self._kind, _number(segment, "device", 0))
        address = _number(segment, "address", 0)
        size = _number(segment, "total_size")
        # Expandable ones grow by pieces.
        begin = "segment_map" if segment.get("is_expandable") is True else "segment_alloc"
        rows: list[tuple[str, int, int | None, int | None, Any]] = [
            (begin, address, size, None, segment.get("frames", ()))
        ]
        for block in _entries(segment["blocks"], "blocks"):
            size = _number(block, "size")
            action = _BLOCK_ACTIONS.get(_text(block, "state"))
            if action is not None:
                frames = block.get("frames")
                if frames is None:  # as older versions have it
                    history = _entries(block.get("history") or (), "history")
                    frames = history[0].get("frames", ()) if history else ()
                requested = _number(block, "requested_size") if "requested_size" in block else None
                rows.append((action, _number(block, "address", address), requested, size, frames))
            address += size
        actions, addresses, sizes, block_bytes, stacks = zip(*rows, strict=True)
        same = {
            "device": device,
            "stream_id": _stream(segment),
            "pool_id": _pool_id(segment, "segment_pool_id"),
        }
        columns = {"action": actions, "address": addresses, "size": sizes, "block_bytes": block_bytes}
        self._add(
            {name: list(values) for name, values in columns.items()}
            | {name: [value] * len(rows) for name, value in same.items()},
            [frames or () for frames in stacks],
        )

    @staticmethod
    def _with_states(entries: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[int | None]]:
        """Put the known state of the device before each failed allocation, where our own logs have it.

        Returns:
            The entries, and how many bytes of the device each says are free. Only entries that were put in say so; the
            others have None.
        """
        found: list[dict[str, Any]] = []
        free: list[int | None] = []
        for entry in entries:
            if entry["action"] == "oom" and "device_free" in entry:
                found.append({"action": "snapshot", "time_us": entry.get("time_us", 0)})
                free.append(_number(entry, "device_free"))
            found.append(entry)
            free.append(None)
        return found, free

    def _add(self, columns: dict[str, list[Any]], stacks: list[Any]) -> None:
        self._rows_left -= len(stacks)
        if self._rows_left < 0:
            message = "it refers to its entries more often than its size allows"
            raise ValueError(message)
        for size in (*columns["size"], *columns.get("block_bytes", ())):
            if size is not None and not 0 <= size <= MOST_BYTES:
                message = f"no size of memory: {size}"
                raise ValueError(message)
        for time_ns in columns.get("timestamp_ns", ()):
            if not 0 <= time_ns < 1 << 63:
                message = f"no time: {time_ns // 1000} us"
                raise ValueError(message)
        ids = [self._stack_ids(frames) for frames in stacks]
        columns["python_stack_id"] = [python for python, _ in ids]
        columns["native_stack_id"] = [native for _, native in ids]
        absent = {name: [None if name in _NOT_KNOWN else 0] * len(ids) for name in ROW_SCHEMA if name not in columns}
        self._parts.append(pl.DataFrame({name: (columns | absent)[name] for name in ROW_SCHEMA}, schema=ROW_SCHEMA))

    def _stack_ids(self, frames: Any) -> tuple[int, int]:
        known = self._known_lists.get(id(frames))
        if known is None:
            entries = _entries(frames, "frames")
            key = tuple(map(id, entries))
            known = self._stacks.get(key)
            if known is None:
                known = self._stacks[key] = self._new_stack(entries)
            self._known_lists[id(frames)] = known
        return known

    def _new_stack(self, frames: list[dict[str, Any]]) -> tuple[int, int]:
        python, native = [], []
        for frame in frames:
            file, line, name = _text(frame, "filename"), _number(frame, "line"), _text(frame, "name")
            self._letters_left -= len(file) + len(name)
            if self._letters_left < 0:
                message = "its stacks are longer than its size allows"
                raise ValueError(message)
            if _is_python(file, line, name):
                python.append(f"{file}({line}): {name}\n")
            else:
                native.append(f"{file}({name})\n" if file not in {"", "??"} else f"{name}\n")
        texts = "".join(python), "".join(native)
        for text in texts:
            text.encode()  # refuses halves of letters, which pickles can hold and tables cannot
        return self.python_stacks.id_of(texts[0]), self.native_stacks.id_of(texts[1])

"""From the entries of a memory snapshot to rows; entries are validated here.

A pickle can refer to one object a million times, and any object can stand where a text or a number is expected. So the type
of a value is checked before its use, and what is made of a file is bounded by the size of the file.
"""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from msmemscope.formats.dump.row_reader import excerpt
from msmemscope.formats.event_log.event_segments import MOST_BYTES
from msmemscope.formats.interning import Interner
from msmemscope.formats.problems import Problems
from msmemscope.model.devices import DeviceKind, device_number
from msmemscope.model.events import OOM_SNAPSHOT_NAME, EventKind
from msmemscope.recording.schema import ATTRIBUTE_SCHEMA

KINDS: Final = {
    "alloc": EventKind.MALLOC,
    "free_requested": EventKind.FREE,
    "free_completed": EventKind.FREE,
    "segment_alloc": EventKind.MALLOC,
    "segment_map": EventKind.MALLOC,
    "segment_free": EventKind.FREE,
    "segment_unmap": EventKind.FREE,
    "oom": EventKind.OOM,
    "snapshot": EventKind.SNAPSHOT,
}
"""Actions of entries that are known."""

_ALIVE: Final = frozenset({"active_allocated", "active_awaiting_free", "active_pending_free"})
_FEWEST_BYTES_OF_ROW: Final = 8
"""What any entry takes in a file at least."""
_FEW_LETTERS: Final = 16 << 20
_LETTERS_PER_BYTE: Final = 64
"""Letters that the texts of stacks may have, for each byte of a file: frames are shared, so that many stacks take few bytes."""
_NATIVE_SUFFIXES: Final = (".cpp", ".cc", ".c", ".cu", ".h", ".hpp", ".cuh", ".so")
_TOLD: Final = pl.Schema({name: ATTRIBUTE_SCHEMA[name] for name in ("attribute_id", "free_bytes")})
ROW_SCHEMA: Final = pl.Schema(
    {
        "action": pl.String(),
        "device": pl.Int16(),
        "address": pl.UInt64(),
        "size": pl.Int64(),
        "timestamp_ns": pl.UInt64(),
        "python_stack_id": pl.UInt32(),
        "native_stack_id": pl.UInt32(),
        "name_id": pl.UInt32(),
        "attribute_id": pl.UInt32(),
    }
)


def _text(entry: dict[str, Any], key: str) -> str:
    """Returns a text of an entry. Other objects are refused: even to format one can take forever."""
    value = entry[key]
    if not isinstance(value, str):
        message = f"{key} is no text but {type(value).__name__}"
        raise TypeError(message)
    return value


def _number(entry: dict[str, Any], key: str, default: int | None = None) -> int:
    """Returns a number of an entry.

    Args:
        entry: Where it stands.
        key: Its name.
        default: What it is if it is missing; None if it must not be.
    """
    value = entry[key] if default is None else entry.get(key, default)
    if not isinstance(value, int):
        message = f"{key} is no whole number but {type(value).__name__}"
        raise TypeError(message)
    return value


def _entries(value: Any, what: str) -> list[dict[str, Any]]:
    """Returns a list of dictionaries, which it must be."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(entry, dict) for entry in value):
        message = f"{what} is no list of dictionaries"
        raise TypeError(message)
    return list(value)


class SnapshotRows:
    """Collects rows column by column, and stacks as texts.

    Args:
        strings: Where names and attributes of events get their ids.
        size_bytes: Of the file, unpacked; bounds the rows and texts, since objects can be shared.
        kind: Of the devices.
    """

    def __init__(self, strings: Interner, size_bytes: int, kind: DeviceKind) -> None:
        self._kind = kind
        self.strings = strings
        self.python_stacks = Interner()
        self.native_stacks = Interner()
        # Each entry has a list of frames of its own, and the frames are shared: so a stack is known by the identities of
        # its frames, which stay theirs for as long as the snapshot is held.
        self._stacks: dict[tuple[int, ...], tuple[int, int]] = {(): (0, 0)}
        self._known_lists: dict[int, tuple[int, int]] = {}
        self._rows_left = size_bytes // _FEWEST_BYTES_OF_ROW
        self._letters_left = _FEW_LETTERS + _LETTERS_PER_BYTE * size_bytes
        self._parts: list[pl.DataFrame] = [ROW_SCHEMA.to_frame()]
        self._unknown: dict[str, int] = {}
        self._free: dict[int, int] = {}

    def take(self) -> pl.DataFrame:
        """Returns the rows so far, and forgets them; stacks stay."""
        rows = pl.concat(self._parts)
        self._parts = [ROW_SCHEMA.to_frame()]
        return rows

    def attributes(self) -> pl.DataFrame:
        """Returns what is told of devices beside events, as ATTRIBUTE_SCHEMA."""
        table = pl.DataFrame({"attribute_id": list(self._free), "free_bytes": list(self._free.values())})
        return pl.concat([ATTRIBUTE_SCHEMA.to_frame(), table.cast(_TOLD)], how="diagonal")

    def problems(self) -> list[str]:
        """Returns what was left out."""
        unknown = self._unknown.items()
        return Problems(
            *(f"events of unknown kind left out: {count} of {excerpt(action)}" for action, count in unknown)
        ).lines()

    def add_history(self, trace: list[dict[str, Any]], device: int) -> None:
        """Adds the history of a device."""
        actions = [_text(entry, "action") for entry in _entries(trace, "device_traces")]
        known = [entry for entry, action in zip(trace, actions, strict=True) if action in KINDS]
        if len(known) < len(trace):
            for action in actions:
                if action not in KINDS:
                    self._unknown[action] = self._unknown.get(action, 0) + 1
        entries, free = self._with_states(known)
        told = [0 if number is None else self._told(number) for number in free]
        self._add(
            {
                "action": [entry["action"] for entry in entries],
                "device": [device_number(self._kind, device)] * len(entries),
                # An allocation that failed has no address.
                "address": [_number(entry, "addr", 0) if entry["action"] != "oom" else 0 for entry in entries],
                "size": [_number(entry, "size", 0) for entry in entries],
                "timestamp_ns": [_number(entry, "time_us", 0) * 1000 for entry in entries],
                "name_id": [self.strings.id_of(OOM_SNAPSHOT_NAME) if identity else 0 for identity in told],
                "attribute_id": told,
            },
            [entry.get("frames") or () for entry in entries],
        )

    def add_segment(self, segment: dict[str, Any]) -> None:
        """Adds a segment and the blocks that are alive in it."""
        device = device_number(self._kind, _number(segment, "device", 0))
        address = _number(segment, "address", 0)
        rows = [("segment_alloc", device, address, _number(segment, "total_size"), segment.get("frames", ()))]
        for block in _entries(segment["blocks"], "blocks"):
            size = _number(block, "size")
            if _text(block, "state") in _ALIVE:
                frames = block.get("frames")
                if frames is None:  # as older versions have it
                    history = _entries(block.get("history") or (), "history")
                    frames = history[0].get("frames", ()) if history else ()
                rows.append(("alloc", device, _number(block, "address", address), size, frames))
            address += size
        actions, devices, addresses, sizes, stacks = zip(*rows, strict=True)
        columns = {"action": actions, "device": devices, "address": addresses, "size": sizes}
        self._add({name: list(values) for name, values in columns.items()}, [frames or () for frames in stacks])

    def _told(self, free_bytes: int) -> int:
        """Returns the id of the attributes of a device that has so much memory left."""
        identity = self.strings.id_of(f"free:{free_bytes}")
        self._free[identity] = free_bytes
        return identity

    @staticmethod
    def _with_states(entries: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[int | None]]:
        """Puts the state of the device before each allocation that failed, as far as it is told: our own logs have it there.

        Returns:
            The entries, and how many bytes of the device each says are free; None but for those that were put in.
        """
        found: list[dict[str, Any]] = []
        told: list[int | None] = []
        for entry in entries:
            if entry["action"] == "oom" and "device_free" in entry:
                found.append({"action": "snapshot", "time_us": entry.get("time_us", 0)})
                told.append(_number(entry, "device_free"))
            found.append(entry)
            told.append(None)
        return found, told

    def _add(self, columns: dict[str, list[Any]], stacks: list[Any]) -> None:
        self._rows_left -= len(stacks)
        if self._rows_left < 0:
            message = "it refers to its entries more often than its size allows"
            raise ValueError(message)
        for size in columns["size"]:
            if not 0 <= size <= MOST_BYTES:
                message = f"no size of memory: {size}"
                raise ValueError(message)
        for time_ns in columns.get("timestamp_ns", ()):
            if not 0 <= time_ns < 1 << 63:
                message = f"no time: {time_ns // 1000} us"
                raise ValueError(message)
        ids = [self._stack_ids(frames) for frames in stacks]
        columns["python_stack_id"] = [python for python, _ in ids]
        columns["native_stack_id"] = [native for _, native in ids]
        nothing = [0] * len(ids)
        self._parts.append(pl.DataFrame({name: columns.get(name, nothing) for name in ROW_SCHEMA}, schema=ROW_SCHEMA))

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
            if file in {"", "??"} or file.endswith(_NATIVE_SUFFIXES) or "." not in file.rpartition("/")[2]:
                is_python = file.startswith("<") and file.endswith(">")
            else:
                is_python = True
            if is_python:
                python.append(f"{file}({line}): {name}\n")
            else:
                native.append(f"{file}({name})\n" if file not in {"", "??"} else f"{name}\n")
        texts = "".join(python), "".join(native)
        for text in texts:
            text.encode()  # refuses halves of letters, which pickles can hold and tables cannot
        return self.python_stacks.id_of(texts[0]), self.native_stacks.id_of(texts[1])

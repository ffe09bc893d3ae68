"""Memory snapshots of torch and torch_npu: the caching allocator's own history.

What `torch.cuda.memory._dump_snapshot` and `torch.npu.memory._dump_snapshot` write: `device_traces`, one list of events
per device (`alloc`, `free_requested`, `free_completed`, `segment_alloc`, `segment_free`, `segment_map`,
`segment_unmap`, `oom`, `snapshot`), and `segments`, all memory of the allocator at the moment of the snapshot with the
blocks in it. `memory_snapshot()` of either returns the segments alone, which are read too.

The history is a ring: what was allocated before its begin has no event. Blocks that are alive in the segments without
one begin with the first event, as blocks do that existed when a recording began.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from msmemscope.errors import InputError
from msmemscope.model.events import EventFlag, EventKind, Pool
from msmemscope.store.build_tables import build_blocks
from msmemscope.store.dataset import DATASET_BLOCK_SCHEMA, Dataset
from msmemscope.store.readers.block_pairing import block_sequences
from msmemscope.store.readers.coverage import coverage_of
from msmemscope.store.readers.interning import Interner
from msmemscope.store.readers.snapshot_pickle import read_plain_pickle
from msmemscope.store.schema import EVENT_SCHEMA

if TYPE_CHECKING:
    from pathlib import Path

_ALIVE: Final = frozenset({"active_allocated", "active_awaiting_free", "active_pending_free"})
_KINDS: Final = {
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
_SEGMENT: Final = "segment_"
_HIGHEST_DEVICE: Final = 127
_NATIVE_SUFFIXES: Final = (".cpp", ".cc", ".c", ".cu", ".h", ".hpp", ".cuh", ".so")
_ROW_SCHEMA: Final = pl.Schema(
    {
        "action": pl.String(),
        "device": pl.Int8(),
        "address": pl.UInt64(),
        "size": pl.Int64(),
        "timestamp_ns": pl.UInt64(),
        "python_stack_id": pl.UInt32(),
        "native_stack_id": pl.UInt32(),
        "flags": pl.UInt8(),
    }
)


def dataset_of_snapshot(path: Path) -> Dataset:
    """Returns what a memory snapshot tells: blocks of the caching allocator, and its segments as memory of the driver.

    Args:
        path: The pickle; nothing of it is run.

    Raises:
        InputError: it cannot be read, is damaged, is no plain data, or no memory snapshot.
    """
    content = read_plain_pickle(path)
    traces, segments = _parts(content, path)
    rows = _Rows()
    try:
        for device, trace in enumerate(traces):
            for entry in trace:
                rows.add_event(entry, device)
        history = rows.frame()
        rows.clear()
        for segment in segments:
            rows.add_segment(segment)
        present = rows.frame()
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
        reason = str(error).partition("\n")[0]  # Polars adds pages of advice
        message = f"{path} is no memory snapshot: {type(error).__name__}: {reason}"
        raise InputError(message) from error
    events, before = _events(history, present)
    strings = Interner().frame()
    notes = [*_notes(traces, before), *coverage_of(events)]
    blocks = build_blocks(events, strings).with_columns(owner=pl.lit(None, dtype=pl.String))
    return Dataset(
        source=str(path),
        form="torch snapshot",
        process_id=0,
        events=events,
        blocks=blocks.select(DATASET_BLOCK_SCHEMA.names()),
        strings=strings,
        python_stacks=rows.python_stacks.frame(),
        native_stacks=rows.native_stacks.frame(),
        coverage=tuple(notes),
        problems=tuple(rows.problems()),
    )


def _parts(content: Any, path: Path) -> tuple[list[Any], list[Any]]:
    if isinstance(content, dict) and ("device_traces" in content or "segments" in content):
        traces, segments = content.get("device_traces", []), content.get("segments", [])
    else:
        traces, segments = [], content
    is_snapshot = (
        isinstance(traces, list)
        and all(isinstance(trace, list) for trace in traces)
        and isinstance(segments, list)
        and all(isinstance(segment, dict) and "blocks" in segment for segment in segments)
        and bool(segments or traces)
    )
    if not is_snapshot:
        message = f"{path} is a pickle, but no memory snapshot of torch: it has neither device_traces nor segments"
        raise InputError(
            message, hint="torch.cuda.memory._dump_snapshot and torch.npu.memory._dump_snapshot write them"
        )
    return traces, segments


def _notes(traces: list[Any], before: int) -> list[str]:
    notes = [
        "memory of the caching allocator only: what the driver, libraries and other allocators hold is not in a snapshot",
    ]
    if not any(traces):
        notes.append("no history: it was not recorded (_record_memory_history), only what was alive is known")
    elif not any("time_us" in entry for trace in traces for entry in trace[:1]):
        notes.append("no times: only the order of events is known, and it is known per device")
    if any(traces) and before:
        notes.append(f"{before} blocks and segments are older than the history: when they were allocated is not known")
    return notes


class _Rows:
    """Collects rows, and stacks as texts."""

    def __init__(self) -> None:
        self.python_stacks = Interner()
        self.native_stacks = Interner()
        # Lists of frames are shared by many entries: looked at once each, and kept alive so that ids stay theirs.
        self._seen: dict[int, tuple[Any, int, int]] = {}
        self._columns: dict[str, list[Any]] = {name: [] for name in _ROW_SCHEMA}
        self._unknown: dict[str, int] = {}

    def clear(self) -> None:
        """Forgets the rows and keeps the stacks."""
        self._columns = {name: [] for name in _ROW_SCHEMA}

    def frame(self) -> pl.DataFrame:
        """Returns the rows."""
        return pl.DataFrame(self._columns, schema=_ROW_SCHEMA)

    def problems(self) -> list[str]:
        """Returns what was left out."""
        return [f"events of unknown kind left out: {count} of {action!r}" for action, count in self._unknown.items()]

    def add_event(self, entry: dict[str, Any], device: int) -> None:
        """Adds an event of a device's history."""
        action = entry["action"]
        if action not in _KINDS:
            self._unknown[str(action)] = self._unknown.get(str(action), 0) + 1
            return
        address = entry.get("addr", 0) if action != "oom" else 0
        frames = entry.get("frames", ())
        self._add(action, device, address, entry.get("size", 0), int(entry.get("time_us", 0)) * 1000, frames)

    def add_segment(self, segment: dict[str, Any]) -> None:
        """Adds a segment and the blocks that are alive in it."""
        device = segment.get("device", 0)
        address = segment.get("address", 0)
        self._add("segment_alloc", device, address, segment["total_size"], 0, segment.get("frames", ()))
        for block in segment["blocks"]:
            if block["state"] in _ALIVE:
                frames = block.get("frames")
                if frames is None:  # as older versions have it
                    history = block.get("history") or [{}]
                    frames = history[0].get("frames", ())
                self._add("alloc", device, block.get("address", address), block["size"], 0, frames)
            address += block["size"]

    def _add(self, action: str, device: int, address: int, size: int, timestamp_ns: int, frames: Any) -> None:
        if not 0 <= device <= _HIGHEST_DEVICE:
            message = f"no device: {device}"
            raise ValueError(message)
        python_stack, native_stack = self._stacks(frames)
        values = (action, device, address, size, timestamp_ns, python_stack, native_stack, 0)
        for column, value in zip(self._columns.values(), values, strict=True):
            column.append(value)

    def _stacks(self, frames: Any) -> tuple[int, int]:
        if not frames:
            return 0, 0
        known = self._seen.get(id(frames))
        if known is not None:
            return known[1], known[2]
        python, native = [], []
        for frame in frames:
            file, line, name = str(frame["filename"]), int(frame["line"]), str(frame["name"])
            if file in {"", "??"} or file.endswith(_NATIVE_SUFFIXES) or "." not in file.rpartition("/")[2]:
                is_python = file.startswith("<") and file.endswith(">")
            else:
                is_python = True
            if is_python:
                python.append(f"{file}({line}): {name}\n")
            else:
                native.append(f"{file}({name})\n" if file not in {"", "??"} else f"{name}\n")
        stacks = self.python_stacks.id_of("".join(python)), self.native_stacks.id_of("".join(native))
        self._seen[id(frames)] = (frames, *stacks)
        return stacks


def _events(history: pl.DataFrame, present: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Returns EVENT_SCHEMA, and how many blocks and segments are older than the history."""
    history = _frees_once(history.sort("timestamp_ns", maintain_order=True))
    events = _numbered(history, 1)
    events = events.with_columns(extra=block_sequences(events.with_columns(allocation_id=pl.lit(0, dtype=pl.UInt64))))
    # What is alive at the end and was allocated within the history.
    ended = events.filter(pl.col("kind") == EventKind.FREE)["extra"]
    alive = events.filter((pl.col("kind") == EventKind.MALLOC) & ~pl.col("sequence").is_in(ended.implode()))
    older = _not_in_history(_numbered(present, 1), alive)
    first = history["timestamp_ns"].min() if len(history) else 0
    older = older.with_columns(
        timestamp_ns=pl.lit(first, dtype=pl.UInt64),
        flags=pl.lit(int(EventFlag.SHADOW), dtype=pl.UInt8),
        sequence=pl.int_range(1, len(older) + 1, dtype=pl.UInt64, eager=True),
    )
    events = pl.concat([older, _numbered(history, len(older) + 1)])
    extra = block_sequences(events.with_columns(allocation_id=pl.lit(0, dtype=pl.UInt64)))
    events = events.with_columns(extra=extra)
    return _with_reserved(events), len(older)


def _not_in_history(present: pl.DataFrame, alive: pl.DataFrame) -> pl.DataFrame:
    """Returns what is alive at the end and was not allocated within the history.

    Segments can grow piece by piece (expandable segments): only the rest of one is older than its pieces.

    Args:
        present: Segments and blocks of the snapshot.
        alive: The same according to the history.
    """
    place = ["device", "pool", "address"]
    is_segment = pl.col("pool") == Pool.HAL
    blocks = present.filter(~is_segment).join(alive.select(place).unique(), on=place, how="anti", maintain_order="left")
    pieces = (
        alive.lazy().filter(is_segment).select("device", pl.col("address").alias("piece"), pl.col("size").alias("of"))
    )
    segments = present.filter(is_segment).with_row_index("segment")
    known = (
        segments.lazy()
        .select("segment", "device", "address", "size")
        .join_where(
            pieces.rename({"device": "its_device"}),
            pl.col("device") == pl.col("its_device"),
            pl.col("piece") >= pl.col("address"),
            pl.col("piece") < pl.col("address") + pl.col("size").cast(pl.UInt64),
        )
        .group_by("segment")
        .agg(pl.col("of").sum())
        .collect()
    )
    segments = (
        segments.join(known, on="segment", how="left", maintain_order="left")
        .with_columns(pl.col("size") - pl.col("of").fill_null(0))
        .filter(pl.col("size") > 0)
        .select(EVENT_SCHEMA.names())
    )
    return pl.concat([segments, blocks])


def _frees_once(history: pl.DataFrame) -> pl.DataFrame:
    """Leaves out each `free_completed` that follows the `free_requested` of its block: the program's free counts."""
    of_blocks = ~pl.col("action").str.starts_with(_SEGMENT) & (pl.col("address") != 0)
    earlier = pl.when(of_blocks).then("action").shift(1).over("device", "address", of_blocks)
    is_second = (pl.col("action") == "free_completed") & (earlier == "free_requested")
    return history.filter(~is_second.fill_null(value=False))


def _numbered(rows: pl.DataFrame, first: int) -> pl.DataFrame:
    """Returns rows as EVENT_SCHEMA."""
    action = pl.col("action")
    pool = (
        pl.when(action.str.starts_with(_SEGMENT))
        .then(int(Pool.HAL))
        .when(action.is_in(["oom", "snapshot"]))
        .then(0)
        .otherwise(int(Pool.PTA))
    )
    zeros = {name: pl.lit(0, dtype=dtype) for name, dtype in EVENT_SCHEMA.items() if name not in rows.columns}
    return (
        rows.with_columns(**zeros)
        .with_columns(
            kind=action.replace_strict({name: int(kind) for name, kind in _KINDS.items()}, return_dtype=pl.UInt8),
            pool=pool.cast(pl.UInt8),
            sequence=pl.int_range(first, first + len(rows), dtype=pl.UInt64, eager=True),
        )
        .select(EVENT_SCHEMA.names())
    )


def _with_reserved(events: pl.DataFrame) -> pl.DataFrame:
    """Adds what the allocator holds of the driver's memory, after each change of its segments.

    The records take numbers of their own, so all are numbered anew.
    """
    is_segment = (pl.col("pool") == Pool.HAL) & ((pl.col("kind") == EventKind.MALLOC) | (pl.col("extra") != 0))
    held = pl.when(pl.col("kind") == EventKind.MALLOC).then("size").otherwise(-pl.col("size"))
    reserved = (
        events.filter(is_segment)
        .with_columns(
            size=held.cum_sum().over("device"),
            kind=pl.lit(int(EventKind.RESERVED), dtype=pl.UInt8),
            pool=pl.lit(int(Pool.PTA), dtype=pl.UInt8),
            address=pl.lit(0, dtype=pl.UInt64), extra=pl.lit(0, dtype=pl.UInt64), flags=pl.lit(0, dtype=pl.UInt8),
            python_stack_id=pl.lit(0, dtype=pl.UInt32), native_stack_id=pl.lit(0, dtype=pl.UInt32),
        )
    )  # fmt: skip
    joined = pl.concat([events, reserved]).sort("sequence", maintain_order=True)
    numbers = pl.int_range(1, len(joined) + 1, dtype=pl.UInt64, eager=True)
    is_event = joined["kind"] != EventKind.RESERVED
    renumbered = pl.DataFrame({"extra": joined["sequence"].filter(is_event), "number": numbers.filter(is_event)})
    return (
        joined.join(renumbered, on="extra", how="left", maintain_order="left")
        .with_columns(sequence=pl.lit(numbers), extra=pl.col("number").fill_null(0))
        .select(EVENT_SCHEMA.names())
    )

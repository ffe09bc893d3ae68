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
from msmemscope.model.events import OOM_SNAPSHOT_NAME, EventFlag, EventKind, Pool
from msmemscope.store.build_tables import build_blocks
from msmemscope.store.dataset import DATASET_BLOCK_SCHEMA, Dataset
from msmemscope.store.readers.block_pairing import block_sequences
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
        "name_id": pl.UInt32(),
        "attribute_id": pl.UInt32(),
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
    strings = Interner()
    rows = _Rows(strings)
    try:
        for device, trace in enumerate(traces):
            rows.add_history(trace, device)
        history = rows.take()
        for segment in segments:
            rows.add_segment(segment)
        present = rows.take()
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
        reason = str(error).partition("\n")[0]  # Polars adds pages of advice
        message = f"{path} is no memory snapshot: {type(error).__name__}: {reason}"
        raise InputError(message) from error
    events, before = _events(history, present)
    blocks = build_blocks(events, strings.frame()).with_columns(owner=pl.lit(None, dtype=pl.String))
    return Dataset(
        source=str(path),
        form="torch snapshot",
        process_id=0,
        events=events,
        blocks=blocks.select(DATASET_BLOCK_SCHEMA.names()),
        strings=strings.frame(),
        python_stacks=rows.python_stacks.frame(),
        native_stacks=rows.native_stacks.frame(),
        coverage=tuple(_notes(traces, before)),
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
        count = "1 block or segment is" if before == 1 else f"{before} blocks and segments are"
        when = "it was" if before == 1 else "they were"
        notes.append(f"{count} older than the history: when {when} allocated is not known")
    return notes


class _Rows:
    """Collects rows column by column, and stacks as texts.

    Args:
        strings: Where names and attributes of events get their ids.
    """

    def __init__(self, strings: Interner) -> None:
        self.strings = strings
        self.python_stacks = Interner()
        self.native_stacks = Interner()
        # Each entry has a list of frames of its own, and the frames are shared: so a stack is known by the identities of
        # its frames, which stay theirs for as long as the snapshot is held.
        self._stacks: dict[tuple[int, ...], tuple[int, int]] = {(): (0, 0)}
        self._parts: list[pl.DataFrame] = [_ROW_SCHEMA.to_frame()]
        self._unknown: dict[str, int] = {}

    def take(self) -> pl.DataFrame:
        """Returns the rows so far, and forgets them; stacks stay."""
        rows = pl.concat(self._parts)
        self._parts = [_ROW_SCHEMA.to_frame()]
        return rows

    def problems(self) -> list[str]:
        """Returns what was left out."""
        return [f"events of unknown kind left out: {count} of {action!r}" for action, count in self._unknown.items()]

    def add_history(self, trace: list[dict[str, Any]], device: int) -> None:
        """Adds the history of a device."""
        known = [entry for entry in trace if entry["action"] in _KINDS]
        if len(known) < len(trace):
            others = [str(entry["action"]) for entry in trace if entry["action"] not in _KINDS]
            for action in others:
                self._unknown[action] = self._unknown.get(action, 0) + 1
        entries, told = self._with_states(known)
        self._add(
            {
                "action": [entry["action"] for entry in entries],
                "device": [device] * len(entries),
                # An allocation that failed has no address.
                "address": [entry.get("addr", 0) if entry["action"] != "oom" else 0 for entry in entries],
                "size": [entry.get("size", 0) for entry in entries],
                "timestamp_ns": [int(entry.get("time_us", 0)) * 1000 for entry in entries],
                "name_id": [self.strings.id_of(OOM_SNAPSHOT_NAME) if text else 0 for text in told],
                "attribute_id": self.strings.ids_of(told),
            },
            [entry.get("frames") or () for entry in entries],
        )

    def add_segment(self, segment: dict[str, Any]) -> None:
        """Adds a segment and the blocks that are alive in it."""
        device = segment.get("device", 0)
        address = segment.get("address", 0)
        rows = [("segment_alloc", device, address, segment["total_size"], segment.get("frames", ()))]
        for block in segment["blocks"]:
            if block["state"] in _ALIVE:
                frames = block.get("frames")
                if frames is None:  # as older versions have it
                    history = block.get("history") or [{}]
                    frames = history[0].get("frames", ())
                rows.append(("alloc", device, block.get("address", address), block["size"], frames))
            address += block["size"]
        actions, devices, addresses, sizes, stacks = zip(*rows, strict=True)
        columns = {"action": actions, "device": devices, "address": addresses, "size": sizes}
        self._add({name: list(values) for name, values in columns.items()}, [frames or () for frames in stacks])

    @staticmethod
    def _with_states(entries: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
        """Puts the state of the device before each allocation that failed, as far as it is told: our own logs have it there.

        Returns:
            The entries, and what each says of the state; nothing but for those that were put in.
        """
        found, told = [], []
        for entry in entries:
            if entry["action"] == "oom" and "device_free" in entry:
                found.append({"action": "snapshot", "time_us": entry.get("time_us", 0)})
                told.append(f"free:{int(entry['device_free'])}")
            found.append(entry)
            told.append("")
        return found, told

    def _add(self, columns: dict[str, list[Any]], stacks: list[Any]) -> None:
        for device in set(columns["device"]):
            if not 0 <= device <= _HIGHEST_DEVICE:
                message = f"no device: {device}"
                raise ValueError(message)
        ids = [self._stack_ids(frames) for frames in stacks]
        columns["python_stack_id"] = [python for python, _ in ids]
        columns["native_stack_id"] = [native for _, native in ids]
        nothing = [0] * len(ids)
        self._parts.append(pl.DataFrame({name: columns.get(name, nothing) for name in _ROW_SCHEMA}, schema=_ROW_SCHEMA))

    def _stack_ids(self, frames: list[dict[str, Any]]) -> tuple[int, int]:
        key = tuple(map(id, frames))
        known = self._stacks.get(key)
        if known is None:
            known = self._stacks[key] = self._new_stack(frames)
        return known

    def _new_stack(self, frames: list[dict[str, Any]]) -> tuple[int, int]:
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
        return self.python_stacks.id_of("".join(python)), self.native_stacks.id_of("".join(native))


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

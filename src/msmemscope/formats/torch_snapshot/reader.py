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

import numpy as np
import polars as pl

from msmemscope.errors import InputError
from msmemscope.formats.interning import Interner
from msmemscope.formats.torch_snapshot.plain_pickle import read_plain_pickle
from msmemscope.formats.torch_snapshot.rows import KINDS, SnapshotRows
from msmemscope.model.devices import KIND_NAMES, DeviceKind
from msmemscope.model.events import EventFlag, EventKind
from msmemscope.model.pools import CACHING_POOLS, Pool
from msmemscope.recording.block_pairing import block_sequences
from msmemscope.recording.build_tables import build_blocks
from msmemscope.recording.recording import RECORDING_BLOCK_SCHEMA, Recording
from msmemscope.recording.schema import EVENT_SCHEMA
from msmemscope.recording.timeline import running_total

if TYPE_CHECKING:
    from pathlib import Path

_SEGMENT: Final = "segment_"
_FEW_ENTRIES: Final = 64
_LONGEST_WORD: Final = 4096


def recording_of_snapshot(path: Path) -> Recording:
    """Returns what a memory snapshot tells: blocks of the caching allocator, and its segments as memory of the driver.

    Args:
        path: The pickle; nothing of it is run.

    Raises:
        InputError: it cannot be read, is damaged, is no plain data, or no memory snapshot.
    """
    content = read_plain_pickle(path)
    traces, segments = _parts(content.value, path)
    strings = Interner()
    kind, is_certain = _device_kind(content.value, traces, segments)
    rows = SnapshotRows(strings, content.size_bytes, kind)
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
    events, before = _events(history, present, CACHING_POOLS[kind])
    blocks = build_blocks(events, strings.frame()).with_columns(owner=pl.lit(None, dtype=pl.String))
    return Recording(
        source=str(path),
        form="torch snapshot",
        process_id=0,
        events=events,
        blocks=blocks.select(RECORDING_BLOCK_SCHEMA.names()),
        strings=strings.frame(),
        python_stacks=rows.python_stacks.frame(),
        native_stacks=rows.native_stacks.frame(),
        coverage=tuple(_notes(traces, before, kind if not is_certain else None)),
        problems=tuple(rows.problems()),
        attributes=rows.attributes(),
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


def _device_kind(content: Any, traces: list[Any], segments: list[Any]) -> tuple[DeviceKind, bool]:
    """Return the kind of devices that a snapshot is of, and whether the snapshot says so.

    No field names it. The settings of the allocator name their environment variable, stacks name files of the allocator
    or of torch_npu, and of the two only CUDA's allocator notes times.
    """
    settings = content.get("allocator_settings") if isinstance(content, dict) else None
    words = [key for key in settings if isinstance(key, str)] if isinstance(settings, dict) else []
    entries = [entry for trace in traces for entry in trace[:_FEW_ENTRIES]] + segments[:_FEW_ENTRIES]
    for entry in entries:
        frames = entry.get("frames") if isinstance(entry, dict) else None
        for frame in frames[:_FEW_ENTRIES] if isinstance(frames, (list, tuple)) else ():
            if isinstance(frame, dict):
                texts = frame.get("filename"), frame.get("name")
                words.extend(text[:_LONGEST_WORD] for text in texts if isinstance(text, str))
    for kind in CACHING_POOLS:
        names = KIND_NAMES[kind]
        marks = (names.allocator, names.allocator_variable, f"/{names.extension}/")
        if any(mark in word for word in words for mark in marks):
            return kind, True
    has_times = any(isinstance(entry, dict) and "time_us" in entry for entry in entries)
    return (DeviceKind.CUDA, True) if has_times or settings is not None else (DeviceKind.NPU, bool(any(traces)))


def _notes(traces: list[Any], before: int, guessed: DeviceKind | None) -> list[str]:
    notes = [
        "memory of the caching allocator only: what the driver, libraries and other allocators hold is not in a snapshot",
    ]
    if guessed is not None:
        names = KIND_NAMES[guessed]
        notes.append(f"the kind of its devices is not in the snapshot: they are taken for devices of {names.runtime}")
    if not any(traces):
        notes.append("no history: it was not recorded (_record_memory_history), only what was alive is known")
    elif not any("time_us" in entry for trace in traces for entry in trace[:1]):
        notes.append("no times: only the order of events is known, and it is known per device")
    if any(traces) and before:
        count = "1 block or segment is" if before == 1 else f"{before} blocks and segments are"
        when = "it was" if before == 1 else "they were"
        notes.append(f"{count} older than the history: when {when} allocated is not known")
    return notes


def _events(history: pl.DataFrame, present: pl.DataFrame, pool: Pool) -> tuple[pl.DataFrame, int]:
    """Returns EVENT_SCHEMA, and how many blocks and segments are older than the history."""
    history = _frees_once(history.sort("timestamp_ns", maintain_order=True))
    events = _numbered(history, 1, pool)
    events = events.with_columns(extra=block_sequences(events.with_columns(allocation_id=pl.lit(0, dtype=pl.UInt64))))
    # What is alive at the end and was allocated within the history.
    ended = events.filter(pl.col("kind") == EventKind.FREE)["extra"]
    alive = events.filter((pl.col("kind") == EventKind.MALLOC) & ~pl.col("sequence").is_in(ended.implode()))
    older = _not_in_history(_numbered(present, 1, pool), alive)
    first = history["timestamp_ns"].min() if len(history) else 0
    older = older.with_columns(
        timestamp_ns=pl.lit(first, dtype=pl.UInt64),
        flags=pl.lit(int(EventFlag.SHADOW), dtype=pl.UInt8),
        sequence=pl.int_range(1, len(older) + 1, dtype=pl.UInt64, eager=True),
    )
    events = pl.concat([older, _numbered(history, len(older) + 1, pool)])
    extra = block_sequences(events.with_columns(allocation_id=pl.lit(0, dtype=pl.UInt64)))
    events = events.with_columns(extra=extra)
    return _with_reserved(events, pool), len(older)


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
    pieces = alive.filter(is_segment)
    parts = [
        _without_pieces(segments, pieces.filter(pl.col("device") == device))
        for (device,), segments in present.filter(is_segment).group_by("device", maintain_order=True)
    ]
    return pl.concat([present.clear(), *parts, blocks])


def _without_pieces(segments: pl.DataFrame, pieces: pl.DataFrame) -> pl.DataFrame:
    """Returns the segments of a device without the bytes of the pieces that begin in them; none that has nothing left."""
    ordered = pieces.sort("address")
    sums = np.concatenate([[0], ordered["size"].cum_sum().to_numpy()])
    begins, ends = (
        ordered["address"].search_sorted(places, side="left").to_numpy()
        for places in (segments["address"], segments["address"] + segments["size"].cast(pl.UInt64))
    )
    left = segments["size"] - pl.Series(sums[ends] - sums[begins], dtype=pl.Int64)
    return segments.with_columns(size=left).filter(pl.col("size") > 0)


def _frees_once(history: pl.DataFrame) -> pl.DataFrame:
    """Leaves out each `free_completed` that follows the `free_requested` of its block: the program's free counts."""
    of_blocks = ~pl.col("action").str.starts_with(_SEGMENT) & (pl.col("address") != 0)
    earlier = pl.when(of_blocks).then("action").shift(1).over("device", "address", of_blocks)
    is_second = (pl.col("action") == "free_completed") & (earlier == "free_requested")
    return history.filter(~is_second.fill_null(value=False))


def _numbered(rows: pl.DataFrame, first: int, caching: Pool) -> pl.DataFrame:
    """Returns rows as EVENT_SCHEMA."""
    action = pl.col("action")
    pool = (
        pl.when(action.str.starts_with(_SEGMENT))
        .then(int(Pool.HAL))
        .when(action.is_in(["oom", "snapshot"]))
        .then(0)
        .otherwise(int(caching))
    )
    zeros = {name: pl.lit(0, dtype=dtype) for name, dtype in EVENT_SCHEMA.items() if name not in rows.columns}
    return (
        rows.with_columns(**zeros)
        .with_columns(
            kind=action.replace_strict({name: int(kind) for name, kind in KINDS.items()}, return_dtype=pl.UInt8),
            pool=pool.cast(pl.UInt8),
            sequence=pl.int_range(first, first + len(rows), dtype=pl.UInt64, eager=True),
        )
        .select(EVENT_SCHEMA.names())
    )


def _with_reserved(events: pl.DataFrame, caching: Pool) -> pl.DataFrame:
    """Adds what the allocator holds of the driver's memory, after each change of its segments.

    The records take numbers of their own, so all are numbered anew.
    """
    is_segment = (pl.col("pool") == Pool.HAL) & ((pl.col("kind") == EventKind.MALLOC) | (pl.col("extra") != 0))
    held = pl.when(pl.col("kind") == EventKind.MALLOC).then("size").otherwise(-pl.col("size"))
    reserved = (
        events.filter(is_segment)
        .with_columns(
            size=running_total(held, "device"),
            kind=pl.lit(int(EventKind.RESERVED), dtype=pl.UInt8),
            pool=pl.lit(int(caching), dtype=pl.UInt8),
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

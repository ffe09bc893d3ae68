"""Memory snapshots of torch and torch_npu: the caching allocator's own history.

Both `torch.cuda.memory._dump_snapshot` and `torch.npu.memory._dump_snapshot` write two fields:

- `device_traces` is one list of events per device (`alloc`, `free_requested`, `free_completed`, `segment_alloc`,
  `segment_free`, `segment_map`, `segment_unmap`, `oom`, `snapshot`).
- `segments` is all memory of the allocator at the moment of the snapshot, with the blocks in it.

`memory_snapshot()` of either returns the segments alone, which are read too.

The history is a ring: memory that was allocated before its begin has no event. Some blocks that are alive in the
segments have none either. They begin with the first event, like blocks that existed when a recording began.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from msmemscope.errors import InputError
from msmemscope.formats.interning import Interner
from msmemscope.formats.torch_snapshot.device_history import EVENT_COLUMNS, DeviceHistory
from msmemscope.formats.torch_snapshot.named_steps import named_steps, step_note, with_steps
from msmemscope.formats.torch_snapshot.our_fields import HISTORY_SIZES, OF_BLOCKS, OUR_KEY
from msmemscope.formats.torch_snapshot.plain_pickle import read_plain_pickle
from msmemscope.formats.torch_snapshot.rows import SnapshotRows
from msmemscope.model.devices import KIND_NAMES, DeviceKind
from msmemscope.model.events import EventKind
from msmemscope.model.pools import CACHING_POOLS, Pool
from msmemscope.recording.build_tables import build_blocks
from msmemscope.recording.recording import RECORDING_BLOCK_SCHEMA, Recording
from msmemscope.recording.schema import ATTRIBUTE_SCHEMA, EVENT_SCHEMA

if TYPE_CHECKING:
    from pathlib import Path

_FEW_ENTRIES: Final = 64
_LONGEST_WORD: Final = 4096


def recording_of_snapshot(path: Path) -> Recording:
    """Return the tables of a memory snapshot: blocks of the caching allocator, and segments as memory of the driver.

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
    table = _paired(history, present, kind, has_block_sizes=_has_block_sizes(content.value))
    ids, attributes = _attributes(table.frame)
    events = table.frame.with_columns(attribute_id=ids).select(EVENT_SCHEMA.names())
    steps = named_steps(content.value, traces)
    events = with_steps(events, steps)
    return Recording(
        source=str(path),
        form="torch snapshot",
        process_id=0,
        events=events,
        blocks=build_blocks(events, strings.frame(), attributes, {CACHING_POOLS[kind]})
        .with_columns(owner=pl.lit(None, dtype=pl.String))
        .select(RECORDING_BLOCK_SCHEMA.names()),
        strings=strings.frame(),
        python_stacks=rows.python_stacks.frame(),
        native_stacks=rows.native_stacks.frame(),
        coverage=(*_notes(traces, table, kind if not is_certain else None), *step_note(steps)),
        problems=tuple(rows.problems()),
        attributes=attributes,
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

    No field names it, but three things tell:

    - The settings of the allocator name their environment variable.
    - Stacks name files of the allocator or of torch_npu.
    - Of the two, only CUDA's allocator notes times.
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


@dataclass(frozen=True)
class _Paired:
    """The events of all devices."""

    frame: pl.DataFrame
    """EVENT_SCHEMA without `attribute_id`, and the columns of attributes."""
    older: int
    """Blocks and segments that are older than the history."""
    worked_out: int
    """Blocks whose size the snapshot does not have."""
    odd: int
    """Blocks whose size differs from the one that the allocator's rules make of the request."""


def _notes(traces: list[Any], table: _Paired, guessed: DeviceKind | None) -> list[str]:
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
    if any(traces) and table.older:
        count = "1 block or segment is" if table.older == 1 else f"{table.older} blocks and segments are"
        when = "it was" if table.older == 1 else "they were"
        notes.append(f"{count} older than the history: when {when} allocated is not known")
    if table.worked_out and table.odd:
        notes.append(
            f"sizes of freed blocks are estimates: a history has requested sizes, and {table.odd} of the blocks alive are "
            "not as large as the allocator's defaults would make them"
        )
    return notes


def _has_block_sizes(content: Any) -> bool:
    """Whether an export of ours says that its history has the sizes of blocks, since no requests were recorded."""
    ours = content.get(OUR_KEY) if isinstance(content, dict) else None
    return isinstance(ours, dict) and ours.get(HISTORY_SIZES) == OF_BLOCKS


def _paired(history: pl.DataFrame, present: pl.DataFrame, kind: DeviceKind, *, has_block_sizes: bool) -> _Paired:
    """Return the events of all devices in one order.

    Args:
        history: ROW_SCHEMA: entries of each device in their order.
        present: The segments and blocks in the snapshot itself, likewise.
        kind: The kind of the devices.
        has_block_sizes: Whether the history has the sizes of blocks, not the requested sizes.
    """
    history = _with_pools(history.sort("timestamp_ns", maintain_order=True).with_row_index("row"), present)
    rows = pl.concat([history, present.with_row_index("row", offset=len(history))]).with_columns(
        pl.col("row").cast(pl.Int64)
    )
    parts, first = [], 0
    older = worked_out = odd = 0
    for own in rows.partition_by("device", maintain_order=True):
        in_history = pl.col("row") < len(history)
        one = DeviceHistory(kind, own.filter(in_history), own.filter(~in_history), has_block_sizes=has_block_sizes)
        events = one.events()
        parts.append(events.with_columns(pl.col("begin") + first, number=pl.int_range(first, first + len(events))))
        first += len(events)
        older, worked_out, odd = older + one.older, worked_out + one.worked_out, odd + one.odd
    events = pl.concat([EVENT_COLUMNS.to_frame().with_columns(number=pl.lit(0, pl.Int64)), *parts])
    events = events.sort("place", maintain_order=True)
    sequences = pl.int_range(1, len(events) + 1, dtype=pl.UInt64, eager=True)
    order = pl.repeat(0, len(events), dtype=pl.UInt64, eager=True).scatter(events["number"].cast(pl.UInt32), sequences)
    start = history["timestamp_ns"].min() or 0
    times = pl.concat([rows["timestamp_ns"].head(len(history)), pl.Series([start], dtype=pl.UInt64)])
    own = rows[events["row"].cast(pl.UInt32)]
    frame = own.select(
        "device", "stream_id", "pool_id", "free_bytes", "action", "name_id", "python_stack_id", "native_stack_id"
    ).with_columns(
        *events.select("kind", "pool", "flags", "address", "size", "requested_bytes", "has_stack").get_columns(),
        sequence=sequences,
        timestamp_ns=times.gather(events["place"] % len(times)),  # that of older ones stands last
        thread_id=pl.lit(0, pl.UInt32),
        extra=order.gather(events["begin"].cast(pl.UInt32)).fill_null(0),
    )
    stacks = pl.col("python_stack_id", "native_stack_id")
    return _Paired(frame.with_columns(pl.when("has_stack").then(stacks).otherwise(0)), older, worked_out, odd)


def _with_pools(history: pl.DataFrame, present: pl.DataFrame) -> pl.DataFrame:
    """Give entries that name no pool the one of their segment, where that is still there.

    Some versions name the pool of segments alone, a private pool of a graph among them.

    Args:
        history: ROW_SCHEMA and `row`.
        present: ROW_SCHEMA: the segments and blocks in the snapshot itself.
    """
    place = ("device", "address")
    begins = pl.col("action").is_in(["segment_alloc", "segment_map"])
    ends = history.filter(pl.col("action").is_in(["segment_free", "segment_unmap"]))
    segments = present.filter(begins & pl.col("pool_id").is_not_null()).select(
        *place,
        segment="address",
        segment_end=pl.col("address") + pl.col("size").cast(pl.UInt64),
        segment_pool="pool_id",
    )
    if segments.is_empty():
        return history
    # An earlier segment at the same address was another one.
    last_ends = ends.group_by(place).agg(ended=pl.col("row").max())
    segments = segments.join(last_ends, on=place, how="left").sort("address")
    placed = history.sort("address").join_asof(
        segments, on="address", by="device", strategy="backward", check_sortedness=False
    )
    is_inside = (pl.col("address") < pl.col("segment_end")) & (pl.col("row") > pl.col("ended")).fill_null(value=True)
    pool = pl.coalesce("pool_id", pl.when(is_inside & (pl.col("address") > 0)).then("segment_pool"))
    return placed.with_columns(pool_id=pool).sort("row").select(history.columns)


def _attributes(events: pl.DataFrame) -> tuple[pl.Series, pl.DataFrame]:
    """Return the `attribute_id` of events, and the attributes as ATTRIBUTE_SCHEMA.

    Args:
        events: `kind`, `pool`, `action` and the columns of attributes.
    """
    kind, action = pl.col("kind"), pl.col("action")
    is_segment = (kind == EventKind.MALLOC) & (pl.col("pool") == Pool.HAL)
    is_described = kind.is_in([int(EventKind.MALLOC), int(EventKind.OOM), int(EventKind.SNAPSHOT)])
    known = events.select(
        pl.when(is_described).then(pl.col("stream_id", "pool_id", "requested_bytes", "free_bytes")),
        allocation_kind=pl.when(is_segment).then(
            pl.when(action.is_in(["segment_map", "segment_unmap"])).then(pl.lit("map")).otherwise(pl.lit("alloc"))
        ),
    ).cast({"requested_bytes": pl.UInt64})
    different = known.unique(maintain_order=True).filter(pl.any_horizontal(pl.all().is_not_null()))
    different = different.with_columns(attribute_id=pl.int_range(1, len(different) + 1, dtype=pl.UInt32))
    names = known.columns
    ids = known.join(different, on=names, how="left", nulls_equal=True, maintain_order="left")["attribute_id"]
    absent = {
        name: pl.lit(None, dtype=dtype) for name, dtype in ATTRIBUTE_SCHEMA.items() if name not in different.columns
    }
    return ids.fill_null(0), different.with_columns(**absent).select(ATTRIBUTE_SCHEMA.names()).cast(ATTRIBUTE_SCHEMA)

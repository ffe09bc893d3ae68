"""The entries of a snapshot: its segments with their blocks, what happened on each device, and what they refer to."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from msmemscope.analysis.weights.weighted_stacks import StackFrame, native_frames, python_frames
from msmemscope.formats.export.snapshot_segments import ALLOCATED, INACTIVE, WAITING, Segments, is_mapped
from msmemscope.model.caching_allocator import SMALL_SEGMENT_BYTES
from msmemscope.model.events import OOM_SNAPSHOT_NAME, EventKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from msmemscope.formats.export.pickle_stream import PickleStream
    from msmemscope.formats.export.tracks import Clock
    from msmemscope.recording import Recording

_FREE, _FREED, _SEGMENT_END, _SEGMENT, _ALLOC, _FAILED = range(6)
"""Order of what happens with the same event."""
_ACTIONS: Final = {_FREE: "free_requested", _FREED: "free_completed", _ALLOC: "alloc"}
_STACK: Final = ["python_stack_id", "native_stack_id"]
_FREE_STACK: Final = ["free_python_stack_id", "free_native_stack_id"]
_SEGMENT_ACTIONS: Final = {
    (_SEGMENT, False): "segment_alloc",
    (_SEGMENT, True): "segment_map",
    (_SEGMENT_END, False): "segment_free",
    (_SEGMENT_END, True): "segment_unmap",
}
_NO_STACK: Final = pl.DataFrame([(0, 0)], dict.fromkeys(_STACK, pl.UInt32()), orient="row")
"""Of what has none: a free part of a segment, a free that was not recorded."""
_KEYS: Final = (
    "action", "addr", "size", "stream", "time_us", "pool_id", "user_metadata", "frames",
    "address", "requested_size", "state",
)  # fmt: skip
_TRACE_KEYS: Final = _KEYS[:8]
_MOST_NUMBER: Final = (1 << 63) - 1
_COMMON_POOL: Final = "0/0"
_POOL_ID: Final = re.compile(r"([0-9]{1,18})/([0-9]{1,18})")
_ROWS: Final = 1 << 18


@dataclasses.dataclass(frozen=True)
class DevicePool:
    """The exported memory of a device."""

    index: int
    """Of the device in the snapshot."""
    device: int
    blocks: pl.DataFrame
    segments: Segments


class SnapshotEntries:
    """The entries of all devices, and the objects that they refer to.

    Args:
        stream: Where the dictionary of ours is being written.
        recording: The recording of the process.
        pools: The exported memory, one pool per device.
    """

    def __init__(self, stream: PickleStream, recording: Recording, pools: Iterable[DevicePool]) -> None:
        """Write what entries refer to, as a list under the key `shared`."""
        self._stream = stream
        self._recording = recording
        stream.value("shared")
        stream.begin_list()
        # Keys first: references to the first places are short.
        self._keys = {key: stream.remember(key) for key in _KEYS}
        words = (*_ACTIONS.values(), ALLOCATED, WAITING, INACTIVE, *_SEGMENT_ACTIONS.values())
        self._words = {word: stream.remember(word) for word in words}
        self._texts: dict[str, int] = {}
        self._pool_ids: dict[str, int] = {}
        frames: dict[StackFrame, int] = {}
        failures = recording.events.filter(pl.col("kind") == EventKind.OOM).select(_STACK)
        parts = [_NO_STACK, failures]
        for pool in pools:
            for table in (pool.blocks, pool.segments.of_driver):
                parts += [table.select(_STACK), _freed_stacks(table)]
                for text in table["pool_id"].fill_null(_COMMON_POOL).unique(maintain_order=True):
                    if text not in self._pool_ids:
                        self._pool_ids[text] = stream.remember(_pool_id(text))
            for text in pool.blocks.select(_metadata()).to_series().unique(maintain_order=True):
                if text not in self._texts:
                    self._texts[text] = stream.remember(text)
        self._texts[""] = stream.remember("")
        stacks = pl.concat(parts).unique(maintain_order=True)
        python, native = (dict(table.rows()) for table in (recording.python_stacks, recording.native_stacks))
        places = []
        for python_id, native_id in stacks.iter_rows():
            # As torch does it: the native frames are further inside.
            stack = native_frames(native.get(native_id) or "") + python_frames(python.get(python_id) or "")
            for frame in stack:
                if frame not in frames:
                    frames[frame] = stream.remember(_frame(frame))
            places.append(stream.remember_list([frames[frame] for frame in stack]))
        self._stacks = stacks.with_columns(frames=pl.Series(places, dtype=pl.UInt32))
        stream.set_item()

    def write_segments(self, pool: DevicePool) -> None:
        """Append the segments of a device to the list that was written last."""
        stream = self._stream
        blocks = pool.blocks.select("malloc_sequence", "requested_bytes", *_STACK)
        placed = self._with_frames(
            pool.segments.placed.join(blocks, on="malloc_sequence", how="left", maintain_order="left").with_columns(
                pl.col(_STACK).fill_null(0)
            )
        )
        is_inactive = pl.col("state") == INACTIVE
        rows = placed.select(
            "segment",
            "size",
            address=_signed(pl.col("address")),
            requested_size=pl.when(is_inactive).then(0).otherwise(pl.coalesce("requested_bytes", "size")),
            state=pl.col("state").replace_strict(self._words, return_dtype=pl.UInt32),
            frames="frames",
        )
        totals = {
            segment: (allocated, active, requested)
            for segment, allocated, active, requested in placed.with_columns(requested=rows["requested_size"])
            .group_by("segment")
            .agg(
                pl.col("size").filter(pl.col("state") == ALLOCATED).sum(),
                pl.col("size").filter(~is_inactive).sum().alias("active"),
                pl.col("requested").sum(),
            )
            .iter_rows()
        }
        driver = pool.segments.of_driver.select(
            "malloc_sequence",
            "stream_id",
            "pool_id",
            *_STACK,
            is_expandable=is_mapped(self._recording, pool.segments.of_driver),
        )
        # Made-up segments are of the default stream and of the pool that is not of graphs.
        described = self._with_frames(
            pool.segments.at_end.join(driver, on="malloc_sequence", how="left", maintain_order="left").with_columns(
                pl.col(_STACK).fill_null(0)
            )
        )
        parts = rows.partition_by("segment", as_dict=True, include_key=False)
        columns = ("segment", "address", "size", "stream_id", "pool_id", "is_expandable", "frames")
        for segment, address, size, stream_id, pool_id, is_expandable, frames in described.select(columns).iter_rows():
            allocated, active, requested = totals.get(segment, (0, 0, 0))
            stream.value(
                {
                    "device": pool.index,
                    "address": address & _MOST_NUMBER,
                    "total_size": size,
                    "allocated_size": allocated,
                    "active_size": active,
                    "requested_size": requested,
                    "stream": (stream_id or 0) & _MOST_NUMBER,
                    "segment_type": "large" if size > SMALL_SEGMENT_BYTES else "small",
                    "segment_pool_id": _pool_id(pool_id or _COMMON_POOL),
                    "is_expandable": bool(is_expandable),
                }
            )
            stream.value("frames")
            stream.reference(frames)
            stream.set_item()
            stream.value("blocks")
            stream.begin_list()
            stream.append_records(parts[(segment,)], self._keys)
            stream.set_item()
            stream.append()

    def write_history(self, pool: DevicePool, clock: Clock) -> None:
        """Append what happened on a device to the list that was written last."""
        entries = self._entries(pool)
        failures = self._failures(pool.device)
        history = pl.concat([entries, failures.select(entries.columns)]).sort("sequence", "order", maintain_order=True)
        times = (clock.at(history["sequence"]) // 1000).cast(pl.Int64)
        history = history.with_columns(time_us=times)
        is_failure = (history["order"] == _FAILED).to_numpy()
        begin = 0
        for row in [*is_failure.nonzero()[0].tolist(), len(history)]:
            for part in history[begin:row].iter_slices(_ROWS):
                self._stream.append_records(part.select(_TRACE_KEYS), self._keys)
            if row < len(history):
                self._write_failure(history[row].row(0, named=True))
            begin = row + 1

    def _write_failure(self, entry: dict[str, Any]) -> None:
        # An entry of its own form: it has no address, and says what is free.
        self._stream.value(
            {
                "action": "oom",
                "device_free": entry["addr"],
                "size": entry["size"],
                "stream": 0,
                "time_us": entry["time_us"],
                "pool_id": (0, 0),
            }
        )
        self._stream.value("frames")
        self._stream.reference(entry["frames"])
        self._stream.set_item()
        self._stream.append()

    def _entries(self, pool: DevicePool) -> pl.DataFrame:
        requested = pl.coalesce("requested_bytes", "size")
        blocks = pool.blocks.with_columns(size=requested, metadata=_metadata())
        freed = blocks.filter(pl.col("free_sequence").is_not_null())
        returned = blocks.filter(pl.col("returned_sequence").is_not_null())
        driver = pool.segments.of_driver.with_columns(
            metadata=pl.lit(""), is_mapped=is_mapped(self._recording, pool.segments.of_driver)
        )
        ended = driver.filter(pl.col("free_sequence").is_not_null())
        no_mapping = pl.lit(value=False)
        parts = [
            self._part(blocks.with_columns(is_mapped=no_mapping), _ALLOC, "malloc_sequence", _STACK),
            self._part(freed.with_columns(is_mapped=no_mapping), _FREE, "free_sequence", _FREE_STACK),
            self._part(returned.with_columns(is_mapped=no_mapping), _FREED, "returned_sequence", _FREE_STACK),
            self._part(driver, _SEGMENT, "malloc_sequence", _STACK),
            self._part(ended, _SEGMENT_END, "free_sequence", _FREE_STACK),
        ]
        return pl.concat(parts)

    def _part(self, rows: pl.DataFrame, order: int, sequence: str, stack: list[str]) -> pl.DataFrame:
        """Return the entries of one kind: `sequence`, `order`, and _TRACE_KEYS without the time."""
        words = self._words
        if order in _ACTIONS:
            action = pl.lit(words[_ACTIONS[order]], dtype=pl.UInt32)
        else:
            mapped, whole = (words[_SEGMENT_ACTIONS[order, is_mapped]] for is_mapped in (True, False))
            action = (
                pl.when("is_mapped").then(pl.lit(mapped, dtype=pl.UInt32)).otherwise(pl.lit(whole, dtype=pl.UInt32))
            )
        entries = rows.select(
            pl.col(sequence).alias("sequence"),
            pl.lit(order, dtype=pl.UInt8).alias("order"),
            action.alias("action"),
            _signed(pl.col("address")).alias("addr"),
            "size",
            _signed(pl.col("stream_id").fill_null(0)).alias("stream"),
            pl.col("pool_id").fill_null(_COMMON_POOL).replace_strict(self._pool_ids, return_dtype=pl.UInt32),
            pl.col("metadata").replace_strict(self._texts, return_dtype=pl.UInt32).alias("user_metadata"),
            *(pl.col(name).fill_null(0).alias(plain) for name, plain in zip(stack, _STACK, strict=True)),
        )
        return self._with_frames(entries).drop(_STACK)

    def _failures(self, device: int) -> pl.DataFrame:
        """Return the failed allocations of a device, as `_part` does; `addr` is the free memory, 0 if not known."""
        recording = self._recording
        of_device = recording.events.filter(pl.col("device") == device)
        name_ids = recording.strings.filter(pl.col("text") == OOM_SNAPSHOT_NAME)["id"]
        states = (
            of_device.filter((pl.col("kind") == EventKind.SNAPSHOT) & pl.col("name_id").is_in(name_ids.implode()))
            .join(recording.attributes.select("attribute_id", "free_bytes"), on="attribute_id", how="left")
            .select("sequence", "free_bytes")
            .sort("sequence")
        )
        failures = of_device.filter(pl.col("kind") == EventKind.OOM)
        found = failures.join_asof(states, on="sequence", strategy="backward")
        entries = found.select(
            "sequence",
            pl.lit(_FAILED, dtype=pl.UInt8).alias("order"),
            pl.lit(0, dtype=pl.UInt32).alias("action"),
            _signed(pl.col("free_bytes").fill_null(0)).alias("addr"),
            "size",
            pl.lit(0, dtype=pl.Int64).alias("stream"),
            pl.lit(0, dtype=pl.UInt32).alias("pool_id"),
            pl.lit(0, dtype=pl.UInt32).alias("user_metadata"),
            *_STACK,
        )
        return self._with_frames(entries).drop(_STACK)

    def _with_frames(self, rows: pl.DataFrame) -> pl.DataFrame:
        return rows.join(self._stacks, on=_STACK, how="left", maintain_order="left")


def _freed_stacks(blocks: pl.DataFrame) -> pl.DataFrame:
    return blocks.select(
        pl.col(name).fill_null(0).alias(plain) for name, plain in zip(_FREE_STACK, _STACK, strict=True)
    )


def _metadata() -> pl.Expr:
    """The owner of a block, and the operator that allocated it: torch has a text of the user's in this place."""
    return pl.concat_str("owner", "name", separator=", ", ignore_nulls=True)


def _signed(number: pl.Expr) -> pl.Expr:
    """Nothing real needs the highest of 64 bits; a damaged recording may have it, and readers know numbers with a sign only."""
    return (number & pl.lit(_MOST_NUMBER, dtype=pl.UInt64)).cast(pl.Int64)


def _pool_id(text: str) -> tuple[int, int]:
    match = _POOL_ID.fullmatch(text)
    return (int(match[1]), int(match[2])) if match is not None else (0, 0)


def _frame(frame: StackFrame) -> dict[str, str | int]:
    return {"filename": frame.file or "??", "line": frame.line, "name": frame.function}

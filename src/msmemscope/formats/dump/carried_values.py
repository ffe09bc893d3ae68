"""Values that rows carry from batch to batch beside their own event: bytes in use, last values, and pinned memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from msmemscope.model.events import MEMORY_KINDS, EventFlag, EventKind
from msmemscope.model.pools import Pool

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from msmemscope.formats.dump.recorded_events import RecordedEvents

_Numbers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
_Flags: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"
BlockTest: TypeAlias = "Callable[[np.ndarray[Any, np.dtype[np.uint64]]], np.ndarray[Any, np.dtype[np.bool_]]]"
"""Tells of sequence numbers of MALLOC events whether they are something."""

_UNKNOWN = -1


class RunningTotals:
    """Live bytes of each pool of each device.

    Args:
        is_recorded: Tells of MALLOC sequence numbers whether the capture has
            them. A flight recorder drops a block's MALLOC when the block is
            already dead, and can still hold its FREE: that one must not count.
            None if every block is recorded.
    """

    def __init__(self, is_recorded: BlockTest | None = None) -> None:
        self._is_recorded = is_recorded
        self._live_bytes: dict[int, int] = {}

    def after_each(self, batch: pl.DataFrame) -> pl.Series:
        """Return the live bytes of the event's device and pool after each event, and carry them on.

        Args:
            batch: Of EVENT_SCHEMA; batches must be given in order.

        Returns:
            `live_bytes`, meaningful for MALLOC and FREE and 0 for all others.
        """
        kinds = batch["kind"].to_numpy()
        sizes = batch["size"].to_numpy()
        blocks = batch["extra"].to_numpy()
        is_free = kinds == EventKind.FREE
        # The size of a FREE is known only if its block was seen.
        counts = is_free & (blocks != 0)
        if self._is_recorded is not None:
            counts[counts] = self._is_recorded(blocks[counts])
        changes = np.where(kinds == EventKind.MALLOC, sizes, np.where(counts, -sizes, 0))
        # One number per device and pool; only memory events belong to one.
        places = (batch["device"].to_numpy().astype(np.int64) << 8) | batch["pool"].to_numpy()
        is_memory = is_free | (kinds == EventKind.MALLOC)
        live = np.zeros(len(batch), dtype=np.int64)
        for place in np.unique(places[is_memory]).tolist():
            rows = np.flatnonzero(is_memory & (places == place))
            totals = np.cumsum(changes[rows]) + self._live_bytes.get(place, 0)
            live[rows] = totals
            self._live_bytes[place] = int(totals[-1])
        return pl.Series("live_bytes", live)


class LastValues:
    """Values that are recorded when they change and hold until then: of the pool and the device of an event."""

    def __init__(self) -> None:
        self._reserved = _LastOfEachPlace()
        self._device_used = _LastOfEachPlace()
        self._process_used = _LastOfEachPlace()

    def at_each(self, batch: pl.DataFrame) -> list[pl.Series]:
        """Return the values that were known at each event, and carry them on.

        Args:
            batch: Of EVENT_SCHEMA; batches must be given in order.

        Returns:
            Three columns of bytes: `reserved_bytes` that the event's pool held on its device, `process_used_bytes` and
            `device_used_bytes` of its device. They are null where nothing is known, for events that are not about
            memory, and for blocks that were freed while nothing was collected.
        """
        kinds = batch["kind"].to_numpy()
        devices = batch["device"].to_numpy().astype(np.int64)
        sizes = batch["size"].to_numpy()
        is_unseen_end = (kinds == EventKind.FREE) & (batch["flags"].to_numpy() & int(EventFlag.SHADOW) != 0)
        is_memory = np.isin(kinds, [int(kind) for kind in MEMORY_KINDS]) & ~is_unseen_end
        is_reserved = kinds == EventKind.RESERVED
        is_usage = kinds == EventKind.DEVICE_USAGE
        places = (devices << 8) | batch["pool"].to_numpy()
        of_process = batch["extra"].to_numpy().astype(np.int64)
        return [
            self._reserved.at_each(places, is_reserved, sizes, is_memory).alias("reserved_bytes"),
            self._process_used.at_each(devices, is_usage, of_process, is_memory).alias("process_used_bytes"),
            self._device_used.at_each(devices, is_usage, sizes, is_memory).alias("device_used_bytes"),
        ]


class _LastOfEachPlace:
    """The latest value of each of a few places."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}

    def at_each(self, places: _Numbers, has_value: _Flags, values: _Numbers, asks: _Flags) -> pl.Series:
        """Return the latest value of its place for each row that asks; null elsewhere and where there is none.

        Args:
            places: The place of each row.
            has_value: Rows that have a new value.
            values: The new values. A negative one takes the value back.
            asks: Rows that ask for the value.
        """
        if not self._known and not has_value.any():
            return pl.repeat(None, len(places), dtype=pl.Int64, eager=True)
        found = np.full(len(places), _UNKNOWN, dtype=np.int64)
        for place in {*self._known, *np.unique(places[has_value]).tolist()}:
            is_here = places == place
            asking = np.flatnonzero(asks & is_here)
            telling = np.flatnonzero(has_value & is_here)
            reported = np.concatenate(([self._known.get(place, _UNKNOWN)], values[telling]))
            found[asking] = reported[np.searchsorted(telling, asking)]
            self._known[place] = int(reported[-1])
        series = pl.Series(found)
        return series.set(series < 0, None)


class PinnedMemory:
    """Blocks of pinned memory that are alive: they share a pool and the device cpu with CPU tensors."""

    def __init__(self, capture: RecordedEvents) -> None:
        self._capture = capture
        self._known = pl.Series([], dtype=pl.UInt32)
        self._pinned = pl.Series([], dtype=pl.UInt32)
        self._alive = pl.Series([], dtype=pl.UInt64)

    def moved_to_driver(self, batch: pl.DataFrame) -> pl.DataFrame:
        """Return a batch in which pinned memory belongs to the driver's pool on the cpu, which nothing else does.

        Args:
            batch: Of EVENT_SCHEMA; batches must be given in order.
        """
        self._look_up(batch.filter(pl.col("kind") == EventKind.MALLOC)["attribute_id"])
        if self._pinned.is_empty():
            return batch
        is_begin = (pl.col("kind") == EventKind.MALLOC) & pl.col("attribute_id").is_in(self._pinned.implode())
        self._alive = pl.concat([self._alive, batch.filter(is_begin)["sequence"]])
        if self._alive.is_empty():
            return batch
        is_end = (pl.col("kind") == EventKind.FREE) & pl.col("extra").is_in(self._alive.implode())
        ended = batch.filter(is_end)["extra"]
        moved = batch.with_columns(
            pool=pl.when(is_begin | is_end).then(pl.lit(int(Pool.HAL), dtype=pl.UInt8)).otherwise(pl.col("pool"))
        )
        if not ended.is_empty():
            self._alive = self._alive.filter(~self._alive.is_in(ended.implode()))
        return moved

    def _look_up(self, ids: pl.Series) -> None:
        """Find the attributes of allocations that say so; there are few different ones."""
        fresh = ids.unique()
        fresh = fresh.filter(~fresh.is_in(self._known.implode()))
        if fresh.is_empty():
            return
        self._known = pl.concat([self._known, fresh])
        self._pinned = pl.concat(
            [self._pinned, self._capture.attribute_frame(fresh).filter("is_pinned")["attribute_id"]]
        )

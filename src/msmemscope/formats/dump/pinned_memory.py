"""Telling pinned memory of the host from CPU tensors, which share a pool and the device cpu."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool

if TYPE_CHECKING:
    from msmemscope.formats.dump.recorded_events import RecordedEvents


class PinnedMemory:
    """Blocks of pinned memory that are alive, carried from batch to batch."""

    def __init__(self, capture: RecordedEvents) -> None:
        """Begin with no block."""
        self._capture = capture
        self._known = pl.Series([], dtype=pl.UInt32)
        self._pinned = pl.Series([], dtype=pl.UInt32)
        self._alive = pl.Series([], dtype=pl.UInt64)

    def moved_to_driver(self, batch: pl.DataFrame) -> pl.DataFrame:
        """Returns a batch in which pinned memory belongs to the driver's pool on the cpu, which nothing else does.

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
        """Finds the attributes of allocations that say so; there are few different ones."""
        fresh = ids.unique()
        fresh = fresh.filter(~fresh.is_in(self._known.implode()))
        if fresh.is_empty():
            return
        self._known = pl.concat([self._known, fresh])
        self._pinned = pl.concat(
            [self._pinned, self._capture.attribute_frame(fresh).filter("is_pinned")["attribute_id"]]
        )

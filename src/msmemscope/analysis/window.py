"""The memory between two events of a capture: how full it was, and the blocks that are left.

A window is given by sequence numbers, because they are the total order of events. Everything is per memory pool of a
device. Pools lie within one another: the driver's pool holds the blocks of the others. So their sums mean nothing.
"""

from __future__ import annotations

import dataclasses

import polars as pl

from msmemscope.model.events import EventFlag
from msmemscope.recording.timeline import MemoryUse

_POOL = ["device", "pool"]


@dataclasses.dataclass(frozen=True)
class PoolWindow:
    """One memory pool of one device in a window; all sizes in bytes."""

    device: int
    pool: int
    before_bytes: int
    """In use when the window began."""
    peak_bytes: int
    """The most in use at once, `before_bytes` included."""
    peak_sequence: int
    """The event that first reached the peak; the one before the window if nothing in it exceeded `before_bytes`."""
    allocated_bytes: int
    """Of all blocks allocated inside, whether freed since or not."""
    allocated_blocks: int


@dataclasses.dataclass(frozen=True)
class MemoryWindow:
    """All pools between two events."""

    first: int
    """Sequence number of the first event that belongs to the window."""
    last: int
    """Sequence number of the first event after it."""
    pools: tuple[PoolWindow, ...]
    """By device and pool; those without a block in the window are left out."""
    blocks: pl.DataFrame
    """Blocks alive at some moment of the window: `recording.BLOCK_SCHEMA`, and `is_inside` (bool): allocated in it."""

    def blocks_at_peak(self, pool: PoolWindow) -> pl.DataFrame:
        """The blocks of a pool that were in use at its peak."""
        return self.blocks_at(pool, pool.peak_sequence)

    def blocks_at(self, pool: PoolWindow, sequence: int) -> pl.DataFrame:
        """The blocks of a pool that were in use after an event of the window."""
        begins = pl.col("is_inside").not_() | (pl.col("malloc_sequence") <= sequence)
        has_not_ended = pl.col("free_sequence").is_null() | (pl.col("free_sequence") > sequence)
        return self._of(pool).filter(begins & has_not_ended)

    def blocks_left(self, pool: PoolWindow) -> pl.DataFrame:
        """The blocks of a pool that were allocated inside and have no FREE, not even after the window."""
        return self._of(pool).filter(pl.col("is_inside") & pl.col("free_sequence").is_null())

    def blocks_freed(self, pool: PoolWindow) -> pl.DataFrame:
        """The blocks of a pool that were there before the window and were freed inside."""
        return self._of(pool).filter(pl.col("is_inside").not_() & (pl.col("free_sequence") < self.last))

    def _of(self, pool: PoolWindow) -> pl.DataFrame:
        return self.blocks.filter((pl.col("device") == pool.device) & (pl.col("pool") == pool.pool))


def memory_window(blocks: pl.DataFrame, first: int, last: int) -> MemoryWindow:
    """Look at the blocks of a capture between two events.

    A block that collection found when it began (flag `SHADOW`) was there before the window, wherever its MALLOC stands.

    Args:
        blocks: `recording.BLOCK_SCHEMA`; all that are alive at some moment from `first` on. Of those freed after `last` the
            FREE may be there or not.
        first: Sequence number of the first event of the window.
        last: Sequence number of the first event after it.
    """
    is_found = pl.col("flags") & int(EventFlag.SHADOW) != 0
    present = blocks.filter(
        (pl.col("malloc_sequence") < last) & (pl.col("free_sequence").is_null() | (pl.col("free_sequence") >= first))
    ).with_columns(is_inside=(pl.col("malloc_sequence") >= first) & ~is_found)
    pools = sorted(present.partition_by(_POOL, as_dict=True).items(), key=lambda one: one[0])
    return MemoryWindow(
        first, last, tuple(_pool(device, pool, part, first, last) for (device, pool), part in pools), present
    )


def _pool(device: int, pool: int, blocks: pl.DataFrame, first: int, last: int) -> PoolWindow:
    """Look at the blocks of one pool."""
    inside = blocks.filter("is_inside")
    before_bytes = int(blocks["size"].sum()) - int(inside["size"].sum())
    # Blocks from before the window count from right before it on.
    use = MemoryUse.of(
        blocks.select(
            "size",
            malloc_sequence=pl.when("is_inside").then("malloc_sequence").otherwise(max(first - 1, 0)),
            free_sequence=pl.when(pl.col("free_sequence") < last).then("free_sequence"),
        )
    )
    return PoolWindow(
        device=device,
        pool=pool,
        before_bytes=before_bytes,
        peak_bytes=use.peak_bytes,
        peak_sequence=use.peak_moment if use.peak_bytes > before_bytes else first - 1,
        allocated_bytes=int(inside["size"].sum()),
        allocated_blocks=inside.height,
    )

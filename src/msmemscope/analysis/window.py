"""What happened to memory between two events of a capture: how full it was, and what is left of it.

A window is given by sequence numbers, because they are the total order of events. Everything is per memory pool of a
device; pools lie within one another (the driver's pool holds what the others give out), so their sums mean nothing.
"""

from __future__ import annotations

import dataclasses

import polars as pl

from msmemscope.model.events import EventFlag

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
        begins = pl.col("is_inside").not_() | (pl.col("allocation_id") <= pool.peak_sequence)
        return self._of(pool).filter(begins & _is_alive_after(pool.peak_sequence))

    def blocks_left(self, pool: PoolWindow) -> pl.DataFrame:
        """The blocks of a pool that were allocated inside and have no FREE, not even after the window."""
        return self._of(pool).filter(pl.col("is_inside") & pl.col("free_sequence").is_null())

    def _of(self, pool: PoolWindow) -> pl.DataFrame:
        return self.blocks.filter((pl.col("device") == pool.device) & (pl.col("pool") == pool.pool))


def _is_alive_after(sequence: int) -> pl.Expr:
    return pl.col("free_sequence").is_null() | (pl.col("free_sequence") > sequence)


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
        (pl.col("allocation_id") < last) & (pl.col("free_sequence").is_null() | (pl.col("free_sequence") >= first))
    ).with_columns(is_inside=(pl.col("allocation_id") >= first) & ~is_found)
    before = present.filter(~pl.col("is_inside")).group_by(_POOL).agg(pl.col("size").sum().alias("before_bytes"))
    inside = (
        present.filter(pl.col("is_inside"))
        .group_by(_POOL)
        .agg(pl.col("size").sum().alias("allocated_bytes"), pl.len().cast(pl.Int64).alias("allocated_blocks"))
    )
    pools = (
        present.select(_POOL)
        .unique()
        .join(before, on=_POOL, how="left")
        .join(inside, on=_POOL, how="left")
        .join(_highest(present, last), on=_POOL, how="left")
        .with_columns(pl.col("before_bytes", "allocated_bytes", "allocated_blocks").fill_null(0))
        .with_columns(is_risen=pl.col("risen_bytes").fill_null(0) > 0)
        .sort(_POOL)
    )
    return MemoryWindow(
        first=first,
        last=last,
        pools=tuple(
            PoolWindow(
                device=row["device"],
                pool=row["pool"],
                before_bytes=row["before_bytes"],
                peak_bytes=row["before_bytes"] + (row["risen_bytes"] if row["is_risen"] else 0),
                peak_sequence=row["risen_sequence"] if row["is_risen"] else first - 1,
                allocated_bytes=row["allocated_bytes"],
                allocated_blocks=row["allocated_blocks"],
            )
            for row in pools.iter_rows(named=True)
        ),
        blocks=present,
    )


def _highest(present: pl.DataFrame, last: int) -> pl.DataFrame:
    """Per pool, the highest sum of changes since the beginning, and the event that first reached it."""
    gains = present.filter(pl.col("is_inside")).select(*_POOL, sequence=pl.col("allocation_id"), change=pl.col("size"))
    losses = present.filter(pl.col("free_sequence") < last).select(
        *_POOL, sequence=pl.col("free_sequence"), change=-pl.col("size")
    )
    return (
        pl.concat([gains, losses])
        .sort("sequence")
        .with_columns(risen=pl.col("change").cum_sum().over(_POOL))
        .group_by(_POOL)
        .agg(
            pl.col("risen").max().alias("risen_bytes"),
            pl.col("sequence").sort_by("risen", "sequence", descending=[True, False]).first().alias("risen_sequence"),
        )
    )

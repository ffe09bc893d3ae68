"""Which blocks of the driver are the reserve of a memory pool.

A pool takes large blocks from the driver and hands out parts of them. Such a block is judged by the pool's own blocks,
not by itself. Otherwise the growth of a pool's reserve would be reported twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.model.events import EventFlag, EventKind
from msmemscope.model.pools import POOLS_WITH_RESERVE, Pool
from msmemscope.recording.once_per_recording import once_per_recording
from msmemscope.recording.step_bounds import process_steps, with_steps

if TYPE_CHECKING:
    from msmemscope.recording.recording import Recording

_LATEST: Final = np.iinfo(np.uint64).max


_IS_OF_DRIVER: Final = (pl.col("pool") == Pool.HAL) & (pl.col("device") >= 0)


@once_per_recording
def segments_at_last_step(recording: Recording) -> pl.Series:
    """Return the `malloc_sequence` of the blocks of accelerators' drivers that are a pool's when the last step ends."""
    of_driver = with_steps(recording.blocks.filter(_IS_OF_DRIVER), process_steps(recording))
    return segments_at_end(of_driver, recording.blocks, recording.events)


def segments_at_end(placed: pl.DataFrame, blocks: pl.DataFrame, events: pl.DataFrame) -> pl.Series:
    """Return the same for the end of the last part that a run was divided into.

    Args:
        placed: Blocks with `last_end` and `ended`, as `step_bounds.with_steps` returns them.
        blocks: All blocks that may lie in those of the driver.
        events: Of the process.
    """
    # Blocks that are alive at that moment do not overlap.
    of_driver = placed.filter(_IS_OF_DRIVER & (pl.col("last_end") == pl.col("ended")))
    return of_driver.filter(pool_segments(of_driver, blocks, events))["malloc_sequence"]


def pool_segments(driver_blocks: pl.DataFrame, blocks: pl.DataFrame, events: pl.DataFrame) -> pl.Series:
    """Tell which blocks of the driver hold blocks of a pool.

    There are two signs that a block of the driver is a pool's:

    - A block of a pool lay in it while both were alive. Blocks that are there when collection begins are told of in any
      order.
    - It is physical memory that is mapped elsewhere, so its address is a handle. Then the next report of its thread
      about a pool's reserve is a growth by the block and those that follow it.

    Args:
        driver_blocks: Rows of `recording.BLOCK_SCHEMA` of the driver's pool that were alive at one same moment.
        blocks: All blocks of the process.
        events: Of the process; inputs without RESERVED events tell only of addresses.

    Returns:
        One boolean per row of `driver_blocks`.
    """
    if driver_blocks.is_empty():
        return pl.Series(dtype=pl.Boolean)
    return holds_blocks(driver_blocks, blocks) | _precedes_growth(driver_blocks, events)


def holds_blocks(driver_blocks: pl.DataFrame, blocks: pl.DataFrame) -> pl.Series:
    """Tell which blocks of the driver have addresses that a pool handed out; arguments as for `pool_segments`."""
    # Alive at one moment, the driver's blocks do not overlap.
    found = np.zeros(driver_blocks.height, dtype=np.bool_)
    columns = ["device", "address", "malloc_sequence", "free_sequence", "flags"]
    pooled = blocks.lazy().filter(pl.col("pool").is_in(POOLS_WITH_RESERVE)).select(columns).collect()
    for device in driver_blocks["device"].unique():
        rows = np.flatnonzero((driver_blocks["device"] == device).to_numpy())
        mine = driver_blocks[rows].with_row_index("row").sort("address")
        starts = mine["address"].to_numpy()
        parts = pooled.filter(pl.col("device") == device)
        index = np.searchsorted(starts, parts["address"].to_numpy(), side="right") - 1
        holder = mine[np.maximum(index, 0)]
        is_inside = (
            (index >= 0)
            & (parts["address"].to_numpy() - holder["address"].to_numpy() < holder["size"].to_numpy().astype(np.uint64))
            & (
                (parts["malloc_sequence"].to_numpy() > holder["malloc_sequence"].to_numpy())
                | (
                    _was_there(parts)
                    & _was_there(holder)
                    & (parts["free_sequence"].fill_null(_LATEST).to_numpy() > holder["malloc_sequence"].to_numpy())
                )
            )
            & (parts["malloc_sequence"].to_numpy() < holder["free_sequence"].fill_null(_LATEST).to_numpy())
        )
        found[rows[np.unique(holder["row"].to_numpy()[is_inside])]] = True
    return pl.Series(found)


def _was_there(blocks: pl.DataFrame) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Tell which blocks collection found when it began, as far as that is known: an index for the viewer has no flags.

    Args:
        blocks: Rows of `recording.BLOCK_SCHEMA`.
    """
    flags = blocks["flags"].fill_null(0).to_numpy()
    found: np.ndarray[Any, np.dtype[np.bool_]] = (flags & int(EventFlag.SHADOW)) != 0
    return found


def _precedes_growth(driver_blocks: pl.DataFrame, events: pl.DataFrame) -> pl.Series:
    growths = (
        events.filter((pl.col("kind") == EventKind.RESERVED) & pl.col("pool").is_in(POOLS_WITH_RESERVE))
        .with_columns(growth=pl.col("size") - pl.col("size").shift(1).over("device", "pool").fill_null(0))
        .select("sequence", "thread_id", "growth")
    )
    reported = (
        driver_blocks.with_row_index("row")
        .join_asof(
            growths,
            left_on="malloc_sequence",
            right_on="sequence",
            by="thread_id",
            strategy="forward",
            check_sortedness=False,
            coalesce=False,
        )
        .sort("row")
    )
    # The growth is made of the blocks right before it; those before them are the program's own.
    until = pl.col("size").cum_sum(reverse=True).over("thread_id", "sequence")
    return reported.select((until <= pl.col("growth")).fill_null(value=False)).to_series()


def reported_reserves(events: pl.DataFrame, device: int, sequence: int) -> pl.DataFrame:
    """Return each pool's last report, up to an event, of the driver's memory that it holds on a device.

    Returns:
        `pool` and `reserved_bytes`; pools that never did are left out.
    """
    is_reported = (pl.col("kind") == EventKind.RESERVED) & (pl.col("device") == device) & (pl.col("size") >= 0)
    reports = events.filter(is_reported & (pl.col("sequence") <= sequence))
    return reports.group_by("pool").agg(reserved_bytes=pl.col("size").last())

"""The measures of the memory of a call stack or a call site.

Each pool has its own peak: "in use at the peak" means the bytes of each pool at its own.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.analysis.leaks.step_leaks import find_step_leaks
from msmemscope.recording.timeline import peak_moments

if TYPE_CHECKING:
    from msmemscope.recording import Recording

NS_PER_SECOND: Final = 1_000_000_000
MOST_BYTE_SECONDS: Final = (1 << 62) - 1
"""Only a damaged recording has more: its times are centuries apart."""
POOL_KEY: Final = ["device", "pool"]
"""Columns that tell pools apart."""


class Measure(str, Enum):
    """The measures of the stacks of a flame graph; the value is the name on the command line."""

    PEAK = "peak"
    """Bytes in use at the peak of the pool."""
    LEAKED = "leaked"
    """Bytes of blocks that leaked, see `leaked_blocks`."""
    ALLOCATED = "allocated"
    """Bytes of all blocks."""
    BYTE_SECONDS = "byte-seconds"
    """Bytes times the seconds for which they were in use."""


def measured_blocks(recording: Recording, blocks: pl.DataFrame) -> pl.DataFrame:
    """Add the columns to blocks that the measures need.

    Args:
        recording: Their recording.
        blocks: A table of `BLOCK_SCHEMA`, all of each pool.

    Returns:
        The blocks in their order with further columns: `is_at_peak`, and `byte_ns` (Int128), bytes times nanoseconds in
        use. A block that was never freed is in use until the last event.
    """
    last_ns = int(recording.events["timestamp_ns"].to_numpy().max(initial=0))
    moments = peak_moments(blocks).select(*POOL_KEY, peak="sequence")
    begin, end = pl.col("malloc_sequence"), pl.col("free_sequence")
    # Whole numbers of 128 bits: a day of a full device is more byte-nanoseconds than 64 bits hold.
    ended_ns = pl.col("freed_ns").fill_null(last_ns).cast(pl.Int128)
    lasted_ns = (ended_ns - pl.col("allocated_ns").cast(pl.Int128)).clip(lower_bound=0)
    return (
        blocks.join(moments, on=POOL_KEY, how="left", maintain_order="left")
        .with_columns(
            is_at_peak=(begin <= pl.col("peak")) & (end.is_null() | (end > pl.col("peak"))),
            byte_ns=pl.col("size").cast(pl.Int128) * lasted_ns,
        )
        .drop("peak")
    )


def leaked_blocks(recording: Recording) -> pl.Expr:
    """Return the condition on blocks that leaked: those of the leaks over steps, as `analyze leaks` names them.

    Where too few steps have ended for that, those that were never freed.
    """
    found = find_step_leaks(recording)
    if found.remarks:
        return pl.col("free_sequence").is_null()
    return pl.col("malloc_sequence").is_in(found.leaked["malloc_sequence"].implode())


def byte_seconds(byte_ns: pl.Expr) -> pl.Expr:
    """Return a sum of byte-nanoseconds as whole byte-seconds, rounded down."""
    return (byte_ns // NS_PER_SECOND).clip(-MOST_BYTE_SECONDS, MOST_BYTE_SECONDS).cast(pl.Int64)

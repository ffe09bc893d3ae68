"""Pinned memory of the host that nobody asked for: torch's allocator rounds requests up to powers of two.

It asks the driver for as much, and keeps the memory. The requested size of a block is known from the tensor that it was
first for. A block without it counts as asked for as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from msmemscope.analysis.host.pinned_settings import pinned_settings
from msmemscope.analysis.reserved.idle_memory import Cause, IdleMemory, is_much
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.pools import Pool
from msmemscope.recording.call_sites import STACK_COLUMNS, call_sites
from msmemscope.recording.timeline import blocks_in_use, peak_moments

if TYPE_CHECKING:
    from msmemscope.recording import Recording


def pinned_blocks(recording: Recording) -> pl.DataFrame:
    """Return the blocks of pinned memory with a known request: `unasked_bytes` is the rest.

    Args:
        recording: Any.
    """
    is_pinned = (pl.col("device") == DEVICE_CPU) & (pl.col("pool") == Pool.HAL)
    unasked = (pl.col("size") - pl.col("requested_bytes")).clip(lower_bound=0)
    return recording.blocks.filter(is_pinned).with_columns(unasked_bytes=unasked.fill_null(0))


def find_unasked_pinned(recording: Recording, blocks: pl.DataFrame) -> IdleMemory | None:
    """Find out how much more is pinned than was asked for, when most was pinned.

    Args:
        recording: Of the process.
        blocks: Its `pinned_blocks`.

    Returns:
        None if that is little.
    """
    peaks = peak_moments(blocks)
    if peaks.is_empty():
        return None
    alive = blocks_in_use(blocks, int(peaks["sequence"][0]))
    reserved, idle = int(alive["size"].sum()), int(alive["unasked_bytes"].sum())
    if not is_much(idle, reserved):
        return None
    sites = call_sites(recording, alive).select(*STACK_COLUMNS, "site")
    by_site = (
        alive.join(sites, on=STACK_COLUMNS, how="left")
        .group_by("site")
        .agg(size_bytes=pl.col("unasked_bytes").sum(), block_count=pl.len())
        .sort("size_bytes", "site", descending=[True, False])
    )
    return IdleMemory(
        DEVICE_CPU,
        Pool.HAL,
        Cause.ROUNDING,
        idle,
        reserved,
        reserved - idle,
        by_site,
        settings_variable=pinned_settings(recording),
    )

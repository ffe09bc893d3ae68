"""A run without steps, cut into parts with equally many allocations each, and the call sites that grow over them.

Of a call site, the blocks that live through a part from end to end count. They must rise in several parts of each half.
Only a program that gives back something in most of its parts is judged: one that fills memory once and then ends shows
no growth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from msmemscope.analysis.leaks.growing_sites import GROWTH_SCHEMA, LEAST_STEPS, GrowthOptions, growing_sites, with_sites
from msmemscope.recording.pool_segments import segments_at_end

if TYPE_CHECKING:
    from msmemscope.recording import Recording

_MOST_PARTS: Final = 64
"""Parts of a run without steps."""
_LEAST_IN_PART: Final = 4
"""Allocations of a part."""
LEAST_ALLOCATIONS: Final = LEAST_STEPS * _LEAST_IN_PART
"""Of a run that is judged."""
_LEAST_RISES: Final = 3
"""Parts in each half of a run in which a call site must rise."""
_LEAST_BUSY_SHARE: Final = 0.75
"""Of the parts, those in which something is given back that is not older than two parts."""


def grown_over_parts(
    recording: Recording, blocks: pl.DataFrame, options: GrowthOptions
) -> tuple[pl.DataFrame, pl.DataFrame, int] | None:
    """Judge blocks by parts of the time in which they were allocated, at least LEAST_STEPS of them.

    Args:
        recording: Of the process.
        blocks: Columns JUDGED, at least LEAST_ALLOCATIONS rows.
        options: The limits of growth.

    Returns:
        The growing call sites, the blocks with their sites, and the number of judged sites. None if too little is given
        back to be a loop.
    """
    parts = min(blocks.height // _LEAST_IN_PART, _MOST_PARTS)
    placed, busy_parts = _in_parts(blocks, parts)
    if busy_parts < _LEAST_BUSY_SHARE * parts:
        return None
    # Each pool has its own pace: threads that allocate in different ones run ahead of each other. Small pools have none.
    own, rest = [], []
    for pool_blocks in blocks.partition_by("device", "pool", maintain_order=True):
        own_parts = min(pool_blocks.height // _LEAST_IN_PART, _MOST_PARTS)
        if own_parts >= LEAST_STEPS:
            own.append((_in_parts(pool_blocks, own_parts)[0], own_parts))
        else:
            rest.append(placed.join(pool_blocks.select("malloc_sequence"), on="malloc_sequence", how="semi"))
    if rest:
        own.append((pl.concat(rest), parts))
    reserve = segments_at_end(placed, blocks, recording.events)
    placed = with_sites(
        recording, pl.concat(part for part, _ in own).filter(~pl.col("malloc_sequence").is_in(reserve.implode()))
    )
    lasting = placed.filter(pl.col("last_end") >= pl.col("first_end"))
    if lasting.is_empty():
        return GROWTH_SCHEMA.to_frame(), placed, 0
    judged = [
        growing_sites(part, part["ended"][0], options, least_rises=_LEAST_RISES)
        for part in lasting.partition_by("ended", maintain_order=True)
    ]
    return pl.concat([rows for rows, _ in judged]), placed, sum(count for _, count in judged)


def _in_parts(blocks: pl.DataFrame, parts: int) -> tuple[pl.DataFrame, int]:
    """Cut a run into parts with equally many allocations.

    Args:
        blocks: In the order of their allocation.
        parts: How many.

    Returns:
        The blocks with `first_end`, `last_end` and `ended` as of steps; and in how many parts some came and went.
    """
    allocated = blocks["malloc_sequence"].to_numpy()
    freed = blocks["free_sequence"].fill_null(np.iinfo(np.uint64).max).to_numpy()
    begins = allocated[np.linspace(0, len(allocated), parts, endpoint=False).astype(np.int64)]
    # A block that is freed after the last allocation is freed because the program ends, or might as well be.
    ends = np.append(begins[1:], allocated[-1])
    part = np.searchsorted(begins, allocated, side="right")
    # Lived through from end to end; the part of its own allocation does not count.
    last_end = np.searchsorted(ends, freed, side="left")
    busy = np.unique(part[(freed <= ends[-1]) & (last_end <= part + 1)])
    placed = blocks.with_columns(
        pl.Series("first_end", part + 1),
        pl.Series("last_end", np.where(last_end >= part, last_end, 0)),
        ended=pl.lit(parts, dtype=pl.Int64),
    )
    return placed, len(busy)

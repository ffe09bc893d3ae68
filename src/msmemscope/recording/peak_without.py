"""The peak of a pool without some of its blocks, or without a block for a part of its life.

A block can be absent from one moment to another. Then it is not in use from right after the event of the first until
right before that of the second. Everything else stays as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from msmemscope.recording.timeline import MemoryUse, byte_changes

if TYPE_CHECKING:
    from msmemscope.recording.timeline import Bytes, Numbers

MOST_GROUPS: Final = 200
"""Groups of a pool whose peak is worked out, the largest first."""


def peaks_without(blocks: pl.DataFrame, removed: pl.DataFrame) -> tuple[int, int, dict[int, int]]:
    """Work out the peak of one pool as it was, and as it would have been without some blocks.

    Args:
        blocks: All blocks of the pool: `malloc_sequence`, `free_sequence`, `size`.
        removed: Those to leave out, and `group` (an integer) that each of them belongs to.

    Returns:
        Peak bytes; peak bytes without all that are left out; and for the MOST_GROUPS largest groups, the peak without
        that group alone.
    """
    use = MemoryUse.of(blocks)
    out = byte_changes(removed, "group")
    if out.is_empty():
        return use.peak_bytes, use.peak_bytes, {}
    # Between two changes of the removed blocks, only the highest total matters.
    moments = out["sequence"].to_numpy()
    cuts = np.searchsorted(use.moments, moments) + 1
    highest = np.maximum.reduceat(use.in_use, np.concatenate(([0], cuts)))
    change, group = out["change"].to_numpy(), out["group"].to_numpy()

    def peak_left(left_out: Bytes) -> int:
        return max(int((highest - MemoryUse.of_changes(moments, left_out).in_use).max()), 0)

    largest = removed.group_by("group").agg(pl.col("size").sum()).sort(["size", "group"], descending=[True, False])
    chosen = largest["group"].head(MOST_GROUPS).to_list()
    by_group = {one: peak_left(np.where(group == one, change, 0)) for one in chosen}
    return use.peak_bytes, peak_left(change), by_group


def saved_bytes(use: MemoryUse, sizes: Bytes, begins: Numbers, ends: Numbers) -> Bytes:
    """Return by how much the peak would be lower if one block were absent, for each of many blocks by itself.

    Args:
        use: Of the pool.
        sizes: Bytes of each block.
        begins: Its absence begins right after this moment.
        ends: And ends right before this one. No absence if that is not later.
    """
    highest_until = np.maximum.accumulate(use.in_use)
    highest_from = np.maximum.accumulate(use.in_use[::-1])[::-1]
    highest_before = highest_until[np.searchsorted(use.moments, begins, side="left")]
    # The total at the end is the one after the last event up to it, with the block.
    held = np.searchsorted(use.moments, ends, side="right")
    # If the peak is not reached outside, it is reached inside, and there the block is missing. (Without an absence
    # outside is everywhere.)
    outside = np.maximum(highest_before, highest_from[held])
    return use.peak_bytes - np.maximum(outside, use.peak_bytes - sizes)


def peak_with_absences(use: MemoryUse, sizes: Bytes, begins: Numbers, ends: Numbers) -> int:
    """Return the peak if all the blocks were absent, each for its time; those of one block may not overlap.

    Args:
        use: Of the pool.
        sizes: Bytes of each block.
        begins: As for `saved_bytes`.
        ends: Likewise.
    """
    # There may be more of them than changes of the pool: each makes room for the next.
    is_absence = ends > begins
    moments = np.concatenate([use.moments, begins[is_absence], ends[is_absence]])
    order = np.argsort(moments, kind="stable")
    moments = moments[order]
    is_last_of_moment = np.append(moments[1:] != moments[:-1], np.ones(min(len(moments), 1), np.bool_))
    del moments
    sizes = sizes[is_absence]
    changes = np.concatenate([use.changes, -sizes, sizes])[order]
    del order
    in_use = np.cumsum(changes, out=changes)
    return max(int(in_use[is_last_of_moment].max(initial=0)), 0)

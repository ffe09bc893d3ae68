"""What the peak of a pool would be without some of its blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.recording.timeline import byte_changes

if TYPE_CHECKING:
    from typing import TypeAlias

Integers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

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
    changes = byte_changes(blocks)
    total = np.concatenate(([0], np.cumsum(changes["change"].to_numpy())))
    peak = int(total.max())
    out = byte_changes(removed, "group")
    if out.is_empty():
        return peak, peak, {}
    # Between two changes of what is left out, only the highest total matters.
    cuts = np.searchsorted(changes["sequence"].to_numpy(), out["sequence"].to_numpy()) + 1
    highest = np.maximum.reduceat(total, np.concatenate(([0], cuts)))
    change, group = out["change"].to_numpy(), out["group"].to_numpy()
    largest = removed.group_by("group").agg(pl.col("size").sum()).sort(["size", "group"], descending=[True, False])
    chosen = largest["group"].head(MOST_GROUPS).to_list()
    by_group = {one: _peak(highest, np.where(group == one, change, 0)) for one in chosen}
    return peak, _peak(highest, change), by_group


def _peak(highest: Integers, change: Integers) -> int:
    left_out = np.concatenate(([0], np.cumsum(change)))
    return max(int((highest - left_out).max()), 0)

"""How little memory the blocks of a recording need, whatever the allocator does.

The lower bound is the bytes in use at the peak. An offline plan knows all lifetimes beforehand and gives every block
its place for good. The largest blocks come first, each at the lowest place that is free for all of its life.
Fragmentation cannot make a plan worse. It is an upper bound of the best plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from msmemscope.analysis.replay.recorded_allocations import Action

if TYPE_CHECKING:
    from msmemscope.analysis.replay.recorded_allocations import Allocations, Column

MOST_PACKED_BLOCKS: Final = 3000
"""The largest blocks get a place of their own each; smaller ones are added as their bytes in use at the peak."""


def lifetimes(allocations: Allocations) -> tuple[Column, Column, Column]:
    """Return begin and end (numbers of events) and bytes of each block, in the order of their begins."""
    begins = np.flatnonzero(allocations.actions == Action.ALLOCATE)
    frees = np.flatnonzero(allocations.actions == Action.COMPLETE_FREE)
    ends = np.full(int(allocations.blocks.max(initial=0)) + 1, allocations.count)
    ends[allocations.blocks[frees]] = frees
    return begins, ends[allocations.blocks[begins]], allocations.recorded_bytes[begins]


def packed_bytes(allocations: Allocations) -> int:
    """Return how many bytes an offline plan needs for the blocks of a device."""
    begins, ends, sizes = lifetimes(allocations)
    order = np.argsort(-sizes, kind="stable")
    chosen, rest = order[:MOST_PACKED_BLOCKS], order[MOST_PACKED_BLOCKS:]
    placed = np.zeros(len(chosen), np.int64)
    begin, end, size = begins[chosen], ends[chosen], sizes[chosen]
    top = 0
    for index in range(len(chosen)):
        meets = (begin[:index] < end[index]) & (end[:index] > begin[index])
        low = placed[:index][meets]
        high = low + size[:index][meets]
        by_place = np.argsort(low, kind="stable")
        # From the bottom, and from the highest end of those below, up to the next one.
        starts = np.concatenate([[0], np.maximum.accumulate(high[by_place])])
        gaps = np.append(low[by_place], np.iinfo(np.int64).max) - starts
        place = int(starts[np.argmax(gaps >= size[index])])
        placed[index] = place
        top = max(top, place + int(size[index]))
    changes = np.zeros(allocations.count + 1, np.int64)
    np.add.at(changes, begins[rest], sizes[rest])
    np.add.at(changes, ends[rest], -sizes[rest])
    return top + int(np.cumsum(changes).max(initial=0))

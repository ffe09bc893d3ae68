"""What the peak of a pool would be if a block were absent for a part of its life.

Time is counted in rows of the event table. A block that is absent from row `begin` to row `end` is not in use from right
after the event of `begin` until right before that of `end`; everything else stays as it was.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from msmemscope.recording.operators import NOWHERE

if TYPE_CHECKING:
    from msmemscope.recording.block_uses import BlockUses
    from msmemscope.recording.operators import IntegerArray


@dataclasses.dataclass(frozen=True)
class PoolUse:
    """How much of one pool of one device was in use, after each MALLOC and FREE of its blocks."""

    rows: IntegerArray
    """Ascending, one per MALLOC or FREE."""
    changes: IntegerArray
    """Bytes by which it changed there."""
    in_use: IntegerArray
    """Bytes after it."""

    @property
    def peak_bytes(self) -> int:
        """The most that was ever in use."""
        return max(int(self.in_use.max(initial=0)), 0)

    def saved_bytes(self, sizes: IntegerArray, begin_rows: IntegerArray, end_rows: IntegerArray) -> IntegerArray:
        """Returns by how much the peak would be lower if one block were absent, for each of many blocks by itself.

        Args:
            sizes: Bytes of each block.
            begin_rows: Its absence begins right after this event.
            end_rows: And ends right before this one. No absence if that is not later.
        """
        peak = self.peak_bytes
        highest_until = np.concatenate([[0], np.maximum.accumulate(self.in_use)])
        highest_from = np.maximum.accumulate(self.in_use[::-1])[::-1]
        highest_before = highest_until[np.searchsorted(self.rows, begin_rows, side="left")]
        # What holds at the end is what the last event up to it left behind, with the block.
        held = np.maximum(np.searchsorted(self.rows, end_rows, side="right") - 1, 0)
        outside = np.maximum(highest_before, highest_from[held]) if len(self.rows) else np.zeros_like(sizes)
        # If the peak is not reached outside, it is reached inside, and there the block is missing. (Without an absence
        # outside is everywhere.)
        return peak - np.maximum(outside, peak - sizes)

    def peak_without(self, sizes: IntegerArray, begin_rows: IntegerArray, end_rows: IntegerArray) -> int:
        """Returns the peak if all the blocks were absent, each for its time; those of one block may not overlap."""
        is_absence = end_rows > begin_rows
        sizes, begin_rows, end_rows = sizes[is_absence], begin_rows[is_absence], end_rows[is_absence]
        rows = np.concatenate([self.rows, begin_rows, end_rows])
        changes = np.concatenate([self.changes, -sizes, sizes])
        order = np.argsort(rows, kind="stable")
        totals = np.cumsum(changes[order])
        is_last_of_row = np.diff(rows[order], append=NOWHERE) != 0
        return max(int(totals[is_last_of_row].max(initial=0)), 0)


def pool_use(uses: BlockUses, blocks: IntegerArray) -> PoolUse:
    """Follow how much of a pool was in use.

    Args:
        uses: The blocks of the process.
        blocks: Indexes of the blocks of the pool.
    """
    freed = blocks[uses.free_rows[blocks] != NOWHERE]
    rows = np.concatenate([uses.malloc_rows[blocks], uses.free_rows[freed]])
    changes = np.concatenate([uses.sizes[blocks], -uses.sizes[freed]])
    order = np.argsort(rows, kind="stable")
    return PoolUse(rows[order], changes[order], np.cumsum(changes[order]))

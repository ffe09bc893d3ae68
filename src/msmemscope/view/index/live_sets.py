"""Which blocks are in use in a window: found without a look at the others.

Blocks stand in the order of their begins, so those that begin before the end of a window are the first ones. A tree
above their ends says which of them end behind its begin. Each node has the latest end of 16 nodes below. Only nodes
whose latest end is late enough are opened. This is a priority search tree (McCreight, SIAM J. Comput. 14, 1985), with
wide nodes instead of rotated ones. Its cost grows with the number of blocks found, not with the length of the
recording.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from msmemscope.view.index.ordered import count_up_to

if TYPE_CHECKING:
    from typing import TypeAlias

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Places: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

_FANOUT: Final = 16


class LiveSets:
    """The blocks of a pool by when they are in use.

    Args:
        begins: Row of the begin of each block, ascending.
        ends: Row of its end, larger than any row if it has none; kept, and not copied.
    """

    def __init__(self, begins: Numbers, ends: Numbers) -> None:
        """Look at every end once."""
        self._begins = begins
        self._levels = [ends]
        while len(level := self._levels[-1]) > _FANOUT:
            self._levels.append(np.maximum.reduceat(level, np.arange(0, len(level), _FANOUT)))

    def at(self, row: int) -> Places:
        """Return the places of the blocks in use right after a row, in the order of their begins."""
        return self.within(row, row)

    def within(self, first: int, last: int) -> Places:
        """Return the places of the blocks that are in use right after some row of a window, in the order of their begins.

        Args:
            first: Row that the window begins with.
            last: Row that it ends with.
        """
        count = count_up_to(self._begins, last)
        top = len(self._levels) - 1
        nodes = np.arange(min(len(self._levels[top]), -(-count // _FANOUT**top)))
        for height in range(top, -1, -1):
            level = self._levels[height]
            nodes = nodes[level[nodes] > first]
            if height:
                nodes = (nodes[:, None] * _FANOUT + np.arange(_FANOUT)).ravel()
                nodes = nodes[nodes < min(len(self._levels[height - 1]), -(-count // _FANOUT ** (height - 1)))]
        return nodes

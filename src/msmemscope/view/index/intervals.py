"""Many intervals of time. A window shows the heaviest and counts the others."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from msmemscope.view.index.live_sets import LiveSets
from msmemscope.view.index.ordered import count_up_to

if TYPE_CHECKING:
    from typing import TypeAlias

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Places: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

_MOST_LISTED: Final = 300_000
"""Intervals of a window that are all looked at; of more, the heaviest are looked for first."""
_FIRST_PART: Final = 1 << 16
"""Intervals that are tried at once, to begin with."""


class Intervals:
    """Intervals between rows.

    Args:
        begins: Their first rows, ascending.
        ends: The row behind the last one of each; larger than any row for those without an end.
        ranks: Their places, the heaviest first.
    """

    def __init__(self, begins: Numbers, ends: Numbers, ranks: Numbers) -> None:
        """Keep the given arrays, without a copy."""
        self.begins, self.ends, self._ranks = begins, ends, ranks

    @functools.cached_property
    def live(self) -> LiveSets:
        """Which are there at a moment."""
        return LiveSets(self.begins, self.ends)

    @functools.cached_property
    def _ranked(self) -> tuple[Numbers, Numbers]:
        return self.begins[self._ranks], self.ends[self._ranks]

    @functools.cached_property
    def _sorted_ends(self) -> Numbers:
        return np.sort(self.ends)

    def count(self, first: int, last: int) -> int:
        """Return how many there are in a window.

        Args:
            first: Row that the window begins with.
            last: Row that it ends with.
        """
        begun = count_up_to(self.begins, last)
        # An interval that ended before the window also began before it.
        return begun - count_up_to(self._sorted_ends, first)

    def heaviest(self, first: int, last: int, most: int) -> Places:
        """Return the places of the intervals in a window: all of them, or about the `most` heaviest, in any order.

        Args:
            first: Row that the window begins with.
            last: Row that it ends with.
            most: How many are needed.
        """
        if self.count(first, last) <= max(_MOST_LISTED, most):
            return self.live.within(first, last)
        begins, ends = self._ranked
        found: list[Places] = []
        total, start, length = 0, 0, _FIRST_PART
        while start < len(begins) and total < most:
            part = slice(start, start + length)
            places = np.flatnonzero((begins[part] <= last) & (ends[part] > first)) + start
            found.append(places)
            total += len(places)
            start, length = start + length, 2 * length
        return self._ranks[np.concatenate(found)].astype(np.int64)

"""Where a long series is highest or lowest within any stretches of it: no value is ever skipped, however short it lasted.

The series is cut into chunks. Of each run of 1, 2, 4, ... chunks the place of its extreme is kept. So a stretch is two
such runs, which may overlap, and a part of a chunk at either end. This is a sparse table (Bender and Farach-Colton,
"The LCA Problem Revisited", 2000). A stretch costs the same whether it is a thousand values long or a thousand million.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from typing import TypeAlias

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Places: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

CHUNK: Final = 128
"""Values of a chunk: few enough to be looked at one by one at both ends of a stretch."""


class RangeExtremes:
    """The places of the extremes of a series.

    Args:
        values: The series, at least one value; it is kept, and not copied.
        lowest: Whether lowest values are asked for, not highest.
    """

    def __init__(self, values: Numbers, *, lowest: bool = False) -> None:
        """Look at every value once."""
        self._values = values
        self._is_lowest = lowest
        starts = np.arange(0, len(values), CHUNK)
        whole = len(values) // CHUNK
        inside = values[: whole * CHUNK].reshape(whole, CHUNK)
        found = inside.argmin(axis=1) if lowest else inside.argmax(axis=1)
        level = starts[:whole] + found
        if whole < len(starts):
            rest = values[whole * CHUNK :]
            level = np.append(level, starts[whole] + (rest.argmin() if lowest else rest.argmax()))
        self._levels = [level]
        while (width := 1 << len(self._levels)) <= len(starts):
            level = self._better(level[: -width // 2], level[width // 2 :][: len(level) - width // 2])
            self._levels.append(level)

    def places(self, first: Numbers, last: Numbers) -> Places:
        """Return where each stretch has its extreme; the first such place.

        Args:
            first: Place of the first value of each stretch.
            last: Of its last value, not before its first.
        """
        first, last = np.asarray(first, dtype=np.int64), np.asarray(last, dtype=np.int64)
        first_chunk, last_chunk = first // CHUNK, last // CHUNK
        # The parts of the first and of the last chunk in the stretch; one chunk that is both is looked at once.
        found = self._scanned(first, np.minimum(last, first_chunk * CHUNK + CHUNK - 1))
        tail = self._scanned(np.maximum(first, last_chunk * CHUNK), last)
        between = last_chunk - first_chunk - 1
        has_between = np.flatnonzero(between > 0)
        if len(has_between):
            found[has_between] = self._better(
                found[has_between], self._of_chunks(first_chunk[has_between] + 1, between[has_between])
            )
        return self._better(found, tail)

    def values(self, first: Numbers, last: Numbers) -> Numbers:
        """Return the extreme of each stretch; arguments as for `places`."""
        extremes: Numbers = self._values[self.places(first, last)]
        return extremes

    def _of_chunks(self, begin: Places, count: Places) -> Places:
        """The extreme of so many whole chunks."""
        levels = np.frexp(count.astype(np.float64))[1].astype(np.int64) - 1
        found = np.empty(len(begin), dtype=np.int64)
        for level in np.unique(levels).tolist():
            chosen = np.flatnonzero(levels == level)
            table = self._levels[level]
            found[chosen] = self._better(table[begin[chosen]], table[begin[chosen] + count[chosen] - (1 << level)])
        return found

    def _scanned(self, first: Places, last: Places) -> Places:
        """The extreme of stretches within one chunk each, value by value."""
        if not len(first):
            return first
        width = int((last - first).max()) + 1
        # Behind its end a stretch repeats its last value, which changes nothing.
        places = np.minimum(first[:, None] + np.arange(width), last[:, None])
        seen = self._values[places]
        inside = seen.argmin(axis=1) if self._is_lowest else seen.argmax(axis=1)
        found: Places = first + inside
        return found

    def _better(self, left: Places, right: Places) -> Places:
        """Of two places the one with the better value; the left one if they are equal."""
        values = self._values
        is_right = values[right] < values[left] if self._is_lowest else values[right] > values[left]
        return np.where(is_right, right, left)

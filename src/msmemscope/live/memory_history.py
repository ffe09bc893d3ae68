"""Memory over time in a fixed number of columns, however long it takes: no peak is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    Numbers = np.ndarray[Any, np.dtype[Any]]

_COLUMNS: Final = 256
_FIRST_WIDTH_NS: Final = 1_000_000


class MemoryHistory:
    """The most that was in use in each of some equally long stretches of time.

    Once time goes beyond the last of them, two become one.
    """

    def __init__(self) -> None:
        """Start without any time."""
        self._begin_ns = 0
        self._width_ns = _FIRST_WIDTH_NS
        self._latest_ns = 0
        self._most = np.full(_COLUMNS, -1, np.int64)
        self._last = np.zeros(_COLUMNS, np.int64)
        self._used = 0

    @property
    def width_ns(self) -> int:
        """Length of one stretch."""
        return self._width_ns

    @property
    def most_bytes(self) -> list[int]:
        """The most in use in each stretch, from the first on."""
        return [int(value) for value in self._most[: self._used]]

    def add(self, times_ns: Numbers, in_use: Numbers) -> None:
        """Take further changes in.

        Args:
            times_ns: When they were, as CLOCK_REALTIME has it. Clocks of threads can be read in another order than that of
                the changes: none is taken for earlier than one before it.
            in_use: The bytes in use after each.
        """
        if not len(times_ns):
            return
        if self._used == 0:
            self._begin_ns = self._latest_ns = int(times_ns[0])
        moments = np.maximum.accumulate(np.maximum(times_ns.astype(np.int64), self._latest_ns))
        self._latest_ns = int(moments[-1])
        while (self._latest_ns - self._begin_ns) // self._width_ns >= _COLUMNS:
            self._halve()
        places = (moments - self._begin_ns) // self._width_ns
        self._reach(int(places[0]))
        starts = np.flatnonzero(np.concatenate([[True], places[1:] != places[:-1]]))
        most = np.maximum.reduceat(in_use, starts)
        for place, value, end in zip(
            places[starts].tolist(), most.tolist(), [*(starts[1:] - 1).tolist(), len(in_use) - 1], strict=True
        ):
            self._reach(place)
            self._most[place] = max(int(self._most[place]), value)
            self._last[place] = in_use[end]

    def _reach(self, place: int) -> None:
        """Fill the stretches up to one with the bytes in use at the end of the one before."""
        before = int(self._last[self._used - 1]) if self._used else 0
        if place >= self._used:
            self._most[self._used : place + 1] = before
            self._last[self._used : place + 1] = before
            self._used = place + 1

    def _halve(self) -> None:
        half = _COLUMNS // 2
        used = -(-self._used // 2)
        pairs = self._most.reshape(half, 2)
        self._most[:half] = pairs.max(axis=1)
        # The last stretch may be the first of its pair.
        self._last[:used] = [self._last[min(2 * place + 1, self._used - 1)] for place in range(used)]
        self._most[used:] = -1
        self._used = used
        self._width_ns *= 2

"""One process as it can be looked at: its axis, its pools, and who is in which group."""

from __future__ import annotations

import bisect
import dataclasses
import functools
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from msmemscope.analysis.weights.path_tree import PathTree
from msmemscope.errors import UsageError
from msmemscope.view.index.intervals import Intervals
from msmemscope.view.index.ordered import count_up_to, counts_below, counts_up_to
from msmemscope.view.index.range_extremes import RangeExtremes
from msmemscope.view.index.store import NEVER

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    import polars as pl

    from msmemscope.view.index.store import IndexReader

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

AXES: Final = ("time", "events")
BEFORE_ALL: Final = -1
"""Row before the first event."""


@dataclasses.dataclass(frozen=True)
class Window:
    """A part of an axis, its end included."""

    axis: str
    begin: int
    end: int
    first_row: int
    """The last row that does not lie behind its begin, BEFORE_ALL if there is none. It says what is in use when the
    part begins.
    """
    last_row: int
    """The last row in it, or `first_row` without any."""


class ProcessView:
    """One process, read from its index.

    Args:
        number: Among those that are shown.
        name: For people.
        index: Its index.
    """

    def __init__(self, number: int, name: str, index: IndexReader) -> None:
        """Read nothing but the facts."""
        self.number, self.name, self.index = number, name, index
        self.facts: dict[str, Any] = index.facts
        self.pools: Sequence[PoolView] = [PoolView(self, number) for number in range(len(self.facts["pools"]))]

    @functools.cached_property
    def document(self) -> dict[str, Any]:
        """The report of the process."""
        return self.index.content("document")

    @property
    def row_count(self) -> int:
        """Events."""
        return int(self.facts["events"])

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes that it has."""
        return AXES if self.facts["has_times"] else AXES[1:]

    def axis_or_default(self, given: str | None) -> str:
        """Return the axis that is meant.

        Raises:
            UsageError: There is none of this name.
        """
        if given is None:
            return self.axes[0]
        if given not in self.axes:
            message = "is no axis of this process"
            raise UsageError(message, option="axis", value=given, accepted=", ".join(self.axes))
        return given

    def length(self, axis: str) -> int:
        """Return the last position of an axis."""
        length: int = self.facts["length"][axis]
        return length if axis == "time" else max(length - 1, 0)

    def positions(self, rows: Numbers, axis: str) -> Numbers:
        """Return where rows lie on an axis: BEFORE_ALL at its begin, NEVER at its end."""
        length = self.length(axis)
        if axis == "events":
            return np.clip(np.asarray(rows, dtype=np.int64), 0, length)
        times = self.index.get("events/times")
        known = np.clip(np.asarray(rows, dtype=np.int64), 0, max(len(times) - 1, 0))
        found = times[known] if len(times) else np.zeros(len(known), dtype=np.int64)
        found = np.where(np.asarray(rows) == NEVER, length, found)
        return np.where(np.asarray(rows) < 0, 0, found)

    def position(self, row: int, axis: str) -> int:
        """Return where a row lies on an axis."""
        return int(self.positions(np.array([row], dtype=np.int64), axis)[0])

    def rows_before(self, positions: Numbers, axis: str) -> Numbers:
        """Return how many rows lie before positions."""
        if axis == "events":
            return np.clip(np.ceil(positions), 0, self.row_count).astype(np.int64)
        return counts_below(self.index.get("events/times"), np.ceil(positions).astype(np.int64))

    def row_at(self, position: float, axis: str) -> int:
        """Return the last row that does not lie behind a position."""
        if axis == "events":
            return min(max(int(position), BEFORE_ALL), self.row_count - 1)
        return bisect.bisect_right(self.index.get("events/times"), position) - 1

    def window(self, axis: str, begin: int | None, end: int | None) -> Window:
        """Return a part of an axis; None for its own ends.

        Raises:
            UsageError: It ends before it begins.
        """
        first = 0 if begin is None else max(begin, 0)
        last = self.length(axis) if end is None else min(end, self.length(axis))
        if last < first:
            message = "lies before the begin, or the begin behind the last event"
            raise UsageError(message, option="to", value=str(end), accepted=f"{first} to {self.length(axis)}")
        # The bytes in use when it begins: the rows before it have happened.
        before = int(self.rows_before(np.array([first]), axis)[0]) - 1
        return Window(axis, first, last, before, max(self.row_at(last, axis), before))

    def sequence(self, row: int) -> int:
        """Return the number that dumps call an event by; 0 before the first."""
        return int(self.index.get("events/sequences")[min(row, self.row_count - 1)]) if 0 <= row != NEVER else 0

    def moment(self, row: int) -> dict[str, int]:
        """Return all names of a moment."""
        named = {axis: self.position(row, axis) for axis in self.axes}
        return {"row": row, "sequence": self.sequence(row), **named}

    def pool(self, number: int) -> PoolView:
        """Return a pool.

        Raises:
            UsageError: There is none.
        """
        if not 0 <= number < len(self.pools):
            message = "is no pool of this process"
            raise UsageError(message, option="pool", value=str(number), accepted=f"0 to {len(self.pools) - 1}")
        return self.pools[number]

    def grouping(self, given: str) -> str:
        """Return a grouping that is known.

        Raises:
            UsageError: It is not.
        """
        known = self.facts["groupings"]
        if given not in known:
            message = "is no grouping of this process"
            raise UsageError(message, option="by", value=given, accepted=", ".join(known))
        return given

    def codes(self, grouping: str) -> Numbers:
        """Return the group of each block."""
        return self.index.get(f"groups/{grouping}/codes")

    def labels(self, grouping: str) -> pl.Series:
        """Return the names of groups."""
        return self.index.texts(f"groups/{grouping}/labels")

    @functools.lru_cache(maxsize=8)  # noqa: B019 - lives as long as the server
    def tree(self, name: str) -> tuple[PathTree, Numbers]:
        """Return a tree and its node of each stack, or of each owner."""
        names, parents, depths, leaves = (
            self.index.get(f"trees/{name}/{part}") for part in ("names", "parents", "depths", "leaves")
        )
        return PathTree(self.index.texts(f"trees/{name}/labels").to_list(), names, parents, depths), leaves

    @functools.cached_property
    def calls(self) -> Intervals:
        """Operators, ranges and functions."""
        begins, ends, ranks = (self.index.get(f"calls/{name}") for name in ("begin", "end", "ranks"))
        return Intervals(begins, ends, ranks)


class PoolView:
    """One pool of a device.

    Args:
        process: Its process.
        number: Among its pools.
    """

    def __init__(self, process: ProcessView, number: int) -> None:
        """Read nothing but the facts."""
        self.process, self.number = process, number
        self.facts: dict[str, Any] = process.facts["pools"][number]
        self.blocks = slice(self.facts["offset"], self.facts["offset"] + self.facts["block_count"])
        """Its blocks among those of the process."""

    def of_blocks(self, name: str) -> Numbers:
        """Return an array of `blocks/`, those of this pool."""
        return self.process.index.get(f"blocks/{name}")[self.blocks]

    def _get(self, name: str) -> Numbers:
        return self.process.index.get(f"pools/{self.number}/{name}")

    @functools.cached_property
    def rows(self) -> Numbers:
        """The rows of its changes, ascending."""
        return self._get("rows")

    @functools.cached_property
    def in_use(self) -> Numbers:
        """Bytes in use before its first change, and after each: state n is the state after n changes."""
        return self._get("in_use")

    @functools.cached_property
    def highest(self) -> RangeExtremes:
        """Where the most is in use."""
        return RangeExtremes(self.in_use)

    @functools.cached_property
    def lowest(self) -> RangeExtremes:
        """Where the least is in use."""
        return RangeExtremes(self.in_use, lowest=True)

    @functools.cached_property
    def intervals(self) -> Intervals:
        """When its blocks are in use."""
        return Intervals(self.of_blocks("begin_rows"), self.of_blocks("end_rows"), self._get("ranks"))

    def state(self, row: int) -> int:
        """Return how many changes have happened up to a row."""
        return count_up_to(self.rows, row)

    def in_use_at(self, row: int) -> int:
        """Return the bytes in use right after a row."""
        return int(self.in_use[self.state(row)])

    def group_totals(self, grouping: str, group: int, states: Numbers) -> Numbers:
        """Return the bytes of a group in some states."""
        offsets = self._get(f"{grouping}/offsets")
        part = slice(int(offsets[group]), int(offsets[group + 1]))
        positions, totals = self._get(f"{grouping}/positions")[part], self._get(f"{grouping}/totals")[part]
        found = counts_below(positions, states)  # changes of the group among the first so many
        return (
            np.where(found > 0, totals[np.maximum(found - 1, 0)], 0) if len(totals) else np.zeros(len(states), np.int64)
        )

    def reserved(self, first_rows: Numbers, last_rows: Numbers) -> Numbers:
        """Return the most that the pool had of the driver's memory between rows; -1 where it did not say."""
        rows, held = self._get("reserved/rows"), self._reserved_extremes
        first = counts_below(rows, first_rows)
        last = np.maximum(counts_up_to(rows, last_rows), first)
        return held.values(first, last)

    @functools.cached_property
    def _reserved_extremes(self) -> RangeExtremes:
        return RangeExtremes(self._get("reserved/bytes"))

    def steps(self) -> tuple[Numbers, Numbers, Numbers]:
        """Return the rows of the begins and the ends of the steps, and their numbers."""
        begins, ends, numbers = (self._get(f"steps/{name}") for name in ("begin_rows", "end_rows", "numbers"))
        return begins, ends, numbers

    def codes(self, grouping: str) -> Numbers:
        """Return the group of each block."""
        return self.process.codes(grouping)[self.blocks]

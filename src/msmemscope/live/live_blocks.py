"""The blocks that are in use now, as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.formats.event_log.event_frame import devices_of
from msmemscope.formats.event_log.followed_log import KEPT_SEGMENT

if TYPE_CHECKING:
    Numbers = np.ndarray[Any, np.dtype[Any]]
    Mask = np.ndarray[Any, np.dtype[np.bool_]]

PLACE_BITS: Final = 8
"""A place is a device and, in its lower bits, a pool: where memory is in use."""

_COLUMNS: Final = np.dtype(
    [
        ("sequence", np.uint64),
        ("size", np.int64),
        ("python_stack_id", np.uint32),
        ("native_stack_id", np.uint32),
        ("name_id", np.uint32),
        ("place", np.int32),
        ("labels", np.int32),
        ("module", np.int32),
        ("segment", np.uint32),
        ("flags", np.uint8),
    ]
)
_MOST_WAITING: Final = 1 << 16
"""Frees of unknown blocks that are remembered, the latest ones."""


def places_of(records: Numbers) -> Numbers:
    """Return the device and the pool of records as one number."""
    places: Numbers = devices_of(records).astype(np.int32) << PLACE_BITS | records["pool"]
    return places


def device_and_pool(place: int) -> tuple[int, int]:
    """Take a place apart."""
    return place >> PLACE_BITS, place & ((1 << PLACE_BITS) - 1)


class LiveBlocks:
    """Blocks in the order of their sequence numbers.

    A block is known by the number of its MALLOC, which its FREE names. A FREE that comes in front of its MALLOC is remembered: two
    threads can be read in that order, though hardly ever, see `FollowedLog.read`.
    """

    def __init__(self) -> None:
        """Start without blocks."""
        self._columns: dict[str, Numbers] = {name: np.empty(0, _COLUMNS[name]) for name in _COLUMNS.names or ()}
        self._waiting: Numbers = np.empty(0, np.uint64)

    def __len__(self) -> int:
        return len(self._columns["sequence"])

    def __getitem__(self, name: str) -> Numbers:
        """Return a column: one of those that `add` takes."""
        return self._columns[name]

    def frame(self) -> pl.DataFrame:
        """Return all columns as a table, without a copy."""
        return pl.DataFrame(self._columns)

    def add(self, **columns: Numbers) -> None:
        """Add blocks.

        Args:
            columns: In the order of their sequence numbers. Of their MALLOC: `sequence`, `size`, `python_stack_id`,
                `native_stack_id`, `name_id`, `flags` and its `segment`. Besides `place`, and two numbers: `labels`, of
                a set of them, and `module`.
        """
        if not len(columns["sequence"]):
            return
        is_late = len(self) > 0 and columns["sequence"][0] < self._columns["sequence"][-1]
        self._columns = {
            name: np.concatenate([held, columns[name].astype(held.dtype, copy=False)])
            for name, held in self._columns.items()
        }
        if is_late:
            self._choose(np.argsort(self._columns["sequence"], kind="stable"))

    def rows_of(self, sequences: Numbers) -> tuple[Numbers, Mask]:
        """Find blocks by their numbers.

        Returns:
            The rows of those that are here, and which of the numbers these are.
        """
        known = self._columns["sequence"]
        rows = np.searchsorted(known, sequences)
        is_known = rows < len(known)
        is_known[is_known] = known[rows[is_known]] == sequences[is_known]
        return rows[is_known], is_known

    def end(self, rows: Numbers) -> None:
        """Leave blocks out that are no longer in use."""
        if len(rows):
            is_alive = np.ones(len(self), np.bool_)
            is_alive[rows] = False
            self._choose(is_alive)

    def wait_for(self, sequences: Numbers) -> None:
        """Remember frees of blocks that are not known, by the numbers of these."""
        self._waiting = np.concatenate([self._waiting, sequences])[-_MOST_WAITING:]

    def already_freed(self, sequences: Numbers) -> Mask:
        """Say which blocks have their free already."""
        return np.isin(sequences, self._waiting)

    def are_gone(self, firsts: Numbers, kept: Numbers) -> Numbers:
        """Find blocks whose free was given back by the flight recorder, together with their allocation.

        Args:
            firsts: By segment, the number of the first record that it still has.
            kept: Numbers of the allocations that were kept because their blocks were in use, in order.

        Returns:
            Their rows.
        """
        sequences, segments = self._columns["sequence"], self._columns["segment"]
        is_copy = segments == KEPT_SEGMENT
        first = firsts[np.where(is_copy, 0, segments)] if len(firsts) else np.zeros(len(self), np.uint64)
        is_given_back = is_copy | (sequences < first)
        return np.flatnonzero(is_given_back & ~np.isin(sequences, kept))

    def label(self, rows: Numbers, labels: Numbers) -> None:
        """Give blocks other sets of labels."""
        self._columns["labels"][rows] = labels

    def _choose(self, rows: Numbers) -> None:
        self._columns = {name: held[rows] for name, held in self._columns.items()}

"""Events that stay in memory when a log is first read, so that questions about them take no further pass over it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from msmemscope.formats.event_log.event_frame import event_frame

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    Mask = np.ndarray[Any, np.dtype[np.bool_]]


@dataclasses.dataclass(frozen=True)
class KindsInMemory:
    """Which events stay in memory."""

    always: frozenset[int]
    """Kinds whose events stay if there are no more than `most` of them."""
    if_few: frozenset[int]
    """Kinds that stay only if there are no more than `most` events of both together."""
    most: int


class EventsInMemory:
    """The events of some kinds, each column of them a few pieces of memory.

    Args:
        kinds: Which ones.
    """

    def __init__(self, kinds: KindsInMemory) -> None:
        self._kinds = kinds
        self.clear()

    def clear(self) -> None:
        """Forget all events."""
        self._parts: list[pl.DataFrame] = []
        self._count = 0
        self._is_wanted = _mask(self._kinds.always | self._kinds.if_few)

    def add(self, records: np.ndarray[Any, np.dtype[Any]]) -> None:
        """Take in the next events.

        Args:
            records: Of `layout.RECORD`, in sequence order.
        """
        is_wanted = self._is_wanted[records["kind"]]
        chosen = records if is_wanted.all() else records.compress(is_wanted)
        if not len(chosen):
            return
        self._parts.append(event_frame(chosen))
        self._count += len(chosen)
        # Events that do not fit are read again by whoever needs them: memory must not decide whether dumps are written.
        for fewer in (self._kinds.always, frozenset[int]()):
            if self._count > self._kinds.most:
                self._is_wanted = _mask(fewer)
                self._parts = [part.filter(_is_one_of(fewer)) for part in self._parts] if fewer else []
                self._count = sum(part.height for part in self._parts)

    def has(self, kinds: Collection[int]) -> bool:
        """Whether all events of these kinds are here."""
        return bool(self._is_wanted[list(kinds)].all())

    def batches(self, kinds: Collection[int]) -> Iterator[pl.DataFrame]:
        """Yield the events of some kinds, tables of EVENT_SCHEMA in sequence order; none is empty."""
        others = set(np.flatnonzero(self._is_wanted).tolist()) - set(kinds)
        for part in self._parts:
            batch = part.filter(_is_one_of(kinds)) if others else part
            if not batch.is_empty():
                yield batch


def _mask(kinds: Collection[int]) -> Mask:
    mask: Mask = np.zeros(256, dtype=np.bool_)
    mask[list(kinds)] = True
    return mask


def _is_one_of(kinds: Collection[int]) -> pl.Expr:
    return pl.col("kind").is_in(sorted(int(kind) for kind in kinds))

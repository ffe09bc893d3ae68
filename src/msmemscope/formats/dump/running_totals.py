"""How much memory is in use after each event, carried from batch to batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from msmemscope.model.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

BlockTest: TypeAlias = "Callable[[np.ndarray[Any, np.dtype[np.uint64]]], np.ndarray[Any, np.dtype[np.bool_]]]"
"""Tells of sequence numbers of MALLOC events whether they are something."""


class RunningTotals:
    """Live bytes of each pool of each device.

    Args:
        is_recorded: Tells of MALLOC sequence numbers whether the capture has
            them. A flight recorder drops a block's MALLOC when the block is
            already dead, and can still hold its FREE: that one must not count.
            None if every block is recorded.
    """

    def __init__(self, is_recorded: BlockTest | None = None) -> None:
        """Start with nothing in use."""
        self._is_recorded = is_recorded
        self._live_bytes: dict[int, int] = {}

    def after_each(self, batch: pl.DataFrame) -> pl.Series:
        """Returns the live bytes of the event's device and pool after each event, and carries them on.

        Args:
            batch: Of EVENT_SCHEMA; batches must be given in order.

        Returns:
            `live_bytes`, meaningful for MALLOC and FREE and 0 for all others.
        """
        kinds = batch["kind"].to_numpy()
        sizes = batch["size"].to_numpy()
        blocks = batch["extra"].to_numpy()
        is_free = kinds == EventKind.FREE
        # The size of a FREE is known only if its block was seen.
        counts = is_free & (blocks != 0)
        if self._is_recorded is not None:
            counts[counts] = self._is_recorded(blocks[counts])
        changes = np.where(kinds == EventKind.MALLOC, sizes, np.where(counts, -sizes, 0))
        # One number per device and pool; only memory events belong to one.
        places = (batch["device"].to_numpy().astype(np.int64) << 8) | batch["pool"].to_numpy()
        is_memory = is_free | (kinds == EventKind.MALLOC)
        live = np.zeros(len(batch), dtype=np.int64)
        for place in np.unique(places[is_memory]).tolist():
            rows = np.flatnonzero(is_memory & (places == place))
            totals = np.cumsum(changes[rows]) + self._live_bytes.get(place, 0)
            live[rows] = totals
            self._live_bytes[place] = int(totals[-1])
        return pl.Series("live_bytes", live)

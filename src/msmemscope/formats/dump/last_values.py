"""Values that are recorded when they change and hold until then, carried from batch to batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from msmemscope.model.events import MEMORY_KINDS, EventFlag, EventKind

if TYPE_CHECKING:
    from typing import TypeAlias

_Numbers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
_Flags: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"

_UNKNOWN = -1


class LastValues:
    """What the latest records before an event say of its pool and its device."""

    def __init__(self) -> None:
        """Start with nothing known."""
        self._reserved = _LastOfEachPlace()
        self._device_used = _LastOfEachPlace()
        self._process_used = _LastOfEachPlace()

    def at_each(self, batch: pl.DataFrame) -> list[pl.Series]:
        """Returns what was known at each event, and carries it on.

        Args:
            batch: Of EVENT_SCHEMA; batches must be given in order.

        Returns:
            Three columns of bytes: `reserved_bytes` that the event's pool held on its device, `process_used_bytes` and
            `device_used_bytes` of its device. Null where nothing is known, for events that are not about memory, and for
            blocks that were freed while nothing was collected, these figures neither.
        """
        kinds = batch["kind"].to_numpy()
        devices = batch["device"].to_numpy().astype(np.int64)
        sizes = batch["size"].to_numpy()
        is_unseen_end = (kinds == EventKind.FREE) & (batch["flags"].to_numpy() & int(EventFlag.SHADOW) != 0)
        is_memory = np.isin(kinds, [int(kind) for kind in MEMORY_KINDS]) & ~is_unseen_end
        is_reserved = kinds == EventKind.RESERVED
        is_usage = kinds == EventKind.DEVICE_USAGE
        places = (devices << 8) | batch["pool"].to_numpy()
        of_process = batch["extra"].to_numpy().astype(np.int64)
        return [
            self._reserved.at_each(places, is_reserved, sizes, is_memory).alias("reserved_bytes"),
            self._process_used.at_each(devices, is_usage, of_process, is_memory).alias("process_used_bytes"),
            self._device_used.at_each(devices, is_usage, sizes, is_memory).alias("device_used_bytes"),
        ]


class _LastOfEachPlace:
    """The latest value of each of a few places."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}

    def at_each(self, places: _Numbers, has_value: _Flags, values: _Numbers, asks: _Flags) -> pl.Series:
        """Returns the latest value of its place for each row that asks; null elsewhere and where there is none.

        Args:
            places: What each row is about.
            has_value: Rows that have a new value.
            values: Of the rows that tell; a negative one takes the value back.
            asks: Rows that want to know.
        """
        if not self._known and not has_value.any():
            return pl.repeat(None, len(places), dtype=pl.Int64, eager=True)
        found = np.full(len(places), _UNKNOWN, dtype=np.int64)
        for place in {*self._known, *np.unique(places[has_value]).tolist()}:
            is_here = places == place
            asking = np.flatnonzero(asks & is_here)
            telling = np.flatnonzero(has_value & is_here)
            reported = np.concatenate(([self._known.get(place, _UNKNOWN)], values[telling]))
            found[asking] = reported[np.searchsorted(telling, asking)]
            self._known[place] = int(reported[-1])
        series = pl.Series(found)
        return series.set(series < 0, None)

"""Memory over time in columns: of all moments of a column the fullest is kept, so that no peak is lost."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.model.events import EventKind
from msmemscope.model.owners import without_module
from msmemscope.recording.step_bounds import process_steps
from msmemscope.recording.timeline import MemoryUse, totals_at

if TYPE_CHECKING:
    from typing import TypeAlias

    from msmemscope.recording import Recording
    from msmemscope.reports.html.time_axis import TimeAxis

Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

MOST_COLUMNS: Final = 2000
MOST_OWNERS: Final = 7
"""Owners that are drawn by themselves: as many colours can be told apart."""
OTHER_OWNERS: Final = "(others)"
_MOST_OWNERS_LOOKED_AT: Final = 400
"""Owners whose bytes in each column are worked out, the largest; the rest is one."""
_UNKNOWN: Final = -1


@dataclasses.dataclass(frozen=True, eq=False)
class MemoryColumns:
    """How much of one pool of one device was in use over time; all arrays have an entry per column."""

    device: int
    pool: int
    peak_bytes: int
    """The most that was ever in use: the largest of `most_bytes`."""
    peak_sequence: int
    """The event that first reached it."""
    peak_column: int
    """The column that holds that event."""
    peak_moment: float
    """When it was, on the time axis."""
    sequences: Numbers
    """The event after which a column was fullest, the first such; 0 before the first allocation."""
    moments: Numbers
    """When that was, on the time axis: the column's begin where it begins fullest."""
    most_bytes: Bytes
    """In use then."""
    least_bytes: Bytes
    """The least that was in use in the column."""
    reserved_bytes: Bytes | None
    """The most that the pool held of the driver's memory, -1 before the first report; None without reports."""
    steps: Numbers | None
    """The step that had begun last, 0 before the first; None without steps."""
    owners: tuple[tuple[str, Bytes], ...]
    """Owners with their bytes at the fullest moment, the largest first; they add up to `most_bytes`."""


def memory_columns(
    recording: Recording, blocks: pl.DataFrame, axis: TimeAxis, count: int = MOST_COLUMNS
) -> MemoryColumns | None:
    """Sum up the blocks of one pool over time.

    Args:
        recording: Of the process.
        blocks: RECORDING_BLOCK_SCHEMA, of one pool of one device, none without `owner`.
        axis: Of the process.
        count: Columns, at least 1.

    Returns:
        The columns; None if nothing was ever in use.
    """
    use = MemoryUse.of(blocks)
    if use.peak_bytes <= 0:
        return None
    device, pool = blocks["device"][0], blocks["pool"][0]
    columns = axis.columns_of(use.moments, count)
    places = MemoryUse(columns, use.changes, use.in_use)
    every = np.arange(count)
    least, most = places.extremes(every, every)
    first = np.searchsorted(columns, every, side="left")
    last = np.searchsorted(columns, every, side="right")
    fullest = np.array(
        [begin + int(use.in_use[begin : end + 1].argmax()) for begin, end in zip(first, last, strict=True)]
    )
    sequences = np.where(fullest > 0, use.moments[np.maximum(fullest - 1, 0)], 0)
    # Memory that was in use before the first change of a column is in use from its begin on.
    is_carried = fullest == first
    begins = every * (axis.length / count)
    moments = np.where(is_carried, begins, axis.of_events(sequences))
    peak = np.array([use.peak_moment], dtype=use.moments.dtype)
    return MemoryColumns(
        device=device,
        pool=pool,
        peak_bytes=use.peak_bytes,
        peak_sequence=use.peak_moment,
        peak_column=int(axis.columns_of(peak, count)[0]),
        peak_moment=float(axis.of_events(peak)[0]),
        sequences=sequences,
        moments=moments,
        most_bytes=most,
        least_bytes=least,
        reserved_bytes=_reserved(recording, (device, pool), axis, count),
        steps=_steps(recording, device, sequences),
        owners=_owners(blocks, sequences, most),
    )


def folded_owners(blocks: pl.DataFrame) -> pl.DataFrame:
    """Return blocks whose owners are named without the module that holds them: all weights are one.

    Args:
        blocks: With `owner`.
    """
    known = blocks["owner"].unique().drop_nulls()
    folded = {owner: without_module(owner) for owner in known}
    return blocks.with_columns(pl.col("owner").replace(folded).fill_null(OTHER_OWNERS))


def _reserved(recording: Recording, place: tuple[int, int], axis: TimeAxis, count: int) -> Bytes | None:
    is_report = (pl.col("kind") == EventKind.RESERVED) & (pl.col("size") >= 0)
    is_here = (pl.col("device") == place[0]) & (pl.col("pool") == place[1])
    reports = recording.events.filter(is_report & is_here).select("sequence", "size")
    if reports.is_empty():
        return None
    columns = axis.columns_of(reports["sequence"].to_numpy(), count)
    held = np.concatenate([[_UNKNOWN], reports["size"].to_numpy()])
    every = np.arange(count)
    return MemoryUse(columns, reports["size"].to_numpy(), held).extremes(every, every)[1]


def _steps(recording: Recording, device: int, sequences: Numbers) -> Numbers | None:
    bounds = process_steps(recording).of(device)
    return bounds.step_of(sequences) if len(bounds.begins) else None


def _owners(blocks: pl.DataFrame, sequences: Numbers, most: Bytes) -> tuple[tuple[str, Bytes], ...]:
    """The bytes of each owner at some events; blocks without an owner of their own are in OTHER_OWNERS."""
    owned = folded_owners(blocks).select("owner", "malloc_sequence", "free_sequence", "size")
    sums = owned.group_by("owner").agg(pl.col("size").sum()).sort("size", "owner", descending=[True, False])
    looked_at = sums["owner"].head(_MOST_OWNERS_LOOKED_AT)
    owned = owned.filter(pl.col("owner").is_in(looked_at.implode()))
    totals = totals_at(owned, pl.Series(sequences), "owner")
    largest = (
        totals.group_by("owner").agg(pl.col("size_bytes").max()).sort("size_bytes", "owner", descending=[True, False])
    )
    named = [owner for owner in largest["owner"] if owner != OTHER_OWNERS]
    drawn = named if len(named) <= MOST_OWNERS else named[: MOST_OWNERS - 1]
    places = np.searchsorted(moments := np.unique(sequences), sequences)
    found = []
    rest = most.copy()
    for owner, part in totals.filter(pl.col("owner").is_in(drawn)).partition_by("owner", as_dict=True).items():
        at_moments = np.zeros(len(moments), dtype=np.int64)
        at_moments[np.searchsorted(moments, part["sequence"].to_numpy())] = part["size_bytes"].to_numpy()
        values = at_moments[places]
        rest -= values
        found.append((str(owner[0]), values))
    found.sort(key=lambda one: (-int(one[1].max()), one[0]))
    return (*found, (OTHER_OWNERS, rest)) if rest.any() else tuple(found)

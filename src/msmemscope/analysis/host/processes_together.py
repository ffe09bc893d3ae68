"""The host memory of several processes of a job together: pages that they share count once.

The kernel says of each page how many processes share it. The proportional memory of a process is the sum of its parts
of pages. If n processes share a page, each has an nth of it. So these sums add up over processes (Linux,
`Documentation/filesystems/proc.rst`, Pss). Figures are taken now and then. Between two of them the earlier one holds,
and behind its last figure a process has nothing.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msmemscope.analysis.host.host_ledger import HostLedger


@dataclasses.dataclass(frozen=True)
class HostTogether:
    """The host memory of several processes at the moment at which they have most of it."""

    processes: int
    """That were alive then."""
    peak_bytes: int
    """Of them together, with shared pages counted once."""
    left_out: int
    """Processes that do not say what they share: they are not in these sums."""
    resident_bytes: int
    """The sum of their resident memory then, in which shared pages count once for each process."""


def host_memory_together(ledgers: Sequence[HostLedger]) -> HostTogether | None:
    """Return the memory of several processes together; None if fewer than two say what they share.

    Args:
        ledgers: Of each process.
    """
    courses = [ledger.shares for ledger in ledgers if not ledger.shares.is_empty()]
    if len(courses) <= 1:
        return None
    moments = np.unique(np.concatenate([course["timestamp_ns"].to_numpy() for course in courses]))
    columns = ("proportional_bytes", "resident_bytes")
    sums = {column: np.zeros(len(moments), np.int64) for column in columns}
    alive = np.zeros(len(moments), np.int64)
    for course in courses:
        times = course["timestamp_ns"].to_numpy()
        place = np.searchsorted(times, moments, side="right") - 1
        is_alive = (place >= 0) & (moments <= times[-1])
        alive += is_alive
        for column in columns:
            sums[column] += np.where(is_alive, course[column].to_numpy()[np.maximum(place, 0)], 0)
    peak = int(sums["proportional_bytes"].argmax())
    peak_bytes, resident_bytes = (int(sums[column][peak]) for column in columns)
    return HostTogether(int(alive[peak]), peak_bytes, len(ledgers) - len(courses), resident_bytes)


def shares_of(figures: pl.DataFrame) -> pl.DataFrame:
    """Return the figures that say what a process shares: `timestamp_ns`, `proportional_bytes`, `resident_bytes`.

    Args:
        figures: `analysis.host.host_figures.FIGURE_SCHEMA`.
    """
    resident = pl.col("anonymous") + pl.col("shared") + pl.col("files").fill_null(0)
    found = figures.select("timestamp_ns", "proportional_bytes", resident.alias("resident_bytes")).drop_nulls()
    return found.sort("timestamp_ns", maintain_order=True)

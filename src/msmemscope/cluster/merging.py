"""Summaries put together: in any order, in any grouping, the result is the same.

A part of a job is merged: its rows in one order, its stacks once each, its failures. `MergeTree` merges parts of about
the same size, so that each row is moved a few times and not once per capture.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.cluster.summary import SUMMARY_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_LEFT_OUT: Final = ("stacks", "curve")
"""Of summaries: stacks are a table of their own; curves are in `summaries.parquet`."""
MERGED_SCHEMA: Final = pl.Schema({name: kind for name, kind in SUMMARY_SCHEMA.items() if name not in _LEFT_OUT})
STACK_SCHEMA: Final = pl.Schema({"hash": pl.String(), "frames": pl.String()})
_ORDER: Final = ("rank", "role", "restart_count", "node", "process_id", "start_ns", "source", "fingerprint", "device")
_TOGETHER: Final = 32
"""Parts that are merged at once."""


@dataclasses.dataclass(frozen=True, eq=False)
class JobPart:
    """The known facts of some captures of a job."""

    rows: pl.DataFrame
    """MERGED_SCHEMA, by rank; those without a rank last."""
    stacks: pl.DataFrame
    """STACK_SCHEMA, by hash."""
    failures: tuple[tuple[str, str], ...] = ()
    """Captures that have no summary, and why, ascending."""


def nothing() -> JobPart:
    """Return the facts of no captures."""
    return JobPart(MERGED_SCHEMA.to_frame(), STACK_SCHEMA.to_frame())


def part_of_summaries(summaries: pl.DataFrame, failures: Iterable[tuple[str, str]] = ()) -> JobPart:
    """Return the known facts of some captures.

    Args:
        summaries: `summary.SUMMARY_SCHEMA`.
        failures: Captures without a summary, and why.
    """
    stacks = summaries.select("stacks").explode("stacks", empty_as_null=False).drop_nulls().unnest("stacks")
    return _ordered(summaries.select(MERGED_SCHEMA.names()), stacks.select(STACK_SCHEMA.names()), tuple(failures))


def merge(parts: Sequence[JobPart]) -> JobPart:
    """Put parts together: associative, and their order does not matter.

    Args:
        parts: Any number.
    """
    if not parts:
        return nothing()
    rows, stacks = pl.concat([part.rows for part in parts]), pl.concat([part.stacks for part in parts])
    return _ordered(rows, stacks, tuple(failure for part in parts for failure in part.failures))


def _ordered(rows: pl.DataFrame, stacks: pl.DataFrame, failures: tuple[tuple[str, str], ...]) -> JobPart:
    once = stacks.group_by("hash").agg(pl.col("frames").min()).sort("hash")
    return JobPart(rows.sort(_ORDER, nulls_last=True), once, tuple(sorted(failures)))


class MergeTree:
    """Takes parts in as they come, and merges those of one level when there are enough of them."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._levels: list[list[JobPart]] = []

    def add(self, part: JobPart) -> None:
        """Take a part in."""
        for level in range(len(self._levels) + 1):
            if level == len(self._levels):
                self._levels.append([])
            self._levels[level].append(part)
            if len(self._levels[level]) < _TOGETHER:
                return
            part = merge(self._levels[level])
            self._levels[level] = []

    def result(self) -> JobPart:
        """Return everything together."""
        return functools.reduce(lambda known, level: merge([known, *level]), self._levels, nothing())

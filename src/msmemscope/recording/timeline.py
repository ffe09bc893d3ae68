"""Bytes in use over time, their peaks, and the blocks in use at the peaks.

All running totals of bytes in use are made here.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from msmemscope.recording.once_per_recording import once_per_recording

if TYPE_CHECKING:
    from typing import TypeAlias

    from msmemscope.recording.recording import Recording

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

_POOL = ["device", "pool"]


@dataclasses.dataclass(frozen=True)
class MemoryUse:
    """The running total of some blocks: the bytes in use before the first of its changes, and after each."""

    moments: Numbers
    """Of each change, ascending: sequence numbers, or rows of events."""
    changes: Bytes
    in_use: Bytes
    """One more than there are changes."""

    @classmethod
    def of_changes(cls, moments: Numbers, changes: Bytes) -> MemoryUse:
        """Sum up changes, which stand in the order of their moments."""
        in_use = np.zeros(len(changes) + 1, dtype=np.int64)
        np.cumsum(changes, out=in_use[1:])
        return cls(moments, changes, in_use)

    @classmethod
    def of(cls, blocks: pl.DataFrame) -> MemoryUse:
        """Sum up blocks, as `byte_changes` takes them."""
        changes = byte_changes(blocks)
        return cls.of_changes(changes["sequence"].to_numpy(), changes["change"].to_numpy())

    @property
    def peak_bytes(self) -> int:
        """The most that was ever in use."""
        return int(self.in_use.max())

    @property
    def peak_moment(self) -> int:
        """The change that first reached the peak; 0 without any change."""
        return int(self.moments[self.in_use[1:].argmax()]) if len(self.moments) else 0

    def after(self, moments: Numbers) -> Bytes:
        """Return the bytes in use right after moments."""
        in_use: Bytes = self.in_use[np.searchsorted(self.moments, moments, side="right")]
        return in_use

    def extremes(self, begins: Numbers, ends: Numbers) -> tuple[Bytes, Bytes]:
        """Return the least and the most in use in stretches, each from right before its begin to right after its end.

        Args:
            begins: The first moment of each stretch.
            ends: The last one. Of a stretch without a change, the bytes in use at its begin are both.
        """
        first = np.searchsorted(self.moments, begins, side="left")
        last = np.maximum(np.searchsorted(self.moments, ends, side="right"), first)
        # Every second part lies between two stretches. One more value, so that a stretch may end behind the last.
        cuts = np.column_stack([first, last + 1]).ravel()
        values = np.append(self.in_use, self.in_use[-1])
        return np.minimum.reduceat(values, cuts)[::2], np.maximum.reduceat(values, cuts)[::2]


@dataclasses.dataclass(frozen=True)
class MemoryCurve:
    """The most that was in use in each of some equally long stretches of time: no peak is lost, however short it was."""

    begin_ns: int
    """CLOCK_REALTIME of the first change."""
    end_ns: int
    """Of the last one."""
    most_bytes: tuple[int, ...]
    least_bytes: tuple[int, ...] = ()
    """The least that was in use in each."""


def memory_curve(blocks: pl.DataFrame, points: int) -> MemoryCurve | None:
    """Return the most and the least that some blocks had in use over time; None without any length of time.

    Args:
        blocks: A table of `BLOCK_SCHEMA`.
        points: How many stretches of time.
    """
    if blocks.is_empty():
        return None
    changes = byte_changes(blocks, moment_ns=("allocated_ns", "freed_ns")).drop("sequence")
    # Clocks of threads can be read in another order than the numbers of their events are drawn.
    moments = np.maximum.accumulate(changes["moment_ns"].to_numpy())
    if moments[0] == moments[-1]:
        return None
    begin, end = int(moments[0]), int(moments[-1])
    edges = begin + np.arange(points + 1) * ((end - begin) / points)
    begins, ends = edges[:-1].astype(np.uint64), edges[1:].astype(np.uint64)
    ends[-1] = end
    least, most = MemoryUse.of_changes(moments, changes["change"].to_numpy()).extremes(begins, ends)
    return MemoryCurve(begin, end, tuple(most.tolist()), tuple(least.tolist()))


def byte_changes(blocks: pl.DataFrame, *columns: str, **either: tuple[str, str]) -> pl.DataFrame:
    """Return every change of the bytes in use.

    Args:
        blocks: `malloc_sequence`, `free_sequence`, `size`.
        columns: Further ones to keep.
        either: Further ones that are taken from one column where a block begins and from another where it ends.

    Returns:
        `sequence` (u64) and `change` (i64), and those columns, in sequence order.
    """
    at_begins, at_ends = ({name: pair[place] for name, pair in either.items()} for place in (0, 1))
    size = pl.col("size")
    begins = blocks.select(*columns, sequence="malloc_sequence", change=size, **at_begins)
    # Filtered as a query, which leaves the other columns alone.
    ends = (
        blocks.lazy()
        .filter(pl.col("free_sequence").is_not_null())
        .select(*columns, sequence="free_sequence", change=-size, **at_ends)
        .collect()
    )
    changes = pl.concat([begins, ends]).sort("sequence", maintain_order=True)
    return changes.select("sequence", "change", *columns, *either)


def running_total(change: pl.Expr, *pools: str) -> pl.Expr:
    """Return the bytes in use after each of many changes of several pools.

    Args:
        change: Bytes, in sequence order.
        pools: Columns that tell the pools apart.
    """
    return change.cum_sum().over(pools)


def memory_timeline(recording: Recording) -> pl.DataFrame:
    """Return the bytes that each pool had in use and in reserve after each of its changes.

    Returns:
        `sequence`, `device`, `pool`, `in_use_bytes`, `requested_bytes`, `waiting_bytes`, `reserved_bytes`, see
        `Recording.timeline`.
    """
    blocks, events = recording.blocks, recording.events
    types = pl.Schema({"sequence": pl.UInt64(), **{name: blocks.schema[name] for name in _POOL}})
    parts = [byte_changes(blocks, *_POOL, "requested_bytes").rename({"change": "in_use_bytes"})]
    parts[0] = parts[0].with_columns(
        requested_bytes=pl.col("requested_bytes") * pl.col("in_use_bytes").sign()  # begins, and ends
    )
    waiting = blocks.filter(
        pl.col("free_sequence").is_not_null() & pl.col("returned_sequence").ne_missing(pl.col("free_sequence"))
    )
    stretches = waiting.select(*_POOL, "size", malloc_sequence="free_sequence", free_sequence="returned_sequence")
    parts.append(byte_changes(stretches, *_POOL).rename({"change": "waiting_bytes"}))
    reports = (pl.col("kind") == EventKind.RESERVED) & (pl.col("size") >= 0)
    parts.append(events.filter(reports).select("sequence", *_POOL, reserved_bytes="size"))
    columns = ("in_use_bytes", "requested_bytes", "waiting_bytes", "reserved_bytes")
    absent = pl.DataFrame(schema={**types, **dict.fromkeys(columns, pl.Int64())})
    changes = pl.concat([absent, *parts], how="diagonal").sort("sequence", maintain_order=True)
    is_known = {name: pl.col(name).is_not_null().any().over(_POOL) for name in columns[1:3]}
    return (
        changes.with_columns(
            in_use_bytes=running_total(pl.col("in_use_bytes").fill_null(0), *_POOL),
            **{
                name: pl.when(known).then(running_total(pl.col(name).fill_null(0), *_POOL))
                for name, known in is_known.items()
            },
            reserved_bytes=pl.col("reserved_bytes").forward_fill().over(_POOL),
        )
        .unique(["sequence", *_POOL], keep="last", maintain_order=True)
        .select("sequence", *_POOL, *columns)
    )


def totals_at(blocks: pl.DataFrame, moments: pl.Series, *key: str) -> pl.DataFrame:
    """Sum up the blocks of many groups that are in use at moments.

    Args:
        blocks: `malloc_sequence`, `free_sequence`, `size`.
        moments: Sequence numbers, in any order: a block counts from its MALLOC on, and no more from its FREE on.
        key: Columns of `blocks` that tell the groups apart.

    Returns:
        `sequence`, the key, `size_bytes`, `block_count`; only groups that have a block then.
    """
    instants = moments.cast(pl.UInt64).unique().sort()
    count = len(instants)
    lives = blocks.select(
        *key,
        "size",
        begin=instants.search_sorted(blocks["malloc_sequence"], side="left"),
        end=instants.search_sorted(blocks["free_sequence"].fill_null(pl.UInt64.max()), side="left"),
    ).filter(pl.col("begin") < pl.col("end"))
    begins = lives.select(*key, moment="begin", size_bytes="size", block_count=pl.lit(1, dtype=pl.Int64))
    ends = lives.select(*key, moment="end", size_bytes=-pl.col("size"), block_count=pl.lit(-1, dtype=pl.Int64))
    changes = (
        pl.concat([begins, ends])
        .filter(pl.col("moment") < count)
        .group_by(*key, "moment")
        .agg(pl.col("size_bytes", "block_count").sum())
        .sort(*key, "moment")
    )
    # The total of a group from one change to the next, at each of the moments in between.
    return (
        changes.with_columns(
            running_total(pl.col("size_bytes", "block_count"), *key),
            until=pl.col("moment").shift(-1).over(key).fill_null(count),
        )
        .filter(pl.col("block_count") > 0)
        .with_columns(moment=pl.int_ranges("moment", "until"))
        .explode("moment", empty_as_null=False)
        .with_columns(sequence=pl.lit(instants).gather(pl.col("moment")))
        .select("sequence", *key, "size_bytes", "block_count")
    )


def peak_moments(blocks: pl.DataFrame) -> pl.DataFrame:
    """Find when each pool was fullest.

    Args:
        blocks: A table of `BLOCK_SCHEMA`.

    Returns:
        One row per device and pool that has blocks, ordered by them. The columns are `device`, `pool`, `peak_bytes`
        (i64) and `sequence` (u64: the first event with that much in use).
    """
    lives = blocks.select(*_POOL, "malloc_sequence", "free_sequence", "size").partition_by(_POOL, as_dict=True)
    uses = {pool: MemoryUse.of(part) for pool, part in lives.items()}
    rows = [(*pool, use.peak_bytes, use.peak_moment) for pool, use in sorted(uses.items(), key=lambda one: one[0])]
    kinds = {**blocks.select(_POOL).schema, "peak_bytes": pl.Int64(), "sequence": pl.UInt64()}
    return pl.DataFrame(rows, kinds, orient="row")


@once_per_recording
def peaks_of_pools(recording: Recording) -> pl.DataFrame:
    """Find when each pool of a process was fullest, as `peak_moments` does."""
    return peak_moments(recording.blocks)


def blocks_held(blocks: pl.DataFrame, sequence: int) -> pl.DataFrame:
    """Return the blocks whose memory cannot be handed out right after an event: in use, or waiting for other streams."""
    has_not_returned = pl.col("returned_sequence").is_null() | (pl.col("returned_sequence") > sequence)
    return blocks.filter((pl.col("malloc_sequence") <= sequence) & has_not_returned)


def blocks_in_use(blocks: pl.DataFrame, sequence: int) -> pl.DataFrame:
    """Return the blocks that are in use right after an event."""
    has_not_ended = pl.col("free_sequence").is_null() | (pl.col("free_sequence") > sequence)
    return blocks.filter((pl.col("malloc_sequence") <= sequence) & has_not_ended)


def framework_blocks(blocks: pl.DataFrame) -> pl.DataFrame:
    """Return the blocks of frameworks; where there are none, those of the driver, which the others lie in."""
    of_frameworks = blocks.filter(pl.col("pool") != Pool.HAL)
    return blocks if of_frameworks.is_empty() else of_frameworks

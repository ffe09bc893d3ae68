"""How much was in use when, where that was the most, what was in use then, and what was never freed.

All running totals of bytes in use are made here. Sums are exact: what is not listed by name is in `other`, and listed and
other together are the total.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from msmemscope.model.pools import Pool

if TYPE_CHECKING:
    from typing import TypeAlias

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

_POOL = ["device", "pool"]

OUTSIDE_OPERATORS = "(outside operators)"
"""Label of blocks that no operator allocated."""

UNKNOWN_MODULE = "(unknown module)"
"""Label of blocks of the driver that name no module."""

NO_PYTHON_STACK = "(no Python stack)"
"""Label of blocks allocated where no Python stack was taken, such as autograd's threads."""


@dataclasses.dataclass(frozen=True)
class Share:
    """The part of a set of blocks that has one label."""

    label: str
    size_bytes: int
    block_count: int


@dataclasses.dataclass(frozen=True)
class Ranking:
    """A set of blocks by label: the largest by name, the rest as one."""

    shares: tuple[Share, ...]
    """Descending by size, then by label."""
    other: Share | None
    """Everything that is not in `shares`; None if that is nothing."""


@dataclasses.dataclass(frozen=True)
class BlockSet:
    """What a set of blocks of one pool is made of."""

    size_bytes: int
    block_count: int
    by_operator: Ranking
    by_source_line: Ranking
    by_module: Ranking | None = None
    """Memory of the driver: by the module of CANN that asked for it; None for other pools."""


@dataclasses.dataclass(frozen=True)
class PoolPeak:
    """The highest use of one memory pool of one device."""

    device: int
    pool: int
    peak_bytes: int
    sequence: int
    """The event that first reached it."""
    timestamp_ns: int
    """CLOCK_REALTIME of that event."""
    in_use: BlockSet
    """The blocks that were in use right after that event."""


@dataclasses.dataclass(frozen=True)
class NeverFreed:
    """The blocks of one memory pool of one device that have no FREE."""

    device: int
    pool: int
    blocks: BlockSet


@dataclasses.dataclass(frozen=True)
class MemoryUse:
    """The running total of some blocks: what is in use before the first of its changes, and after each."""

    moments: Numbers
    """Of each change, ascending: sequence numbers, or rows of events."""
    changes: Bytes
    in_use: Bytes
    """One more than there are changes."""

    @classmethod
    def of_changes(cls, moments: Numbers, changes: Bytes) -> MemoryUse:
        """Sum up changes, which stand in the order of their moments."""
        return cls(moments, changes, np.concatenate([[0], np.cumsum(changes)]))

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
        """Return what is in use right after moments."""
        in_use: Bytes = self.in_use[np.searchsorted(self.moments, moments, side="right")]
        return in_use

    def extremes(self, begins: Numbers, ends: Numbers) -> tuple[Bytes, Bytes]:
        """Return the least and the most in use in stretches, each from right before its begin to right after its end.

        Args:
            begins: The first moment of each stretch.
            ends: The last one; of a stretch without a change, what is in use at its begin is both.
        """
        first = np.searchsorted(self.moments, begins, side="left")
        last = np.maximum(np.searchsorted(self.moments, ends, side="right"), first)
        # Every second part is what lies between two stretches. One more value, so that a stretch may end behind the last.
        cuts = np.column_stack([first, last + 1]).ravel()
        values = np.append(self.in_use, self.in_use[-1])
        return np.minimum.reduceat(values, cuts)[::2], np.maximum.reduceat(values, cuts)[::2]


def byte_changes(blocks: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Return every change of the bytes in use.

    Args:
        blocks: `malloc_sequence`, `free_sequence`, `size`.
        columns: Further ones to keep.

    Returns:
        `sequence` (u64) and `change` (i64), and those columns, in sequence order.
    """
    begins = blocks.select(pl.col("malloc_sequence").alias("sequence"), pl.col("size").alias("change"), *columns)
    ends = blocks.filter(pl.col("free_sequence").is_not_null()).select(
        pl.col("free_sequence").alias("sequence"), (-pl.col("size")).alias("change"), *columns
    )
    return pl.concat([begins, ends]).sort("sequence", maintain_order=True)


def running_total(change: pl.Expr, *pools: str) -> pl.Expr:
    """Return what is in use after each of many changes of several pools.

    Args:
        change: Bytes, in sequence order.
        pools: Columns that tell the pools apart.
    """
    return change.cum_sum().over(pools)


def bytes_in_use(blocks: pl.DataFrame) -> pl.DataFrame:
    """Return how much each pool had in use after each of its changes: `byte_changes`, and `in_use_bytes` (i64)."""
    return byte_changes(blocks, *_POOL).with_columns(in_use_bytes=running_total(pl.col("change"), *_POOL))


def peak_moments(blocks: pl.DataFrame) -> pl.DataFrame:
    """Find when each pool was fullest.

    Args:
        blocks: A table of `BLOCK_SCHEMA`.

    Returns:
        One row per device and pool that has blocks, ordered by them: `device`, `pool`,
        `peak_bytes` (i64), `sequence` (u64: the first event with that much in use).
    """
    lives = blocks.select(*_POOL, "malloc_sequence", "free_sequence", "size").partition_by(_POOL, as_dict=True)
    uses = {pool: MemoryUse.of(part) for pool, part in lives.items()}
    rows = [(*pool, use.peak_bytes, use.peak_moment) for pool, use in sorted(uses.items(), key=lambda one: one[0])]
    kinds = {**blocks.select(_POOL).schema, "peak_bytes": pl.Int64(), "sequence": pl.UInt64()}
    return pl.DataFrame(rows, kinds, orient="row")


def blocks_in_use(blocks: pl.DataFrame, sequence: int) -> pl.DataFrame:
    """Return the blocks that are in use right after an event."""
    has_not_ended = pl.col("free_sequence").is_null() | (pl.col("free_sequence") > sequence)
    return blocks.filter((pl.col("malloc_sequence") <= sequence) & has_not_ended)


def framework_blocks(blocks: pl.DataFrame) -> pl.DataFrame:
    """Return the blocks of frameworks; where there are none, those of the driver, which the others lie in."""
    of_frameworks = blocks.filter(pl.col("pool") != Pool.HAL)
    return blocks if of_frameworks.is_empty() else of_frameworks


def blocks_at_peaks(blocks: pl.DataFrame, moments: pl.DataFrame) -> list[pl.DataFrame]:
    """Return the blocks of each pool that are in use at its moment, in the order of `peak_moments`."""
    return [
        blocks_in_use(blocks.filter(pl.col("device") == device, pl.col("pool") == pool), sequence)
        for device, pool, sequence in moments.select(*_POOL, "sequence").iter_rows()
    ]


def never_freed_blocks(blocks: pl.DataFrame) -> pl.DataFrame:
    """Returns the blocks that have no FREE."""
    return blocks.filter(pl.col("free_sequence").is_null())


def find_peaks(
    blocks: pl.DataFrame,
    moments: pl.DataFrame,
    source_lines: pl.DataFrame,
    limit: int,
    modules: pl.DataFrame | None = None,
) -> tuple[PoolPeak, ...]:
    """Describe the peak of each pool.

    Args:
        blocks: A table of `BLOCK_SCHEMA`.
        moments: What `peak_moments` found.
        source_lines: Python stack id to the line to blame: `id` (u32), `text`; for the blocks concerned.
        limit: How many shares to list by name.
        modules: Attribute id of a block to its module of CANN: `id` (u32), `text`; None if no block has one.

    Returns:
        One peak per device and pool, in their order; pools that never held a byte are left out.
    """
    reached = moments.filter(pl.col("peak_bytes") > 0)
    at_peaks = zip(reached.iter_rows(), blocks_at_peaks(blocks, reached), strict=True)
    # A peak is reached by an allocation, so the newest block in use is that one.
    return tuple(
        PoolPeak(
            device,
            pool,
            peak_bytes,
            sequence,
            in_use["allocated_ns"][-1],
            describe_blocks(in_use, source_lines, limit, modules),
        )
        for (device, pool, peak_bytes, sequence), in_use in at_peaks
    )


def find_never_freed(
    blocks: pl.DataFrame, source_lines: pl.DataFrame, limit: int, modules: pl.DataFrame | None = None
) -> tuple[NeverFreed, ...]:
    """Describe the blocks of each pool that have no FREE; arguments as for `find_peaks`."""
    rest = never_freed_blocks(blocks)
    return tuple(
        NeverFreed(device, pool, describe_blocks(part, source_lines, limit, modules))
        for (device, pool), part in sorted(rest.partition_by(_POOL, as_dict=True).items())
    )


def describe_blocks(
    blocks: pl.DataFrame, source_lines: pl.DataFrame, limit: int, modules: pl.DataFrame | None = None
) -> BlockSet:
    """Sum up a set of blocks by operator, by source line and by module; arguments as for `find_peaks`."""
    operators = _sums(blocks, "name").with_columns(pl.col("name").fill_null(OUTSIDE_OPERATORS).alias("label"))
    lines = (
        _sums(blocks, "python_stack_id")
        .join(source_lines, left_on="python_stack_id", right_on="id", how="left")
        .with_columns(pl.col("text").fill_null(NO_PYTHON_STACK).alias("label"))
    )
    return BlockSet(
        size_bytes=int(blocks.get_column("size").sum()),
        block_count=blocks.height,
        by_operator=_rank(operators, limit),
        by_source_line=_rank(lines, limit),
        by_module=_by_module(blocks, modules, limit),
    )


def _by_module(blocks: pl.DataFrame, modules: pl.DataFrame | None, limit: int) -> Ranking | None:
    if modules is None or not blocks.get_column("attribute_id").is_in(modules.get_column("id").implode()).any():
        return None
    sums = _sums(blocks, "attribute_id").join(modules, left_on="attribute_id", right_on="id", how="left")
    return _rank(sums.with_columns(pl.col("text").fill_null(UNKNOWN_MODULE).alias("label")), limit)


def _sums(blocks: pl.DataFrame, key: str) -> pl.DataFrame:
    return blocks.group_by(key).agg(
        pl.col("size").sum().alias("size_bytes"), pl.len().cast(pl.Int64).alias("block_count")
    )


def _rank(sums: pl.DataFrame, limit: int) -> Ranking:
    totals = (
        sums.group_by("label")
        .agg(pl.col("size_bytes").sum(), pl.col("block_count").sum())
        .sort(["size_bytes", "label"], descending=[True, False])
    )
    # One more line by name takes no more room than saying "1 other".
    listed = totals if totals.height <= limit + 1 else totals.head(limit)
    rest = totals.slice(listed.height)
    shares = tuple(Share(*row) for row in listed.select("label", "size_bytes", "block_count").iter_rows())
    if rest.height == 0:
        return Ranking(shares, None)
    other = Share(f"({rest.height} others)", int(rest["size_bytes"].sum()), int(rest["block_count"].sum()))
    return Ranking(shares, other)

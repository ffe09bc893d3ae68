"""Where memory was at its highest, what was in use then, and what was never freed.

Everything is per memory pool of a device. Sums are exact: what is not listed by name is
in `other`, and listed and other together are the total.
"""

from __future__ import annotations

import dataclasses

import polars as pl

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


def byte_changes(blocks: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Return every change of the bytes in use: the one source of running totals.

    Args:
        blocks: Begins (`malloc_sequence`, or `allocation_id` in a table of `BLOCK_SCHEMA`), `free_sequence`, `size`.
        columns: Further ones to keep.

    Returns:
        `sequence` (u64) and `change` (i64), and those columns, in sequence order.
    """
    begin = "malloc_sequence" if "malloc_sequence" in blocks.columns else "allocation_id"
    begins = blocks.select(pl.col(begin).alias("sequence"), pl.col("size").alias("change"), *columns)
    ends = blocks.filter(pl.col("free_sequence").is_not_null()).select(
        pl.col("free_sequence").alias("sequence"), (-pl.col("size")).alias("change"), *columns
    )
    return pl.concat([begins, ends]).sort("sequence", maintain_order=True)


def bytes_in_use(blocks: pl.DataFrame) -> pl.DataFrame:
    """Return how much each pool had in use after each of its changes: `byte_changes`, and `in_use_bytes` (i64)."""
    return byte_changes(blocks, *_POOL).with_columns(in_use_bytes=pl.col("change").cum_sum().over(_POOL))


def peak_moments(blocks: pl.DataFrame) -> pl.DataFrame:
    """Find when each pool was fullest.

    Args:
        blocks: A table of `BLOCK_SCHEMA`.

    Returns:
        One row per device and pool that has blocks, ordered by them: `device`, `pool`,
        `peak_bytes` (i64), `sequence` (u64: the first event with that much in use).
    """
    is_highest = pl.col("in_use_bytes") == pl.col("in_use_bytes").max()
    return (
        bytes_in_use(blocks)
        .group_by(_POOL)
        .agg(pl.col("in_use_bytes").max().alias("peak_bytes"), pl.col("sequence").filter(is_highest).min())
        .sort(_POOL)
    )


def blocks_in_use(blocks: pl.DataFrame, device: int, pool: int, sequence: int) -> pl.DataFrame:
    """Returns the blocks of one pool that are in use right after an event."""
    return blocks.filter(
        (pl.col("device") == device)
        & (pl.col("pool") == pool)
        & (pl.col("allocation_id") <= sequence)
        & (pl.col("free_sequence").is_null() | (pl.col("free_sequence") > sequence))
    )


def blocks_at_peaks(blocks: pl.DataFrame, moments: pl.DataFrame) -> pl.DataFrame:
    """Returns the blocks in use at the moments of `peak_moments`, all pools together."""
    parts = [
        blocks_in_use(blocks, row["device"], row["pool"], row["sequence"]) for row in moments.iter_rows(named=True)
    ]
    return pl.concat(parts) if parts else blocks.clear()


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
    peaks = []
    for row in moments.filter(pl.col("peak_bytes") > 0).iter_rows(named=True):
        device, pool, sequence = row["device"], row["pool"], row["sequence"]
        in_use = blocks_in_use(blocks, device, pool, sequence)
        # The peak is reached by an allocation, so the newest block in use is that one.
        timestamp_ns = in_use.get_column("allocated_ns")[-1]
        described = describe_blocks(in_use, source_lines, limit, modules)
        peaks.append(PoolPeak(device, pool, row["peak_bytes"], sequence, timestamp_ns, described))
    return tuple(peaks)


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

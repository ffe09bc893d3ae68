"""The call sites of a process, ranked by their weight, each pool by itself."""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.analysis.coverage import Coverage, Subject, coverage_of
from msmemscope.analysis.recorded import Need
from msmemscope.analysis.weights.measures import POOL_KEY, byte_seconds, leaked_blocks, measured_blocks
from msmemscope.recording.call_sites import STACK_COLUMNS, call_sites

if TYPE_CHECKING:
    from msmemscope.recording import Recording

SUBJECT: Final = Subject("Call sites", needed=(Need.ALLOCATIONS,), helpful=(Need.FREES, Need.STACKS))


class RankedBy(str, Enum):
    """The measures that rank call sites; the value is the name on the command line."""

    PEAK = "peak"
    """Bytes in use at the peak of the pool."""
    LEAKED = "leaked"
    """Bytes that leaked, see `leaked_blocks`."""
    ALLOCATED = "allocated"
    """Bytes of all blocks."""
    CHURN = "churn"
    """Bytes that were allocated and freed again."""
    BLOCKS = "blocks"
    """Number of all blocks."""
    BYTE_SECONDS = "byte-seconds"
    """Bytes times the seconds for which they were in use."""


RANKED_SITE_SCHEMA: Final = pl.Schema(
    {
        "device": pl.Int16(),
        "pool": pl.UInt8(),
        "site": pl.String(),
        "site_path": pl.String(),
        "operator": pl.String(),
        "operator_count": pl.Int64(),
        "weight": pl.Int64(),
        "share": pl.Float64(),
        "size_bytes": pl.Int64(),
        "block_count": pl.Int64(),
        "largest_bytes": pl.Int64(),
    }
)
"""One row per pool and call site that has a block of those that are ranked, those of a pool by descending weight.

site, site_path: the line to show, and the path through the program, as `recording.call_sites` has them.
operator: of those that allocated there, the one with the most weight; null if none did.
operator_count: how many different ones did.
weight: in the unit of the ranking: bytes, blocks or whole byte-seconds.
share: of the weight of the pool, 0 to 1.
size_bytes, block_count, largest_bytes: of the blocks that count: those in use at the peak, that leaked, that were freed again, or all.
"""

POOL_TOTAL_SCHEMA: Final = pl.Schema(
    {
        "device": pl.Int16(),
        "pool": pl.UInt8(),
        "weight": pl.Int64(),
        "size_bytes": pl.Int64(),
        "block_count": pl.Int64(),
        "site_count": pl.Int64(),
    }
)
"""One row per pool: the sums over its call sites, and how many these are."""


@dataclasses.dataclass(frozen=True)
class RankedSites:
    """The call sites of a process and their weights."""

    ranked_by: RankedBy
    pools: pl.DataFrame
    """POOL_TOTAL_SCHEMA, in the order of devices and pools; one without a block of those that are ranked has zeros."""
    sites: pl.DataFrame
    """RANKED_SITE_SCHEMA, in the order of pools."""
    coverage: Coverage


def rank_sites(recording: Recording, ranked_by: RankedBy = RankedBy.PEAK) -> RankedSites:
    """Rank the call sites of each pool.

    Args:
        recording: Any.
        ranked_by: The measure.
    """
    by_operator = site_weights(recording, ranked_by)
    sums = pl.col("weight", "size_bytes", "block_count").sum()
    by_site = (
        by_operator.group_by(*POOL_KEY, "site_path", maintain_order=True)
        .agg(
            sums,
            pl.col("largest_bytes").max(),
            pl.col("site", "operator").first(),
            operator_count=pl.col("operator").drop_nulls().len().cast(pl.Int64),
        )
        .with_columns(whole_weight(ranked_by))
    )
    totals = by_site.group_by(POOL_KEY).agg(sums, site_count=pl.len().cast(pl.Int64))
    pools = (
        recording.blocks.select(POOL_KEY)
        .unique()
        .join(totals, on=POOL_KEY, how="left")
        .with_columns(pl.exclude(POOL_KEY).fill_null(0))
        .sort(POOL_KEY)
    )
    whole = pl.col("weight").sum().over(POOL_KEY)
    sites = by_site.with_columns(share=pl.when(whole > 0).then(pl.col("weight") / whole).otherwise(0.0)).sort(
        *POOL_KEY, "weight", "size_bytes", "site_path", descending=[False, False, True, True, False]
    )
    return RankedSites(
        ranked_by,
        pools.select(POOL_TOTAL_SCHEMA.names()).cast(POOL_TOTAL_SCHEMA),
        sites.select(RANKED_SITE_SCHEMA.names()).cast(RANKED_SITE_SCHEMA),
        coverage_of(SUBJECT, recording),
    )


def site_weights(recording: Recording, ranked_by: RankedBy) -> pl.DataFrame:
    """Sum up the blocks that count by call site and operator.

    Args:
        recording: Any.
        ranked_by: Which blocks count, and their weight.

    Returns:
        One row per pool, call site and operator: `device`, `pool`, `site_path`, `site`, `operator`, `weight` (bytes,
        blocks or byte-nanoseconds), `size_bytes`, `block_count`, `largest_bytes`; by descending weight.
    """
    counted = _counted(recording, ranked_by)
    # Stacks are few where blocks are many: all that needs texts is done on stacks.
    by_stack = counted.group_by(*POOL_KEY, *STACK_COLUMNS).agg(
        weight=_weight(ranked_by),
        size_bytes=pl.col("size").sum(),
        block_count=pl.len().cast(pl.Int64),
        largest_bytes=pl.col("size").max(),
    )
    names = recording.strings.select(name_id="id", operator="text")
    return (
        by_stack.join(call_sites(recording, by_stack), on=list(STACK_COLUMNS), how="left")
        .join(names, on="name_id", how="left")
        .group_by(*POOL_KEY, "site_path", "operator")
        .agg(pl.col("weight", "size_bytes", "block_count").sum(), pl.col("largest_bytes").max(), pl.col("site").first())
        .sort("weight", "site_path", "operator", descending=[True, False, False], nulls_last=True)
    )


def _counted(recording: Recording, ranked_by: RankedBy) -> pl.DataFrame:
    """The blocks that count."""
    measured = measured_blocks(recording, recording.blocks)
    if ranked_by is RankedBy.PEAK:
        return measured.filter("is_at_peak")
    if ranked_by is RankedBy.LEAKED:
        return measured.filter(leaked_blocks(recording))
    if ranked_by is RankedBy.CHURN:
        return measured.filter(pl.col("free_sequence").is_not_null())
    return measured


def _weight(ranked_by: RankedBy) -> pl.Expr:
    if ranked_by is RankedBy.BLOCKS:
        return pl.len().cast(pl.Int64)
    return pl.col("byte_ns" if ranked_by is RankedBy.BYTE_SECONDS else "size").sum()


def whole_weight(ranked_by: RankedBy) -> pl.Expr:
    """Return the column `weight` of `site_weights` as whole numbers: byte-nanoseconds as byte-seconds."""
    weight = pl.col("weight")
    return byte_seconds(weight) if ranked_by is RankedBy.BYTE_SECONDS else weight.cast(pl.Int64)

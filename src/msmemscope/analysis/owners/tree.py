"""Sums of blocks over the tree of owners, at any moments."""

from __future__ import annotations

from typing import Final

import polars as pl

from msmemscope.model.owners import SEPARATOR

NODE_SCHEMA: Final = pl.Schema(
    {
        "node": pl.String(),
        "depth": pl.Int32(),
        "size_bytes": pl.Int64(),
        "own_bytes": pl.Int64(),
        "block_count": pl.Int64(),
    }
)
"""One row per node of the tree of owners that holds blocks.

node: its path, `PTA@model`.
depth: 0 for a node that is no part of another one.
size_bytes, block_count: of all blocks of the node.
own_bytes: of those whose owner goes no further.
"""

DEEPEST_NODE: Final = 15
"""Depth of the deepest nodes: an owner with more parts than any recorder writes counts for the node of its first ones."""

_POOL_KEY: Final = ["device", "pool"]


def node_totals(blocks: pl.DataFrame, moments: pl.Series) -> pl.DataFrame:
    """Sums up the blocks alive at moments, for each node of the tree of owners.

    Args:
        blocks: BLOCK_SCHEMA and `owner`, which has no nulls.
        moments: Sequence numbers, in any order: a block counts from its MALLOC on, and no more from its FREE on.

    Returns:
        `sequence`, `device`, `pool` and NODE_SCHEMA, ordered by them; only nodes that hold a block.
    """
    leaves = owner_totals(blocks, moments)
    # An owner belongs to the node of each of its beginnings.
    beginnings = leaves.select(pl.col("owner").unique()).with_columns(
        parts=pl.col("owner").str.split(SEPARATOR),
        deepest=pl.col("owner").str.count_matches(SEPARATOR, literal=True).clip(upper_bound=DEEPEST_NODE),
    )
    nodes = beginnings.with_columns(depth=pl.int_ranges(0, pl.col("deepest") + 1)).explode("depth")
    nodes = nodes.select(
        "owner",
        pl.col("depth").cast(pl.Int32),
        node=pl.col("parts").list.head(pl.col("depth") + 1).list.join(SEPARATOR),
        is_own=pl.col("depth") == pl.col("deepest"),
    )
    return (
        leaves.join(nodes, on="owner")
        .group_by("sequence", *_POOL_KEY, "node", "depth")
        .agg(
            pl.col("size_bytes").sum(),
            pl.col("size_bytes").filter(pl.col("is_own")).sum().alias("own_bytes"),
            pl.col("block_count").sum(),
        )
        .sort("sequence", *_POOL_KEY, "node")
    )


def owner_totals(blocks: pl.DataFrame, moments: pl.Series) -> pl.DataFrame:
    """Returns `sequence`, `device`, `pool`, `owner`, `size_bytes`, `block_count` of the blocks alive at moments."""
    instants = moments.cast(pl.UInt64).unique().sort()
    count = len(instants)
    lives = blocks.select(
        *_POOL_KEY,
        "owner",
        "size",
        begin=instants.search_sorted(blocks["malloc_sequence"], side="left"),
        end=instants.search_sorted(blocks["free_sequence"].fill_null(pl.UInt64.max()), side="left"),
    ).filter(pl.col("begin") < pl.col("end"))
    key = [*_POOL_KEY, "owner"]
    begins = lives.select(*key, moment="begin", size_bytes="size", block_count=pl.lit(1, dtype=pl.Int64))
    ends = lives.select(*key, moment="end", size_bytes=-pl.col("size"), block_count=pl.lit(-1, dtype=pl.Int64))
    changes = (
        pl.concat([begins, ends])
        .filter(pl.col("moment") < count)
        .group_by(*key, "moment")
        .agg(pl.col("size_bytes", "block_count").sum())
        .sort(*key, "moment")
    )
    # What holds from one change of an owner's total to the next, at each of the moments in between.
    return (
        changes.with_columns(
            pl.col("size_bytes", "block_count").cum_sum().over(key),
            until=pl.col("moment").shift(-1).over(key).fill_null(count),
        )
        .filter(pl.col("block_count") > 0)
        .with_columns(moment=pl.int_ranges("moment", "until"))
        .explode("moment")
        .with_columns(sequence=pl.lit(instants).gather(pl.col("moment")))
        .select("sequence", *key, "size_bytes", "block_count")
    )

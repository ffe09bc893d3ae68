"""Sums of blocks over the tree of owners, at any moments."""

from __future__ import annotations

from typing import Final

import polars as pl

from msmemscope.model.owners import SEPARATOR
from msmemscope.recording.timeline import totals_at

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
    """Sum up the blocks alive at moments, for each node of the tree of owners.

    Args:
        blocks: BLOCK_SCHEMA and `owner`, which has no nulls.
        moments: Sequence numbers, in any order: a block counts from its MALLOC on, and no more from its FREE on.

    Returns:
        `sequence`, `device`, `pool` and NODE_SCHEMA, ordered by them; only nodes that hold a block.
    """
    leaves = totals_at(blocks, moments, *_POOL_KEY, "owner")
    # An owner belongs to the node of each of its beginnings.
    beginnings = leaves.select(pl.col("owner").unique()).with_columns(
        parts=pl.col("owner").str.split(SEPARATOR),
        deepest=pl.col("owner").str.count_matches(SEPARATOR, literal=True).clip(upper_bound=DEEPEST_NODE),
    )
    nodes = beginnings.with_columns(depth=pl.int_ranges(0, pl.col("deepest") + 1)).explode("depth", empty_as_null=False)
    # Without rows, Polars 1.44 and 2.0 forget the type of the parts.
    beginning = pl.col("parts").list.head(pl.col("depth") + 1).list.join(SEPARATOR)
    nodes = nodes.select(
        "owner",
        pl.col("depth").cast(pl.Int32),
        node=pl.col("owner") if nodes.is_empty() else beginning,
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

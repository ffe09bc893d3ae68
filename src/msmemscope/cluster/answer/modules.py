"""Device memory of modules of the vendor's software, beside the pools of frameworks: mainly buffers of collectives."""

from __future__ import annotations

from typing import Final

import polars as pl

from msmemscope.cluster.answer.ranks import INDEX

MODULE_SCHEMA: Final = pl.Schema(
    {
        "module": pl.String(), "site": pl.String(), "ranks": pl.Int64(), "median_bytes": pl.Int64(), "most_bytes": pl.Int64(),
        "most_row": pl.Int64(),
    }
)  # fmt: skip
"""One row per module and line, the one with the most on a rank first.

site: the line that asked for it; the buffers of a communicator stand at the line that used it first. ranks: how many have some of it;
median_bytes: of them. most_bytes, most_row: of the rank that has the most, the first one of several.
"""


def module_use(judged: pl.DataFrame) -> pl.DataFrame:
    """Return the memory of modules on the ranks of a job.

    Args:
        judged: Rows of `ranks.rank_rows` that stand for ranks.

    Returns:
        MODULE_SCHEMA.
    """
    held = (
        judged.select(INDEX, "modules").explode("modules", empty_as_null=False).drop_nulls("modules").unnest("modules")
    )
    by_rank = (
        held.group_by("module", "site", INDEX).agg(pl.col("bytes").sum()).sort("bytes", INDEX, descending=[True, False])
    )
    return (
        by_rank.group_by("module", "site", maintain_order=True)
        .agg(
            ranks=pl.len(),
            median_bytes=pl.col("bytes").median().round(),
            most_bytes=pl.col("bytes").first(),
            most_row=pl.col(INDEX).first(),
        )
        .sort("most_bytes", "module", "site", descending=[True, False, False])
        .select(MODULE_SCHEMA.names())
        .cast(MODULE_SCHEMA)
    )

"""The findings of single ranks, put together: the same line in eight ranks is one finding, of eight ranks."""

from __future__ import annotations

from typing import Final

import polars as pl

from msmemscope.cluster.answer.ranks import INDEX
from msmemscope.reports.verdict import VerdictKind

FOUND_SCHEMA: Final = pl.Schema(
    {
        "kind": pl.String(), "site": pl.String(), "bytes": pl.Int64(), "blocks": pl.Int64(), "growth_bytes": pl.Int64(),
        "most_bytes": pl.Int64(), "text": pl.String(), "held_by": pl.String(), "ranks": pl.List(pl.UInt32()),
        "worst": pl.UInt32(),
    }
)  # fmt: skip
"""One row per kind and line, the gravest kind first, then by bytes.

bytes, blocks: of all ranks; growth_bytes: the most by which one of them grows in a step. most_bytes: of the worst rank, whose text and
held_by these are. ranks: rows in which it was found.
"""

_GRAVITY: Final = {kind.value: number for number, kind in enumerate(VerdictKind)}


def merge_findings_of_ranks(rows: pl.DataFrame) -> pl.DataFrame:
    """Put the findings of ranks together.

    Args:
        rows: Of `ranks.rank_rows`; findings count, whether a row is judged or not.

    Returns:
        FOUND_SCHEMA.
    """
    findings = (
        rows.select(INDEX, "findings")
        .explode("findings", empty_as_null=False)
        .drop_nulls("findings")
        .unnest("findings")
    )
    worst_first = findings.sort(["bytes", INDEX], descending=[True, False])
    return (
        worst_first.group_by("kind", "site", maintain_order=True)
        .agg(
            pl.col("bytes").sum(),
            pl.col("blocks").sum(),
            pl.col("growth_bytes").max(),
            most_bytes=pl.col("bytes").first(),
            text=pl.col("text").first(),
            held_by=pl.col("held_by").first(),
            ranks=pl.col(INDEX).unique().sort(),
            worst=pl.col(INDEX).first(),
        )
        .sort(
            [pl.col("kind").replace_strict(_GRAVITY, default=len(_GRAVITY), return_dtype=pl.Int64), "bytes", "site"],
            descending=[False, True, False],
        )
        .select(FOUND_SCHEMA.names())
        .cast(FOUND_SCHEMA)
    )

"""Findings of several processes as one list: those of eight ranks at the same line are one finding, of eight ranks."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence


FINDING_SCHEMA: Final = pl.Schema(
    {
        "kind": pl.String(),
        "site": pl.String(),
        "device": pl.Int16(),
        "bytes": pl.Int64(),
        "count": pl.Int64(),
    }
)
"""One row per kind, call site and device of one process.

kind: the fault, in a word or two of its question.
site: the call site, see `call_sites`; null if it is not known.
bytes: that the finding is about, summed up. count: blocks, failures or changes that it is made of.
"""

MERGED_SCHEMA: Final = pl.Schema(
    {
        "kind": pl.String(),
        "site": pl.String(),
        "bytes": pl.Int64(),
        "count": pl.Int64(),
        "processes": pl.List(pl.Int64()),
        "ranks": pl.List(pl.Int64()),
        "devices": pl.List(pl.Int16()),
    }
)
"""One row per kind and call site of all processes, most bytes first; see FINDING_SCHEMA.

processes, ranks, devices: where it was found, ascending; `ranks` has none for processes that are in no job.
"""


def found_at_sites(rows: pl.DataFrame, *, kind: pl.Expr, site: str, size: str) -> pl.DataFrame:
    """Sum up findings by kind, call site and device.

    Args:
        rows: The findings: `device` and the columns below.
        kind: The kind of each row.
        site: The column of call sites.
        size: The column of bytes.

    Returns:
        FINDING_SCHEMA.
    """
    return (
        rows.group_by(kind=kind, site=pl.col(site), device=pl.col("device"), maintain_order=True)
        .agg(pl.col(size).sum().alias("bytes"), pl.len().alias("count"))
        .cast(FINDING_SCHEMA)
        .select(FINDING_SCHEMA.names())
    )


def merge_findings(parts: Sequence[tuple[int, pl.DataFrame]], ranks: Sequence[int | None] = ()) -> pl.DataFrame:
    """Put the findings of several processes together.

    Args:
        parts: The id of each process, and its findings: FINDING_SCHEMA. Two hosts may have the same id.
        ranks: The rank of each process, None for one that is in no job; nothing if none is in one.

    Returns:
        MERGED_SCHEMA.
    """
    rows = [
        found.with_columns(
            process=pl.struct(pl.lit(part).alias("part"), pl.lit(process, pl.Int64).alias("id")),
            rank=pl.lit(rank, pl.Int64),
        )
        for part, ((process, found), rank) in enumerate(itertools.zip_longest(parts, ranks[: len(parts)]))
    ]
    if not rows:
        return MERGED_SCHEMA.to_frame()
    return (
        pl.concat(rows)
        .group_by("kind", "site", maintain_order=True)
        .agg(
            pl.col("bytes").sum(),
            pl.col("count").sum(),
            pl.col("process").unique().struct.field("id").sort().alias("processes"),
            pl.col("rank").drop_nulls().unique().sort().alias("ranks"),
            pl.col("device").unique().sort().alias("devices"),
        )
        .sort(["bytes", "count"], descending=True, maintain_order=True)
        .select(MERGED_SCHEMA.names())
    )

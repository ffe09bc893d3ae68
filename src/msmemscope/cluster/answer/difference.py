"""The surplus of some ranks over others at the peak, by owner and by call site."""

from __future__ import annotations

import dataclasses
from typing import Final

import polars as pl

from msmemscope.cluster.answer.ranks import INDEX

MOST_ROWS: Final = 20
"""Of a difference, by its size."""
DIFFERENCE_SCHEMA: Final = pl.Schema(
    {"name": pl.String(), "hash": pl.String(), "bytes": pl.Int64(), "other_bytes": pl.Int64(), "more_bytes": pl.Int64()}
)
"""One row per owner or call site, the largest difference first.

name: the owner, or the line; hash: of the call site, null of owners. bytes, other_bytes: the bytes of the two sides,
medians of their ranks; more_bytes: the difference.
"""


@dataclasses.dataclass(frozen=True, eq=False)
class Difference:
    """Two sides compared."""

    owners: pl.DataFrame
    """DIFFERENCE_SCHEMA."""
    sites: pl.DataFrame
    """DIFFERENCE_SCHEMA."""

    @property
    def owner(self) -> str:
        """The owner that most of the surplus belongs to; empty if there is none."""
        return _first(self.owners, "name")

    @property
    def owner_bytes(self) -> int:
        """The bytes that it has more."""
        return 0 if self.owners.is_empty() else int(self.owners["more_bytes"][0])

    @property
    def site(self) -> str:
        """The line that most of the surplus is from; empty if it is not known."""
        return _first(self.sites, "name")

    @property
    def site_bytes(self) -> int:
        """The bytes that the line has more."""
        return 0 if self.sites.is_empty() else int(self.sites["more_bytes"][0])


class Holdings:
    """The bytes that every rank holds at its peak, by owner and by call site.

    Args:
        rows: Of `ranks.rank_rows`.
    """

    def __init__(self, rows: pl.DataFrame) -> None:
        """Take the lists of all rows apart, once."""
        self._owners = _apart(rows, "owners").select(INDEX, "bytes", name="owner", hash=pl.lit(None, dtype=pl.String))
        self._sites = _apart(rows, "sites").select(INDEX, "bytes", name="site", hash="hash")

    def difference(self, ranks: list[int], others: list[int]) -> Difference:
        """Compare the medians of two groups of ranks.

        Args:
            ranks: Rows of the one side.
            others: Of the other; those that are in both count on both.
        """
        return Difference(*(_compared(table, ranks, others) for table in (self._owners, self._sites)))


def _apart(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    return rows.select(INDEX, name).explode(name, empty_as_null=False).drop_nulls(name).unnest(name)


def _compared(table: pl.DataFrame, ranks: list[int], others: list[int]) -> pl.DataFrame:
    key = pl.coalesce("hash", "name").alias("key")
    sides = [
        table.filter(pl.col(INDEX).is_in(side))
        .group_by(key)
        .agg(pl.col("name").min(), pl.col("hash").min(), _median(pl.col("bytes"), len(side)).alias(column))
        for side, column in ((ranks, "bytes"), (others, "other_bytes"))
    ]
    return (
        sides[0]
        .join(sides[1], on="key", how="full", coalesce=True)
        .with_columns(
            pl.coalesce("name", "name_right"),
            pl.coalesce("hash", "hash_right"),
            pl.col("bytes", "other_bytes").fill_null(0),
        )
        .with_columns(more_bytes=pl.col("bytes") - pl.col("other_bytes"))
        .filter(pl.col("more_bytes") != 0)
        .sort(["more_bytes", "key"], descending=[True, False])
        .pipe(_largest)
        .select(DIFFERENCE_SCHEMA.names())
        .cast(DIFFERENCE_SCHEMA)
    )


def _largest(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows that differ most, in either direction, in their order."""
    if rows.height <= MOST_ROWS:
        return rows
    least = rows["more_bytes"].abs().sort(descending=True)[MOST_ROWS - 1]
    return rows.filter(pl.col("more_bytes").abs() >= least).head(MOST_ROWS)


def _median(values: pl.Expr, count: int) -> pl.Expr:
    """The median over `count` ranks; ranks without a row hold nothing."""
    padded = values.sort().reverse()
    low, high = (
        padded.get(count // 2, null_on_oob=True).fill_null(0),
        padded.get((count - 1) // 2, null_on_oob=True).fill_null(0),
    )
    return ((low + high) // 2).cast(pl.Int64)


def _first(table: pl.DataFrame, column: str) -> str:
    return "" if table.is_empty() else str(table[column][0] or "")

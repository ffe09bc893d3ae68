"""How uneven a job is along each of its axes: pipeline stages, experts, shards, replicas.

A rank is compared with those that stand at the same place on all other axes. Of each index, the median of its ranks
counts; ranks that are unlike their peers are left out. An axis is named as uneven if its largest index has 15 % and 5
MiB more than the median of the others. Axes that divide the ranks in the same way are one: the one that is named first
in AXES.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.cluster.answer.ranks import INDEX, JUDGED, MIB, axes_of, coordinate

if TYPE_CHECKING:
    from msmemscope.cluster.answer.difference import Difference, Holdings

AXES: Final = ("expert", "pipeline", "context", "tensor", "data")
LEAST_SHARE: Final = 0.15
LEAST_BYTES: Final = 5 * MIB
AXIS_WORDS: Final = (
    "more: how much the index with the most has above the others, as medians of ranks that are alike on the other axes; "
    "an axis is uneven from 15 % and 5 MiB on"
)


@dataclasses.dataclass(frozen=True, eq=False)
class AxisSpread:
    """One axis of a job."""

    axis: str
    indexes: pl.DataFrame
    """`index`, `count` (ranks), `median_bytes`, `highest_bytes`; by index."""
    largest: int
    """The index whose ranks have the most."""
    largest_rows: tuple[int, ...]
    """The rows of its ranks, those that are unlike their peers included."""
    excess_bytes: int
    """The surplus of the largest over the median of the others, at the same place on the other axes."""
    is_uneven: bool
    difference: Difference
    """The ranks of the largest index against the others."""

    @property
    def least_bytes(self) -> int:
        """The median peak of the index whose ranks have the least."""
        return int(self.indexes["median_bytes"].sort()[0])

    @property
    def largest_bytes(self) -> int:
        """The median peak of the largest index."""
        return int(self.indexes.filter(pl.col("index") == self.largest)["median_bytes"][0])


def find_spreads(rows: pl.DataFrame, outliers: pl.Series, holdings: Holdings) -> tuple[AxisSpread, ...]:
    """Find how memory is spread over each axis that has several indexes.

    Args:
        rows: Of `ranks.rank_rows`.
        outliers: Rows that do not count.
        holdings: Of the same rows.
    """
    judged = rows.filter(JUDGED)
    known = axes_of(judged)
    everybody = judged.select(INDEX, "peak_bytes", *(coordinate(axis).alias(axis) for axis in known))
    placed = everybody.filter(~pl.col(INDEX).is_in(outliers.implode()))
    found = []
    seen: set[tuple[tuple[int, ...], ...]] = set()
    for axis in sorted(known, key=lambda name: (AXES.index(name) if name in AXES else len(AXES), name)):
        part = placed.drop_nulls(axis)
        # One that tells the index by itself, as the replica does that of experts, leaves nobody to compare with.
        others = [name for name in known if name != axis and _differs_within(part, axis, name)]
        division = tuple(
            sorted(tuple(ranks) for ranks in part.group_by(axis).agg(pl.col(INDEX).sort())[INDEX].to_list())
        )
        if len(division) > 1 and division not in seen:
            seen.add(division)
            usual = pl.col("peak_bytes").median()
            more = pl.col("peak_bytes") - (usual.over(others) if others else usual)
            spread = _spread(axis, part.select(INDEX, "peak_bytes", position=axis, more=more), holdings)
            ranks = everybody.filter(pl.col(axis) == spread.largest)[INDEX].to_list()
            found.append(dataclasses.replace(spread, largest_rows=tuple(ranks)))
    return tuple(found)


def _differs_within(placed: pl.DataFrame, axis: str, other: str) -> bool:
    """Whether ranks at the same place on the other axis differ on this one."""
    return bool((placed.group_by(other).agg(pl.col(axis).n_unique())[axis] > 1).any())


def _spread(axis: str, placed: pl.DataFrame, holdings: Holdings) -> AxisSpread:
    indexes = (
        placed.group_by(index="position")
        .agg(
            count=pl.len().cast(pl.Int64),
            median_bytes=pl.col("peak_bytes").median().round().cast(pl.Int64),
            highest_bytes=pl.col("peak_bytes").max(),
            more=pl.col("more").median(),
        )
        .sort("index")
    )
    top = indexes.sort(["more", "index"], descending=[True, False]).row(0, named=True)
    others = indexes.filter(pl.col("index") != top["index"])
    excess = round(top["more"] - float(others["more"].median() or 0))  # type: ignore[arg-type]  # of numbers
    usual = float(others["median_bytes"].median() or 0)  # type: ignore[arg-type]  # likewise
    is_top = pl.col("position") == top["index"]
    ranks, rest = placed.filter(is_top)[INDEX].to_list(), placed.filter(~is_top)[INDEX].to_list()
    return AxisSpread(
        axis,
        indexes.drop("more"),
        top["index"],
        tuple(ranks),
        excess,
        excess >= max(LEAST_BYTES, LEAST_SHARE * usual),
        holdings.difference(ranks, rest),
    )

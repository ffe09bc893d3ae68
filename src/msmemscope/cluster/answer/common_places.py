"""The places that outliers have in common. One cause is one line.

A place is a host, a kind or size of device, a version of some software, or an index of an axis.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.cluster.answer.ranks import INDEX, JUDGED, axes_of, coordinate
from msmemscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from msmemscope.cluster.answer.difference import Difference, Holdings

LEAST_RANKS: Final = 2
LEAST_SHARE: Final = 0.75
"""Of the ranks at the place, that must be outliers."""
MOST_OF_JOB: Final = 0.5
"""Of all ranks, that may be at the place: half of a job is no exception."""
MOST_TIMES: Final = 2
"""By which their surplus may differ from the median of it."""


@dataclasses.dataclass(frozen=True, eq=False)
class CommonPlace:
    """Outliers at one place."""

    place: str
    """In words: `node025`, `tensor 1`, `devices of 32.0 GiB`, `Ascend910B1`, `torch 2.13.0`."""
    rows: tuple[int, ...]
    """The outliers there."""
    ranks: int
    """How many ranks are there."""
    peak_bytes: int
    """The median of their peaks."""
    excess_bytes: int
    """The median of their surplus; negative if they have less."""
    difference: Difference
    """These outliers against the ranks elsewhere."""


def find_common_places(rows: pl.DataFrame, outliers: pl.DataFrame, holdings: Holdings) -> tuple[CommonPlace, ...]:
    """Find the places that outliers have in common, the one with the most outliers first; each outlier is in one.

    Args:
        rows: Of `ranks.rank_rows`.
        outliers: `spread.OUTLIER_SCHEMA`.
        holdings: Of the same rows.
    """
    judged = rows.filter(JUDGED)
    places = [*_places(judged)]
    found: list[CommonPlace] = []
    left = outliers
    while left.height >= LEAST_RANKS:
        # Most places have too few outliers.
        odd = set(left[INDEX])
        possible = [one for one in places if len(odd.intersection(one[1])) >= _least_ranks(one[1])]
        candidates = [one for place, members in possible for one in _candidates(left, place, members)]
        if not candidates:
            break
        place, members, chosen = max(candidates, key=lambda one: (one[2].height, -len(one[1])))
        ours = chosen[INDEX].to_list()
        others = judged.filter(~pl.col(INDEX).is_in(members))[INDEX].to_list()
        found.append(
            CommonPlace(
                place,
                tuple(sorted(ours)),
                len(members),
                round(float(chosen["peak_bytes"].median())),  # type: ignore[arg-type]  # of whole numbers
                round(float(chosen["excess_bytes"].median())),  # type: ignore[arg-type]  # likewise
                holdings.difference(ours, others),
            )
        )
        left = left.filter(~pl.col(INDEX).is_in(ours))
    return tuple(found)


def _places(judged: pl.DataFrame) -> Iterator[tuple[str, list[int]]]:
    """The places of a job, with the rows at each."""
    columns = {
        "host": pl.col("node"),
        "card": pl.col("card"),
        "device": pl.col("capacity_bytes"),
        **{axis: coordinate(axis) for axis in axes_of(judged)},
    }
    for name, column in columns.items():
        placed = judged.select(INDEX, value=column).drop_nulls().group_by("value").agg(INDEX).sort("value")
        for value, members in placed.iter_rows():
            if len(members) <= MOST_OF_JOB * judged.height:
                yield _words(name, value), members
    software = judged.select(INDEX, value="software").explode("value", empty_as_null=True).drop_nulls()
    for value, members in software.group_by("value").agg(INDEX).sort("value").iter_rows():
        if len(members) <= MOST_OF_JOB * judged.height:
            yield value, members


def _words(name: str, value: object) -> str:
    if name in {"host", "card"}:
        return str(value)
    if name == "device":
        return f"devices of {format_bytes(int(str(value)))}"
    return f"{name} {value}"


def _least_ranks(members: list[int]) -> float:
    return max(LEAST_RANKS, LEAST_SHARE * len(members))


def _candidates(
    outliers: pl.DataFrame, place: str, members: list[int]
) -> Iterator[tuple[str, list[int], pl.DataFrame]]:
    """The outliers at a place, those with more and those with less, where they are most of its ranks."""
    there = outliers.filter(pl.col(INDEX).is_in(members))
    for ours in (there.filter(pl.col("excess_bytes") > 0), there.filter(pl.col("excess_bytes") < 0)):
        size = pl.col("excess_bytes").abs()
        alike = ours.filter(size * MOST_TIMES >= size.median(), size <= MOST_TIMES * size.median())
        if alike.height >= _least_ranks(members):
            yield place, members, alike

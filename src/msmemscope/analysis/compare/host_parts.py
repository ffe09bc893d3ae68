"""The parts of the resident host memory of two runs at their peaks, and the line that made most of each difference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from msmemscope.analysis.host.host_ledger import HostLedger

HOST_PART_SCHEMA: Final = pl.Schema(
    {
        "part": pl.String(),
        "base_bytes": pl.Int64(),
        "compare_bytes": pl.Int64(),
        "difference_bytes": pl.Int64(),
        "site": pl.String(),
    }
)
"""One row per part of the resident host memory, at the peak of it in each run; the largest differences first.

site: the line that made most of the difference, null where it is not known or none made most of it.
"""

_LEAST_OF_DIFFERENCE: Final = 1 / 2
"""Of the difference of a part, that its line has made."""


def compare_host_parts(base: HostLedger, other: HostLedger, names: Mapping[str, str]) -> pl.DataFrame:
    """Put the parts of both runs beside each other.

    Args:
        base: Of the run that is compared against.
        other: Of the run that may be different.
        names: Lines of the first run, with their names in the second, if these are others.

    Returns:
        HOST_PART_SCHEMA; empty where one of the two has no figures.
    """
    if base.parts.is_empty() or other.parts.is_empty():
        return HOST_PART_SCHEMA.to_frame()
    parts = _differences([base.parts, other.parts], ["part"])
    lines = _differences([base.lines.with_columns(pl.col("site").replace(names)), other.lines], ["what", "site"])
    made = parts.join(lines, left_on="part", right_on="what", how="left", suffix="_of_line", maintain_order="left")
    share = pl.col("difference_bytes_of_line") / pl.col("difference_bytes")
    most = (
        made.filter(pl.col("difference_bytes") != 0, share >= _LEAST_OF_DIFFERENCE)
        .sort(share, descending=True)
        .unique("part", keep="first")
    )
    return parts.join(most.select("part", "site"), on="part", how="left", maintain_order="left").cast(HOST_PART_SCHEMA)


def _differences(sides: Sequence[pl.DataFrame], key: list[str]) -> pl.DataFrame:
    """Return the bytes of both sides and their difference by a key, the largest differences first."""
    base, other = (side.group_by(key, maintain_order=True).agg(pl.col("peak_bytes").sum()) for side in sides)
    both = base.join(other, on=key, how="full", coalesce=True, maintain_order="left_right").select(
        *key, base_bytes=pl.col("peak_bytes").fill_null(0), compare_bytes=pl.col("peak_bytes_right").fill_null(0)
    )
    difference = pl.col("compare_bytes") - pl.col("base_bytes")
    return both.with_columns(difference_bytes=difference).sort(difference.abs(), descending=True, maintain_order=True)

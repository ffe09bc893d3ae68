"""Everything that is said of a job, worked out from the merged summaries of its captures."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.cluster.answer.axes import AxisSpread, find_spreads
from msmemscope.cluster.answer.common_places import CommonPlace, find_common_places
from msmemscope.cluster.answer.difference import Difference, Holdings
from msmemscope.cluster.answer.ends import find_early_ends
from msmemscope.cluster.answer.forecast import find_forecasts
from msmemscope.cluster.answer.found import merge_findings_of_ranks
from msmemscope.cluster.answer.modules import module_use
from msmemscope.cluster.answer.ranks import INDEX, JUDGED, PEERS, rank_rows
from msmemscope.cluster.answer.spread import find_outliers
from msmemscope.cluster.answer.step_timeline import StepTimeline, align_by_step

if TYPE_CHECKING:
    from msmemscope.cluster.merging import JobPart

HEADROOM: Final = "headroom_bytes"


@dataclasses.dataclass(frozen=True, eq=False)
class WorstRank:
    """The rank with the least headroom against one that stands for the others."""

    worst: int
    """Its row."""
    median: int
    """The row of the rank whose peak is the median of those of the same role and memory."""
    difference: Difference


@dataclasses.dataclass(frozen=True, eq=False)
class JobAnswer:
    """The answer about a job."""

    rows: pl.DataFrame
    """Of `ranks.rank_rows`, and `limit_bytes` and `headroom_bytes`, null where the size of a device is not known."""
    stacks: pl.DataFrame
    """`merging.STACK_SCHEMA`."""
    failures: tuple[tuple[str, str], ...]
    """Captures that could not be read, and why."""
    by_headroom: pl.Series
    """The judged rows: the least headroom first, where that is not known the highest peak."""
    findings: pl.DataFrame
    """`found.FOUND_SCHEMA`."""
    outliers: pl.DataFrame
    """`spread.OUTLIER_SCHEMA`."""
    outlier_causes: tuple[Difference, ...]
    """Of each outlier, against its peers."""
    common_places: tuple[CommonPlace, ...]
    """The places that several outliers have in common."""
    early_ends: pl.DataFrame
    """`ends.EARLY_END_SCHEMA`."""
    axes: tuple[AxisSpread, ...]
    forecasts: pl.DataFrame
    """`forecast.FORECAST_SCHEMA`."""
    worst: WorstRank | None
    """None with fewer than two ranks."""
    timeline: StepTimeline
    modules: pl.DataFrame
    """`modules.MODULE_SCHEMA`."""

    @property
    def judged(self) -> pl.DataFrame:
        """The rows that stand for ranks."""
        return self.rows.filter(JUDGED)


def answer_of(part: JobPart, *, capacity_bytes: int | None = None) -> JobAnswer:
    """Work everything out.

    Args:
        part: All captures of the job.
        capacity_bytes: The most that a rank may use, where no snapshot says the size of its device.
    """
    limit = pl.coalesce(pl.col("capacity_bytes"), pl.lit(capacity_bytes, dtype=pl.Int64))
    rows = rank_rows(part.rows).with_columns(limit_bytes=limit)
    rows = rows.with_columns((pl.col("limit_bytes") - pl.col("used_bytes")).alias(HEADROOM))
    judged = rows.filter(JUDGED)
    holdings = Holdings(judged)
    outliers = find_outliers(rows)
    causes = tuple(
        holdings.difference([row], judged.filter((pl.col(PEERS) == peers) & (pl.col(INDEX) != row))[INDEX].to_list())
        for row, peers in outliers.select(INDEX, PEERS).iter_rows()
    )
    order = judged.sort([HEADROOM, "peak_bytes", INDEX], descending=[False, True, False], nulls_last=True)[INDEX]
    return JobAnswer(
        rows,
        part.stacks,
        part.failures,
        order,
        merge_findings_of_ranks(rows),
        outliers,
        causes,
        find_common_places(rows, outliers, holdings),
        find_early_ends(rows),
        find_spreads(rows, outliers[INDEX], holdings),
        find_forecasts(rows),
        _worst(judged, order, holdings),
        align_by_step(rows),
        module_use(judged),
    )


def _worst(judged: pl.DataFrame, order: pl.Series, holdings: Holdings) -> WorstRank | None:
    if len(order) < 2:  # noqa: PLR2004 - two are needed to compare
        return None
    worst = int(order[0])
    mine = judged.filter(pl.col(INDEX) == worst)
    alike = judged.filter(pl.col("role").eq_missing(mine["role"][0]), pl.col("pool") == mine["pool"][0])
    ordered = alike.filter(pl.col(INDEX) != worst).sort(["peak_bytes", INDEX])
    if ordered.is_empty():
        return None
    median = int(ordered[INDEX][(ordered.height - 1) // 2])
    return WorstRank(worst, median, holdings.difference([worst], [median]))

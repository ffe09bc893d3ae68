"""When each rank runs out of memory: the trend of the peaks of its steps, and the bytes that are left.

The trend is Theil and Sen's slope: the median of the slopes between all pairs of steps. Its interval is Sen's, from
Kendall's tau, at 95 % (P. K. Sen, Estimates of the regression coefficient based on Kendall's tau, 1968). The first step
is warm-up.

A rank grows if both hold:

- The lower end of the interval is above 0 in the whole run and in its second half. So memory that fills up and then
  stays does not count.
- The run has grown by 1 MiB and 1 % of its peak.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.cluster.answer.ranks import INDEX, JUDGED, MIB
from msmemscope.recording.step_bounds import WARM_UP_STEPS

if TYPE_CHECKING:
    from typing import TypeAlias

Figures: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"

LEAST_STEPS: Final = 8
"""Points of a trend, and of its second half."""
MOST_POINTS: Final = 128
"""Points of a trend; of more steps, evenly spaced ones are taken, each with the highest peak since the one before."""
_NORMAL_95: Final = 1.959964
_LEAST_GROWTH_SHARE: Final = 0.01
FORECAST_WORDS: Final = (
    "the trend is Theil and Sen's slope of the peaks of steps, its range Sen's interval at 95 %. A rank grows if the range is "
    "above 0 in the whole run and in its second half"
)
FORECAST_SCHEMA: Final = pl.Schema(
    {
        INDEX: pl.UInt32(), "last_step": pl.Int64(), "slope_bytes": pl.Float64(), "least_slope_bytes": pl.Float64(),
        "most_slope_bytes": pl.Float64(), "headroom_bytes": pl.Int64(), "out_at_step": pl.Int64(), "earliest_step": pl.Int64(),
        "latest_step": pl.Int64(),
    }
)  # fmt: skip
"""One row per rank that grows, the one that runs out first at the top.

slope_bytes: per step, with the ends of its interval. headroom_bytes: of its device at the last step. out_at_step: the
step in which that is used up, earliest_step to latest_step by the ends of the interval. Null where the size of the
device is not known.
"""


def find_forecasts(rows: pl.DataFrame) -> pl.DataFrame:
    """Find the ranks that grow, and when they run out.

    Args:
        rows: Of `ranks.rank_rows`, with `limit_bytes`, the most that each may use, null where that is not known.

    Returns:
        FORECAST_SCHEMA.
    """
    found = []
    for row in (
        rows.filter(JUDGED).select(INDEX, "steps", "limit_bytes", "used_bytes", "peak_bytes").iter_rows(named=True)
    ):
        forecast = _forecast(row)
        if forecast is not None:
            found.append({INDEX: row[INDEX], **forecast})
    table = pl.DataFrame(found, FORECAST_SCHEMA)
    return table.sort(["out_at_step", "slope_bytes", INDEX], descending=[False, True, False], nulls_last=True)


def _forecast(row: dict[str, Any]) -> dict[str, Any] | None:
    steps = [step for step in row["steps"] or () if step["first"] > WARM_UP_STEPS]
    if len(steps) < 2 * LEAST_STEPS:
        return None
    moments, peaks = _thinned(
        np.array([step["last"] for step in steps], dtype=float),
        np.array([step["peak_bytes"] for step in steps], dtype=float),
    )
    slope, least, most = trend(moments, peaks)
    half = len(moments) // 2
    least_growth = max(MIB, _LEAST_GROWTH_SHARE * row["peak_bytes"])
    if least <= 0 or slope * (moments[-1] - moments[0]) < least_growth:
        return None
    if trend(moments[half:], peaks[half:])[1] <= 0:
        return None
    last = int(moments[-1])
    found = {"last_step": last, "slope_bytes": slope, "least_slope_bytes": least, "most_slope_bytes": most}
    if row["limit_bytes"] is not None:
        headroom = max(row["limit_bytes"] - row["used_bytes"], 0)
        at = {"out_at_step": slope, "earliest_step": most, "latest_step": least}
        found |= {"headroom_bytes": headroom, **{name: last + math.ceil(headroom / rate) for name, rate in at.items()}}
    return found


def trend(moments: Figures, values: Figures) -> tuple[float, float, float]:
    """Return Theil and Sen's slope and the ends of its interval at 95 %.

    Args:
        moments: Ascending, at least two.
        values: One of each.
    """
    first, second = np.triu_indices(len(moments), 1)
    slopes = np.sort((values[second] - values[first]) / (moments[second] - moments[first]))
    count = len(moments)
    half_width = _NORMAL_95 * math.sqrt(count * (count - 1) * (2 * count + 5) / 18) / 2
    middle = len(slopes) / 2
    low, high = max(math.floor(middle - half_width), 0), min(math.ceil(middle + half_width), len(slopes) - 1)
    return float(np.median(slopes)), float(slopes[low]), float(slopes[high])


def _thinned(moments: Figures, peaks: Figures) -> tuple[Figures, Figures]:
    together = -(-len(moments) // MOST_POINTS)
    firsts = np.arange(0, len(moments), together)
    lasts = np.minimum(firsts + together, len(moments)) - 1
    return moments[lasts], np.maximum.reduceat(peaks, firsts)

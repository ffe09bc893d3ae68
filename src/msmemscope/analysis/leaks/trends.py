"""Trends of series: Theil and Sen's slope, and the significance of Mann and Kendall's test for positions that depend on each other.

That test takes positions as independent. The use of a pool is not: a block that is alive at one end of a step is often
alive at the next. So its variance is widened by (1 + r) / (1 - r). Here r is the autocorrelation of neighbouring
positions without the trend. It is corrected for its bias in short series.

Growth that becomes slower looks like such a dependence. But a series that depends on its last position alone falls as
often as it rises. So a series that hardly ever falls is judged by the chance of as many rises in a row, if that is the
smaller one.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from typing import TypeAlias

    import polars as pl

Figures: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"

MOST_POSITIONS: Final = 128
"""Of a series; of a longer run, evenly spaced steps are taken."""
_PAIRS_AT_ONCE: Final = 1 << 22
"""Pairs of positions whose differences are held in memory at a time."""
_MOST_AUTOCORRELATION: Final = 0.95
_MOST_FALLEN: Final = 0.01
"""The share of its rise by which a series may fall in all and still count as rising only."""


@dataclasses.dataclass(frozen=True)
class Trends:
    """The trend of each of several series."""

    slope: Figures
    """Theil and Sen's, per position or unit of time."""
    significance: Figures
    """One-sided, of growth; widened for autocorrelation."""


def live_series(
    group: np.ndarray[Any, np.dtype[np.int64]],
    groups: int,
    blocks: pl.DataFrame,
    steps: np.ndarray[Any, np.dtype[np.int64]],
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Sum up the bytes that are alive at the end of each of some steps.

    Args:
        group: Of each block, below `groups`.
        groups: How many there are.
        blocks: `size`, and `first_end` and `last_end` as `step_bounds.with_steps` has them.
        steps: Numbers of steps, ascending.

    Returns:
        Bytes, a row per group and a column per step.
    """
    size = blocks["size"].to_numpy()
    begin = np.searchsorted(steps, blocks["first_end"].to_numpy(), side="left")
    # Alive at no end: as if it were freed where it was allocated.
    end = np.maximum(np.searchsorted(steps, blocks["last_end"].to_numpy(), side="right"), begin)
    width = len(steps) + 1
    changes = np.zeros(groups * width, dtype=np.int64)
    np.add.at(changes, group * width + begin, size)
    np.subtract.at(changes, group * width + end, size)
    summed: np.ndarray[Any, np.dtype[np.int64]] = np.cumsum(changes.reshape(groups, width), axis=1)[:, :-1]
    return summed


def trends(series: Figures, times: Figures | None = None) -> Trends:
    """Find the trend of each series.

    Args:
        series: A row per series, a column per position; at least three positions.
        times: Of the positions, ascending, in any unit; by default one apart.

    Returns:
        Slope, per unit of time, and significance of each.
    """
    count, length = series.shape
    moments = np.arange(length, dtype=np.float64) if times is None else times
    slope = np.zeros(count)
    score = np.zeros(count)
    earlier, later = np.triu_indices(length, k=1)
    at_once = max(_PAIRS_AT_ONCE // len(earlier), 1)
    for start in range(0, count, at_once):
        part = slice(start, start + at_once)
        differences = series[part][:, later] - series[part][:, earlier]
        slope[part] = np.median(differences / (moments[later] - moments[earlier]), axis=1)
        score[part] = np.sign(differences).sum(axis=1)
    variance = _score_variance(series) * _widening(series, slope, moments)
    # Continuity correction: the score moves in steps of two.
    shifted = np.sign(score) * np.maximum(np.abs(score) - 1, 0)
    z = np.divide(shifted, np.sqrt(variance), out=np.zeros(count), where=variance > 0)
    significance = np.array([0.5 * math.erfc(one / math.sqrt(2)) for one in z])
    significance = np.minimum(significance, _chance_of_rises(series))
    return Trends(slope, significance)


def positions(first: int, last: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the steps of a series from one to another, MOST_POSITIONS at most."""
    return np.unique(np.linspace(first, last, min(last - first + 1, MOST_POSITIONS)).astype(np.int64))


def growth(series: Figures, least_half: int = 3) -> Trends:
    """Find the growth of each series, which must show in its second half by itself, too.

    Args:
        series: As for `trends`.
        least_half: Positions of a second half that is judged; a shorter one is not.

    Returns:
        The slope of the whole series; the larger significance of the two, 1 where one of them does not rise.
    """
    whole, latter = trends(series), series[:, series.shape[1] // 2 :]
    half = trends(latter) if latter.shape[1] >= least_half else whole
    is_rising = (whole.slope > 0) & (half.slope > 0)
    return Trends(whole.slope, np.where(is_rising, np.maximum(whole.significance, half.significance), 1.0))


def _chance_of_rises(series: Figures) -> Figures:
    """Return the chance that each series rises as often as it does, where it hardly falls; elsewhere 1."""
    changes = np.diff(series, axis=1)
    risen, fallen = np.clip(changes, 0, None).sum(axis=1), np.clip(-changes, 0, None).sum(axis=1)
    in_a_row = np.sign(changes).sum(axis=1)
    return np.where(fallen <= _MOST_FALLEN * risen, 0.5 ** np.clip(in_a_row, 0, None), 1.0)


def _score_variance(series: Figures) -> Figures:
    """Return the variance of Mann and Kendall's score without a trend, with the correction for equal values."""
    count, length = series.shape
    ordered = np.sort(series, axis=1)
    starts = np.ones((count, length), dtype=np.bool_)
    starts[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    # Positions where a run of equal values begins; the distance to the next one is its length.
    flat = np.append(np.flatnonzero(starts), count * length)
    ties = np.diff(flat).astype(np.float64)
    of_tie = ties * (ties - 1) * (2 * ties + 5)
    correction = np.bincount(flat[:-1] // length, weights=of_tie, minlength=count)
    variance: Figures = (length * (length - 1) * (2 * length + 5) - correction) / 18
    return variance


def _widening(series: Figures, slope: Figures, moments: Figures) -> Figures:
    """Return the factor by which autocorrelation of neighbouring steps widens the variance; never below 1."""
    length = series.shape[1]
    rest = series - slope[:, None] * moments
    rest = rest - rest.mean(axis=1, keepdims=True)
    power = (rest**2).sum(axis=1)
    # Without the slope, only rounding is left of a straight line.
    scale = (series**2).sum(axis=1) * 1e-12
    neighbours = (rest[:, 1:] * rest[:, :-1]).sum(axis=1)
    r = np.divide(neighbours, power, out=np.zeros(len(series)), where=power > scale)
    # Short series show less of it than there is (Kendall 1954).
    r = np.where(power > scale, r + (1 + 4 * r) / length, 0.0)
    r = np.clip(r, 0.0, _MOST_AUTOCORRELATION)
    widening: Figures = (1 + r) / (1 - r)
    return widening

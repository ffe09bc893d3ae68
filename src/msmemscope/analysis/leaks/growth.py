"""Slow leaks: call sites whose live memory grows over many steps, whatever becomes of single blocks.

A queue that is drained too slowly, or a cache whose entries live longer and longer, frees every block and grows all the
same. So the bytes of each call site that are alive at the end of each step are taken as a series, and a robust trend is
looked for: Theil and Sen's slope, the median of the slopes between all pairs of steps, and the significance of Mann and
Kendall's test, one-sided.

That test takes steps as independent. The use of a pool is not: what is alive at one end of a step is often alive at the
next. So its variance is widened by (1 + r) / (1 - r), r being the autocorrelation of neighbouring steps after the trend
is removed, corrected for the bias that it has in short series. And the trend must show in the whole run and in its
second half by itself, so that what fills up and then stays is none.

The stated rate: of call sites whose use is stationary, independent from step to step or autocorrelated up to 0.9, at most
1 in 200 is named at the default significance of 0.001. A use that swings with a period longer than the run looks like
growth; so does one that has not filled up when the run ends.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.analysis.coverage import Coverage, Subject, coverage_of
from msmemscope.analysis.leaks.sites import SITE_KEY
from msmemscope.analysis.options import Chance, QuestionOptions, Size, option
from msmemscope.analysis.recorded import Need
from msmemscope.recording.call_sites import STACK_COLUMNS, call_sites
from msmemscope.recording.pool_segments import segments_at_end
from msmemscope.recording.step_bounds import WARM_UP_STEPS, process_steps, with_steps
from msmemscope.units import SIZE_FORMS

if TYPE_CHECKING:
    from typing import TypeAlias

    from msmemscope.recording import Recording

Figures: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"

SUBJECT: Final = Subject("Growth", needed=(Need.ALLOCATIONS, Need.ALL_STEPS), helpful=(Need.FREES, Need.STACKS))
STATED_FALSE_POSITIVE_RATE: Final = 0.005
"""Of call sites with a stationary use, the share that is named at the default significance, at most; see above."""

_LEAST_HALF: Final = 8
"""Step ends in the second half of a run: with fewer, no trend could be significant."""
_MOST_STEPS: Final = 128
"""Step ends of a series; of a longer run, evenly spaced ones are taken."""
_PAIRS_AT_ONCE: Final = 1 << 22
"""Pairs of steps whose differences are held in memory at a time."""
_MOST_AUTOCORRELATION: Final = 0.95

GROWTH_SCHEMA: Final = pl.Schema(
    {
        "device": pl.Int16(),
        "pool": pl.UInt8(),
        "site": pl.String(),
        "site_path": pl.String(),
        "slope_bytes_per_step": pl.Float64(),
        "significance": pl.Float64(),
        "first_bytes": pl.Int64(),
        "last_bytes": pl.Int64(),
        "first_step": pl.Int64(),
        "last_step": pl.Int64(),
        "last_blocks": pl.Int64(),
    }
)
"""One row per call site in one pool of one device that grows, steepest first.

slope_bytes_per_step: median growth of its live bytes per step.
significance: chance that steps without a trend look like this or more so; the larger of whole run and second half.
first_bytes, last_bytes: alive at the end of first_step and of last_step.
last_blocks: blocks alive at the end of last_step.
"""


@dataclasses.dataclass(frozen=True)
class GrowthOptions(QuestionOptions):
    """What counts as growth."""

    significance: float = option(0.001, Chance(), "accepted chance per call site")
    """The chance, per call site, that is accepted for steps without a trend to be taken for one."""
    minimum_bytes: int = option(1, Size(), f"growth that counts: {SIZE_FORMS}", spelling="--minimum-size")
    """Growth from the first to the last step below which a call site is not looked at."""


@dataclasses.dataclass(frozen=True)
class SlowLeaks:
    """The call sites of a process that grow."""

    sites: pl.DataFrame
    """GROWTH_SCHEMA."""
    judged_sites: int
    """Call sites with blocks alive at the end of a step, from the second step on."""
    remarks: tuple[str, ...]
    """What could not be judged, one line each."""
    coverage: Coverage
    """What of this is answered."""

    def to_polars(self) -> pl.DataFrame:
        """Returns the sites, of GROWTH_SCHEMA."""
        return self.sites


@dataclasses.dataclass(frozen=True)
class Trends:
    """The trend of each of several series."""

    slope: Figures
    """Theil and Sen's, per position."""
    significance: Figures
    """One-sided, of growth; widened for autocorrelation."""


def find_slow_leaks(recording: Recording, options: GrowthOptions | None = None) -> SlowLeaks:
    """Find the call sites whose live memory grows over the steps of a run.

    Args:
        recording: Of a process that tells of its steps.
        options: What counts as growth.

    Returns:
        The call sites; none, and a remark, if too few steps have ended.
    """
    options = options or GrowthOptions()
    coverage = coverage_of(SUBJECT, recording)
    bounds = process_steps(recording)
    least = WARM_UP_STEPS + 2 * _LEAST_HALF
    if bounds.ended < least:
        counted = {0: "no step has", 1: "1 step has"}.get(bounds.ended, f"{bounds.ended} steps have")
        remark = f"slow leaks: not judged, {counted} ended, at least {least} are needed"
        return SlowLeaks(GROWTH_SCHEMA.to_frame(), 0, (remark,), coverage)
    placed = with_steps(recording.blocks, bounds)
    # A pool's reserve grows with what it hands out, which is judged itself.
    reserve = segments_at_end(placed, recording.events)
    blocks = placed.filter((pl.col("last_end") > WARM_UP_STEPS) & ~pl.col("malloc_sequence").is_in(reserve.implode()))
    sites = call_sites(recording, blocks).with_columns(site_id=pl.col("site_path").rank("dense").cast(pl.UInt32))
    blocks = blocks.join(sites, on=STACK_COLUMNS, how="left", maintain_order="left")
    parts = [GROWTH_SCHEMA.to_frame()]
    judged = 0
    for (ended,), part in blocks.partition_by("ended", as_dict=True).items():
        if ended >= least:
            grown, count = _grown(part, int(ended), options)
            judged += count
            parts.append(grown)
    order = ["slope_bytes_per_step", "last_bytes", "site_path", "device", "pool"]
    found = pl.concat(parts).sort(order, descending=[True, True, False, False, False])
    return SlowLeaks(found, judged, (), coverage)


def _grown(blocks: pl.DataFrame, ended: int, options: GrowthOptions) -> tuple[pl.DataFrame, int]:
    """Returns the growing sites of devices with the same number of steps, and how many sites there are."""
    groups = blocks.group_by(SITE_KEY).agg(pl.col("site", "site_path").first()).sort(SITE_KEY).with_row_index("group")
    group = blocks.join(groups, on=SITE_KEY, how="left", maintain_order="left")["group"].to_numpy().astype(np.int64)
    steps = np.unique(np.linspace(WARM_UP_STEPS + 1, ended, min(ended - WARM_UP_STEPS, _MOST_STEPS)).astype(np.int64))
    live = live_series(group, groups.height, blocks, steps)
    count = live_series(group, groups.height, blocks.with_columns(size=pl.lit(1)), steps[-1:])
    candidates = np.flatnonzero(live[:, -1] - live[:, 0] >= max(options.minimum_bytes, 1))
    series = live[candidates].astype(np.float64)
    whole, half = trends(series), trends(series[:, len(steps) // 2 :])
    significance = np.maximum(whole.significance, half.significance)
    grows = (significance <= options.significance) & (whole.slope > 0) & (half.slope > 0)
    # Of a long run only some steps are in the series: a position is several steps.
    steps_per_position = (steps[-1] - steps[0]) / (len(steps) - 1)
    rows = candidates[grows]
    found = groups[rows].with_columns(
        pl.Series("slope_bytes_per_step", whole.slope[grows] / steps_per_position),
        pl.Series("significance", significance[grows]),
        pl.Series("first_bytes", live[rows, 0]),
        pl.Series("last_bytes", live[rows, -1]),
        pl.Series("last_blocks", count[rows, 0]),
        first_step=pl.lit(int(steps[0])),
        last_step=pl.lit(int(steps[-1])),
    )
    return found.select(GROWTH_SCHEMA.names()).cast(GROWTH_SCHEMA), groups.height


def live_series(
    group: np.ndarray[Any, np.dtype[np.int64]],
    groups: int,
    blocks: pl.DataFrame,
    steps: np.ndarray[Any, np.dtype[np.int64]],
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Sum up what is alive at the end of each of some steps.

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


def trends(series: Figures) -> Trends:
    """Find the trend of each series.

    Args:
        series: A row per series, a column per position; at least three positions.

    Returns:
        Slope and significance of each.
    """
    count, length = series.shape
    slope = np.zeros(count)
    score = np.zeros(count)
    earlier, later = np.triu_indices(length, k=1)
    at_once = max(_PAIRS_AT_ONCE // len(earlier), 1)
    for start in range(0, count, at_once):
        part = slice(start, start + at_once)
        differences = series[part][:, later] - series[part][:, earlier]
        slope[part] = np.median(differences / (later - earlier), axis=1)
        score[part] = np.sign(differences).sum(axis=1)
    variance = _score_variance(series) * _widening(series, slope)
    # Continuity correction: the score moves in steps of two.
    shifted = np.sign(score) * np.maximum(np.abs(score) - 1, 0)
    z = np.divide(shifted, np.sqrt(variance), out=np.zeros(count), where=variance > 0)
    significance = np.array([0.5 * math.erfc(one / math.sqrt(2)) for one in z])
    return Trends(slope, significance)


def _score_variance(series: Figures) -> Figures:
    """Returns the variance of Mann and Kendall's score without a trend, with the correction for equal values."""
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


def _widening(series: Figures, slope: Figures) -> Figures:
    """Returns by what autocorrelation of neighbouring steps widens the variance; never below 1."""
    length = series.shape[1]
    rest = series - slope[:, None] * np.arange(length)
    rest = rest - rest.mean(axis=1, keepdims=True)
    power = (rest**2).sum(axis=1)
    # What the slope leaves of a straight line is rounding.
    scale = (series**2).sum(axis=1) * 1e-12
    neighbours = (rest[:, 1:] * rest[:, :-1]).sum(axis=1)
    r = np.divide(neighbours, power, out=np.zeros(len(series)), where=power > scale)
    # Short series show less of it than there is (Kendall 1954).
    r = np.where(power > scale, r + (1 + 4 * r) / length, 0.0)
    r = np.clip(r, 0.0, _MOST_AUTOCORRELATION)
    widening: Figures = (1 + r) / (1 - r)
    return widening

"""Slow leaks: call sites whose live memory grows over many steps, whatever becomes of single blocks.

A queue that is drained too slowly, or a cache whose entries live longer and longer, frees every block and grows all the
same. So the bytes of each call site that are alive at the end of each step are taken as a series, and a robust trend is
looked for: Theil and Sen's slope, the median of the slopes between all pairs of steps, and the significance of Mann and
Kendall's test, one-sided.

That test takes steps as independent. The use of a pool is not: what is alive at one end of a step is often alive at the
next. So its variance is widened by (1 + r) / (1 - r), r being the autocorrelation of neighbouring steps after the trend
is removed, corrected for the bias that it has in short series. And the trend must show in the whole run and in its
second half by itself, so that what fills up and then stays is none.

A program without steps, a server for example, is judged by the parts of its run: so many that each has the same number of
allocations. What counts of a call site is what lives through a part from end to end, and it must rise in several parts of each
half. Only a program that gives back something in most of its parts is judged: what fills memory once and then ends does
nothing that could be called growth.

The stated rate: of call sites whose use is stationary, independent from step to step or autocorrelated up to 0.9, at most
1 in 200 is named at the default significance of 0.001. A use that swings with a period longer than the run looks like
growth; so does one that has not filled up when the run ends.
"""

from __future__ import annotations

import dataclasses
import math
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.analysis.coverage import Coverage, Subject, coverage_of
from msmemscope.analysis.leaks.sites import SITE_KEY
from msmemscope.analysis.options import Chance, QuestionOptions, Size, option
from msmemscope.analysis.recorded import Need
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.pools import Pool
from msmemscope.recording.call_sites import STACK_COLUMNS, call_sites
from msmemscope.recording.holders import block_holders, main_holders
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

_JUDGED: Final = [
    "device",
    "pool",
    "flags",
    "address",
    "size",
    "thread_id",
    "malloc_sequence",
    "free_sequence",
    *STACK_COLUMNS,
]
"""Columns of blocks that are looked at: they are copied several times."""
_LEAST_HALF: Final = 8
"""Step ends in the second half of a run: with fewer, no trend could be significant."""
_LEAST_SIZES: Final = 10
"""How often blocks that each step makes anew must have grown to be some that are added to."""
_MOST_STEPS: Final = 128
"""Step ends of a series; of a longer run, evenly spaced ones are taken."""
_PAIRS_AT_ONCE: Final = 1 << 22
"""Pairs of steps whose differences are held in memory at a time."""
_MOST_AUTOCORRELATION: Final = 0.95
_MOST_PARTS: Final = 64
"""Parts of a run without steps."""
_LEAST_IN_PART: Final = 4
"""Allocations of a part."""
_LEAST_RISES: Final = 3
"""Parts in each half of a run in which a call site must rise."""
_LEAST_BUSY_SHARE: Final = 0.75
"""Of the parts, those in which something is given back that is not older than two parts."""


class GrowthBasis(Enum):
    """What a run is divided into to be judged; the value is how people are told of one."""

    STEPS = "step"
    PARTS = "part of the run"
    """Of a program without steps: parts with the same number of allocations each."""


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
        "held_by": pl.String(),
    }
)
"""One row per call site in one pool of one device that grows, steepest first.

slope_bytes_per_step: median growth of its live bytes per step. Where there are no steps, steps are parts of the run here and
    below: see `SlowLeaks.basis`.
significance: chance that steps without a trend look like this or more so; the larger of whole run and second half.
first_bytes, last_bytes: alive at the end of first_step and of last_step.
last_blocks: blocks alive at the end of last_step.
held_by: what of the program refers to most of those that this is known of, `recording.holders`; null if it is not known.
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
    basis: GrowthBasis = GrowthBasis.STEPS
    """What the run was divided into."""
    blocks: pl.Series = dataclasses.field(default_factory=lambda: pl.Series(dtype=pl.UInt64))
    """`malloc_sequence` of the blocks of these sites that are alive in the end."""

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
        recording: Of a process.
        options: What counts as growth.

    Returns:
        The call sites; none, and a remark, if too few steps have ended, or of a program without any, too little has happened.
    """
    options = options or GrowthOptions()
    coverage = coverage_of(SUBJECT, recording)
    bounds = process_steps(recording)
    least = WARM_UP_STEPS + 2 * _LEAST_HALF
    if bounds.ended <= WARM_UP_STEPS:
        return _growth_over_time(recording, options, coverage, least)
    if bounds.ended < least:
        counted = {0: "no step has", 1: "1 step has"}.get(bounds.ended, f"{bounds.ended} steps have")
        remark = f"slow leaks: not judged, {counted} ended, at least {least} are needed"
        return SlowLeaks(GROWTH_SCHEMA.to_frame(), 0, (remark,), coverage)
    placed = with_steps(recording.blocks.select(_JUDGED), bounds)
    # A pool's reserve grows with what it hands out, which is judged itself.
    reserve = segments_at_end(placed, recording.events)
    # Pinned memory is kept by torch's allocator: `pinned_growth` judges it.
    is_pinned = (pl.col("device") == DEVICE_CPU) & (pl.col("pool") == Pool.HAL)
    is_reserve = pl.col("malloc_sequence").is_in(reserve.implode())
    blocks = placed.filter((pl.col("last_end") > WARM_UP_STEPS) & ~is_reserve & ~is_pinned)
    blocks = _with_sites(recording, blocks)
    parts = [GROWTH_SCHEMA.to_frame()]
    judged = 0
    for (ended,), part in blocks.partition_by("ended", as_dict=True).items():
        if ended >= least:
            grown, count = _grown(part, int(ended), options)
            judged += count
            parts.append(grown)
    return _slow_leaks(recording, pl.concat(parts), blocks, SlowLeaks(GROWTH_SCHEMA.to_frame(), judged, (), coverage))


def _with_sites(recording: Recording, blocks: pl.DataFrame) -> pl.DataFrame:
    sites = call_sites(recording, blocks).with_columns(site_id=pl.col("site_path").rank("dense").cast(pl.UInt32))
    return blocks.join(sites, on=STACK_COLUMNS, how="left", maintain_order="left")


def _slow_leaks(recording: Recording, grown: pl.DataFrame, blocks: pl.DataFrame, without: SlowLeaks) -> SlowLeaks:
    """Returns the answer with the call sites that grow, and what holds their blocks."""
    key = ["device", "pool", "site_path"]
    alive = blocks.filter(pl.col("last_end") == pl.col("ended")).join(grown.select(key), on=key, how="semi")
    held = main_holders(alive, block_holders(recording), key)
    order = ["slope_bytes_per_step", "last_bytes", "site_path", "device", "pool"]
    sites = (
        grown.drop("held_by")
        .join(held, on=key, how="left")
        .select(GROWTH_SCHEMA.names())
        .sort(order, descending=[True, True, False, False, False])
    )
    return dataclasses.replace(without, sites=sites, blocks=alive["malloc_sequence"])


def _growth_over_time(recording: Recording, options: GrowthOptions, coverage: Coverage, least: int) -> SlowLeaks:
    """Judge a program without steps by the parts of its run."""
    blocks = recording.blocks.select(_JUDGED)
    nothing = SlowLeaks(GROWTH_SCHEMA.to_frame(), 0, (), coverage, GrowthBasis.PARTS)
    parts = min(blocks.height // _LEAST_IN_PART, _MOST_PARTS)
    if parts < least:
        remark = (
            f"growth: not judged, there are too few steps and {blocks.height} allocations; without steps, at least "
            f"{least * _LEAST_IN_PART} are needed"
        )
        return dataclasses.replace(nothing, remarks=(remark,))
    placed, busy_parts = _in_parts(blocks, parts)
    if busy_parts < _LEAST_BUSY_SHARE * parts:
        remark = "growth: not judged, there are too few steps, and the program gives back too little to be a loop or a server"
        return dataclasses.replace(nothing, remarks=(remark,))
    # Each pool has its own pace: threads that allocate in different ones run ahead of each other. Small pools have none.
    own, rest = [], []
    for pool_blocks in blocks.partition_by("device", "pool", maintain_order=True):
        own_parts = min(pool_blocks.height // _LEAST_IN_PART, _MOST_PARTS)
        if own_parts >= least:
            own.append((_in_parts(pool_blocks, own_parts)[0], own_parts))
        else:
            rest.append(placed.join(pool_blocks.select("malloc_sequence"), on="malloc_sequence", how="semi"))
    if rest:
        own.append((pl.concat(rest), parts))
    reserve = segments_at_end(placed, recording.events)
    placed = _with_sites(
        recording, pl.concat(part for part, _ in own).filter(~pl.col("malloc_sequence").is_in(reserve.implode()))
    )
    lasting = placed.filter(pl.col("last_end") >= pl.col("first_end"))
    if lasting.is_empty():
        return nothing
    judged = [
        _grown(part, part["ended"][0], options, least_rises=_LEAST_RISES)
        for part in lasting.partition_by("ended", maintain_order=True)
    ]
    grown = pl.concat([rows for rows, _ in judged])
    nothing = dataclasses.replace(nothing, judged_sites=sum(count for _, count in judged))
    # Those allocated in the last part are alive, too, and of the same sites.
    return _slow_leaks(recording, grown, placed, nothing)


def _in_parts(blocks: pl.DataFrame, parts: int) -> tuple[pl.DataFrame, int]:
    """Cut a run into parts with equally many allocations.

    Args:
        blocks: In the order of their allocation.
        parts: How many.

    Returns:
        The blocks with `first_end`, `last_end` and `ended` as of steps; and in how many parts some came and went.
    """
    allocated = blocks["malloc_sequence"].to_numpy()
    freed = blocks["free_sequence"].fill_null(np.iinfo(np.uint64).max).to_numpy()
    begins = allocated[np.linspace(0, len(allocated), parts, endpoint=False).astype(np.int64)]
    # What is freed after the last allocation is freed because the program ends, or might as well be.
    ends = np.append(begins[1:], allocated[-1])
    part = np.searchsorted(begins, allocated, side="right")
    # Lived through from end to end; the part of its own allocation does not count.
    last_end = np.searchsorted(ends, freed, side="left")
    busy = np.unique(part[(freed <= ends[-1]) & (last_end <= part + 1)])
    placed = blocks.with_columns(
        pl.Series("first_end", part + 1),
        pl.Series("last_end", np.where(last_end >= part, last_end, 0)),
        ended=pl.lit(parts, dtype=pl.Int64),
    )
    return placed, len(busy)


def _grown(blocks: pl.DataFrame, ended: int, options: GrowthOptions, least_rises: int = 0) -> tuple[pl.DataFrame, int]:
    """Returns the growing sites of devices with the same number of steps, and how many sites there are."""
    groups = blocks.group_by(SITE_KEY).agg(pl.col("site", "site_path").first()).sort(SITE_KEY).with_row_index("group")
    group = blocks.join(groups, on=SITE_KEY, how="left", maintain_order="left")["group"].to_numpy().astype(np.int64)
    steps = np.unique(np.linspace(WARM_UP_STEPS + 1, ended, min(ended - WARM_UP_STEPS, _MOST_STEPS)).astype(np.int64))
    live = live_series(group, groups.height, blocks, steps)
    count = live_series(group, groups.height, blocks.with_columns(size=pl.lit(1)), steps[[0, -1]])
    candidates = np.flatnonzero(live[:, -1] - live[:, 0] >= max(options.minimum_bytes, 1))
    series = live[candidates].astype(np.float64)
    whole, half = trends(series), trends(series[:, len(steps) // 2 :])
    significance = np.maximum(whole.significance, half.significance)
    grows = (significance <= options.significance) & (whole.slope > 0) & (half.slope > 0)
    middle = len(steps) // 2
    rises = np.diff(series, axis=1) > 0
    grows &= np.minimum(rises[:, :middle].sum(axis=1), rises[:, middle:].sum(axis=1)) >= least_rises
    # As many blocks as before, made anew by each step, of a few sizes: what comes in is larger, and nothing is kept.
    longest = np.zeros(groups.height, np.int64)
    np.maximum.at(longest, group, (blocks["last_end"] - blocks["first_end"]).to_numpy())
    grows &= (
        (count[candidates, 1] > count[candidates, 0]) | (longest[candidates] > 1) | (rises.sum(axis=1) >= _LEAST_SIZES)
    )
    # Of a long run only some steps are in the series: a position is several steps.
    steps_per_position = (steps[-1] - steps[0]) / (len(steps) - 1)
    rows = candidates[grows]
    found = groups[rows].with_columns(
        pl.Series("slope_bytes_per_step", whole.slope[grows] / steps_per_position),
        pl.Series("significance", significance[grows]),
        pl.Series("first_bytes", live[rows, 0]),
        pl.Series("last_bytes", live[rows, -1]),
        pl.Series("last_blocks", count[rows, 1]),
        first_step=pl.lit(int(steps[0])),
        last_step=pl.lit(int(steps[-1])),
        held_by=pl.lit(None, dtype=pl.String),
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

"""Call sites that grow: the judgement of the series of each, over steps or other parts of a run.

The live bytes of a call site at the end of each step are a series. It grows if Theil and Sen's slope is positive, and
Mann and Kendall's test significant. Both must hold in the whole run and in its second half by itself (`trends`).

A window that is full has grown, too: the last results that a program keeps, say. Each new block takes the place of an
old one then, so as many are alive at the end of each step. That is no growth, where it has gone on for long enough.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from msmemscope.analysis.leaks.sites import SITE_KEY
from msmemscope.analysis.leaks.trends import growth, live_series, positions
from msmemscope.analysis.options import Chance, QuestionOptions, Size, option
from msmemscope.recording.call_sites import STACK_COLUMNS, call_sites
from msmemscope.recording.step_bounds import WARM_UP_STEPS
from msmemscope.units import SIZE_FORMS

if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from msmemscope.recording import Recording

WholeNumbers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Flags: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"

JUDGED: Final = [
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
GROWN_KEY: Final = ["device", "pool", "site_path"]
"""Columns that tell the rows of GROWTH_SCHEMA apart."""
LEAST_STEPS: Final = WARM_UP_STEPS + 2 * 8 - 1
"""Steps, or parts of a run, that a trend needs: with fewer than 8 ends in the second half, none could be significant."""
_LEAST_SIZES: Final = 10
"""Blocks that each step makes anew count as added to if they have grown so often."""
_LEAST_FULL: Final = 8
"""Ends of steps with as many blocks alive, and a tenth of all, that a full window shows."""
_LEAST_FULL_SHARE: Final = 1 / 10
_FULL_RATIO: Final = 3
"""And so many times as long as the number stayed the same while it grew."""
_SMALL_BYTES: Final = 1 << 20
_SMALL_SHARE: Final = 1 / 20
"""Of the bytes in use of its pool. Blocks that replace each other and have grown by less than both limits are, say, a
sequence that a model continues. It ends before it matters.
"""

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
        "viewed_share": pl.Float64(),
        "phase": pl.String(),
    }
)
"""One row per call site in one pool of one device that grows, steepest first.

slope_bytes_per_step: median growth of its live bytes per step. Where there are no steps, steps are parts of the run here and
    below: see `growth.SlowLeaks.basis`.
significance: chance that steps without a trend look like this or more so; the larger of whole run and second half.
first_bytes, last_bytes: alive at the end of first_step and of last_step.
last_blocks: blocks alive at the end of last_step.
held_by: the holder of most blocks with a known holder, `recording.holders`; null if none is known.
viewed_share: as of leaks over steps, `step_leaks.LEAK_SITE_SCHEMA`.
phase: of growth outside of steps, when it was: `after the last step`. Null elsewhere.
"""


@dataclasses.dataclass(frozen=True)
class GrowthOptions(QuestionOptions):
    """The limits of growth."""

    significance: float = option(0.001, Chance(), "accepted chance per call site")
    """The chance, per call site, that is accepted for steps without a trend to be taken for one."""
    minimum_bytes: int = option(1, Size(), f"least growth: {SIZE_FORMS}", spelling="--minimum-size")
    """Growth from the first to the last step below which a call site is not looked at."""


def with_sites(recording: Recording, blocks: pl.DataFrame) -> pl.DataFrame:
    """Add to each block its call site: `site`, `site_path`, and `site_id`, a number for it."""
    sites = call_sites(recording, blocks).with_columns(site_id=pl.col("site_path").rank("dense").cast(pl.UInt32))
    return blocks.join(sites, on=STACK_COLUMNS, how="left", maintain_order="left")


def growing_sites(
    blocks: pl.DataFrame, ended: int, options: GrowthOptions, least_rises: int = 0
) -> tuple[pl.DataFrame, int]:
    """Find the call sites that grow on devices with the same number of steps.

    Args:
        blocks: With `first_end` and `last_end` as `step_bounds.with_steps` has them, and their call sites.
        ended: Steps, or parts of the run, that have ended.
        options: The limits of growth.
        least_rises: Ends in each half of the run at which a site must rise.

    Returns:
        The sites, of GROWTH_SCHEMA, and how many were judged.
    """
    groups = blocks.group_by(SITE_KEY).agg(pl.col("site", "site_path").first()).sort(SITE_KEY).with_row_index("group")
    group = blocks.join(groups, on=SITE_KEY, how="left", maintain_order="left")["group"].to_numpy().astype(np.int64)
    steps = positions(WARM_UP_STEPS + 1, ended)
    live = live_series(group, groups.height, blocks, steps)
    count = live_series(group, groups.height, blocks.with_columns(size=pl.lit(1)), steps)
    candidates = np.flatnonzero(live[:, -1] - live[:, 0] >= max(options.minimum_bytes, 1))
    series = live[candidates].astype(np.float64)
    trend = growth(series)
    grows = trend.significance <= options.significance
    middle = len(steps) // 2
    rises = np.diff(series, axis=1) > 0
    grows &= np.minimum(rises[:, :middle].sum(axis=1), rises[:, middle:].sum(axis=1)) >= least_rises
    # As many blocks as before, made anew by each step, of a few sizes: the inputs are larger, and nothing is kept.
    longest = np.zeros(groups.height, np.int64)
    np.maximum.at(longest, group, (blocks["last_end"] - blocks["first_end"]).to_numpy())
    grows &= (
        (count[candidates, -1] > count[candidates, 0]) | (longest[candidates] > 1) | (rises.sum(axis=1) >= _LEAST_SIZES)
    )
    grows &= ~_full_windows(count, group, blocks, steps)[candidates]
    in_use = groups.select(pl.lit(pl.Series(live[:, -1])).sum().over("device", "pool")).to_series().to_numpy()
    risen = live[candidates, -1] - live[candidates, 0]
    is_small = (risen < _SMALL_BYTES) & (risen < in_use[candidates] * _SMALL_SHARE)
    grows &= (count[candidates, -1] > count[candidates, 0]) | ~is_small
    # Of a long run only some steps are in the series: a position is several steps.
    steps_per_position = (steps[-1] - steps[0]) / (len(steps) - 1)
    rows = candidates[grows]
    found = groups[rows].with_columns(
        pl.Series("slope_bytes_per_step", trend.slope[grows] / steps_per_position),
        pl.Series("significance", trend.significance[grows]),
        pl.Series("first_bytes", live[rows, 0]),
        pl.Series("last_bytes", live[rows, -1]),
        pl.Series("last_blocks", count[rows, -1]),
        first_step=pl.lit(int(steps[0])),
        last_step=pl.lit(int(steps[-1])),
        held_by=pl.lit(None, dtype=pl.String),
        viewed_share=pl.lit(None, dtype=pl.Float64),
        phase=pl.lit(None, dtype=pl.String),
    )
    return found.select(GROWTH_SCHEMA.names()).cast(GROWTH_SCHEMA), groups.height


def _full_windows(count: WholeNumbers, group: WholeNumbers, blocks: pl.DataFrame, steps: WholeNumbers) -> Flags:
    """Tell which call sites exchange their blocks one for one in the end, after they had grown.

    Args:
        count: Blocks that are alive, a row per call site and a column per step.
        group: The call site of each block.
        blocks: Their `first_end` and `last_end`.
        steps: Of the columns.
    """
    row, column = np.nonzero(np.diff(count, axis=1))
    last_change = np.zeros(len(count), np.int64)
    last_change[row] = column + 1
    longest = np.zeros(len(count), np.int64)
    is_same_row = row[1:] == row[:-1]
    np.maximum.at(longest, row[1:][is_same_row], np.diff(column)[is_same_row])
    full_for = len(steps) - 1 - last_change
    is_long = full_for >= np.maximum(max(_LEAST_FULL, _LEAST_FULL_SHARE * len(steps)), _FULL_RATIO * longest)
    # Since then older blocks have been freed: those that a program keeps stay, whatever else the line makes.
    since = steps[last_change][group]
    first_end, last_end = blocks["first_end"].to_numpy(), blocks["last_end"].to_numpy()
    is_freed = (last_end >= since) & (last_end < steps[-1])
    freed = np.bincount(group[is_freed], minlength=len(count))
    older = np.bincount(group[is_freed & (first_end <= since)], minlength=len(count))
    found: Flags = is_long & (2 * freed >= full_for) & (2 * older >= freed)
    return found

"""Slow leaks: call sites whose live memory grows over many steps, whatever becomes of single blocks.

A queue that is drained too slowly, or a cache whose entries live longer and longer, frees every block and grows all the
same. So the bytes of each call site that are alive at the end of each step are taken as a series, and a robust trend is
looked for: Theil and Sen's slope, the median of the slopes between all pairs of steps, and the significance of Mann and
Kendall's test, one-sided. The trend must show in the whole run and in its second half by itself, so that what fills up and then
stays is none.

Steps that do more need more, and keep nothing: a call site whose blocks do not become more, each gone after a step, is
passed over where what comes and goes within the steps of its pool has grown by twice as much.

A program without steps, a server for example, is judged by the parts of its run: so many that each has the same number of
allocations. What counts of a call site is what lives through a part from end to end, and it must rise in several parts of each
half. Only a program that gives back something in most of its parts is judged: what fills memory once and then ends does
nothing that could be called growth. Neither is what adds up within one forward pass (`one_pass`).

The stated rate: of call sites whose use is stationary, independent from step to step or autocorrelated up to 0.9, at most
1 in 200 is named at the default significance of 0.001. A use that swings with a period longer than the run looks like
growth; so does one that has not filled up when the run ends.
"""

from __future__ import annotations

import dataclasses
import re
from enum import Enum
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from msmemscope.analysis.coverage import Coverage, Subject, coverage_of
from msmemscope.analysis.leaks.one_pass import line_of_one_pass
from msmemscope.analysis.leaks.sites import SITE_KEY
from msmemscope.analysis.leaks.trends import live_series, trends
from msmemscope.analysis.options import Chance, QuestionOptions, Size, option
from msmemscope.analysis.recorded import Need
from msmemscope.analysis.remark import Remark
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.holders import HELD_BY_C, OF_MODULE
from msmemscope.model.pools import Pool
from msmemscope.recording.call_sites import STACK_COLUMNS, call_sites
from msmemscope.recording.holders import block_holders, filling_blocks, held_now_or_before, main_holders
from msmemscope.recording.pool_segments import segments_at_end
from msmemscope.recording.step_bounds import WARM_UP_STEPS, process_steps, with_steps
from msmemscope.units import SIZE_FORMS, format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from msmemscope.recording import Recording

SUBJECT: Final = Subject(
    "Growth", needed=(Need.ALLOCATIONS, Need.ALL_STEPS), helpful=(Need.FREES, Need.STACKS, Need.STEPS)
)
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
_PASSING_RATIO: Final = 2
"""How many times as much as a call site what comes and goes within steps must have grown to explain it."""
_GROWN_KEY: Final = ["device", "pool", "site_path"]
_OF_NO_VARIABLE: Final = rf"^(?:{OF_MODULE}|{re.escape(HELD_BY_C)})"
_LONG_STEP_RATIO: Final = 4
"""How many times as many allocations as usual a step has that is judged by itself."""
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
        "phase": pl.String(),
    }
)
"""One row per call site in one pool of one device that grows, steepest first.

slope_bytes_per_step: median growth of its live bytes per step. Where there are no steps, steps are parts of the run here and
    below: see `SlowLeaks.basis`.
significance: chance that steps without a trend look like this or more so; the larger of whole run and second half.
first_bytes, last_bytes: alive at the end of first_step and of last_step.
last_blocks: blocks alive at the end of last_step.
held_by: what of the program refers to most of those that this is known of, `recording.holders`; null if it is not known.
phase: of growth outside of steps, when it was: `after the last step`. Null elsewhere.
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
    remarks: tuple[Remark, ...]
    """What could not be judged."""
    coverage: Coverage
    """What of this is answered."""
    basis: GrowthBasis = GrowthBasis.STEPS
    """What the run was divided into."""
    explained: tuple[str, ...] = ()
    """Growth that is no leak, one sentence each."""
    blocks: pl.Series = dataclasses.field(default_factory=lambda: pl.Series(dtype=pl.UInt64))
    """`malloc_sequence` of the blocks of these sites that are alive in the end."""

    def to_polars(self) -> pl.DataFrame:
        """Returns the sites, of GROWTH_SCHEMA."""
        return self.sites


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
    least = WARM_UP_STEPS + 2 * _LEAST_HALF - 1
    if bounds.ended <= WARM_UP_STEPS:
        return _growth_over_time(recording, options, coverage, least)
    if bounds.ended < least:
        counted = {0: "no step has", 1: "1 step has"}.get(bounds.ended, f"{bounds.ended} steps have")
        remark = Remark("slow leaks", f"{counted} ended, at least {least} are needed")
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
            parts.append(_without_larger_steps(grown, placed.filter(pl.col("ended") == ended), part))
    return _slow_leaks(recording, pl.concat(parts), blocks, SlowLeaks(GROWTH_SCHEMA.to_frame(), judged, (), coverage))


def _without_larger_steps(grown: pl.DataFrame, placed: pl.DataFrame, blocks: pl.DataFrame) -> pl.DataFrame:
    """Returns the growing call sites without those that hold one batch at a time, in steps that work on ever larger ones.

    Args:
        grown: GROWTH_SCHEMA.
        placed: All blocks with their steps.
        blocks: Those that were alive at the end of a step, with their call sites.
    """
    is_early, is_late = (pl.col("step") < pl.col("ended") / 4, pl.col("step") > pl.col("ended") * 3 / 4)
    of_step = placed.filter((pl.col("last_end") == 0) & (pl.col("step") > WARM_UP_STEPS)).group_by(
        "device", "pool", "step", "ended"
    )
    passing = (
        of_step.agg(pl.col("size").sum())
        .group_by("device", "pool")
        .agg(grown_passing=pl.col("size").filter(is_late).mean() - pl.col("size").filter(is_early).mean())
    )
    alive = (
        blocks.join(grown.select(_GROWN_KEY), on=_GROWN_KEY, how="semi")
        .group_by(_GROWN_KEY)
        .agg(
            (pl.col("last_end") - pl.col("first_end")).max().alias("longest"),
            pl.col("step").n_unique().alias("steps"),
            pl.len().alias("blocks"),
        )
    )
    is_batch = (
        (pl.col("longest") == 0)
        & (pl.col("blocks") % pl.col("steps") == 0)
        & (pl.col("grown_passing") >= _PASSING_RATIO * (pl.col("last_bytes") - pl.col("first_bytes")))
    )
    return (
        grown.join(alive, on=_GROWN_KEY, how="left", maintain_order="left")
        .join(passing, on=["device", "pool"], how="left", maintain_order="left")
        .filter(~is_batch.fill_null(value=False))
        .select(grown.columns)
    )


def _with_sites(recording: Recording, blocks: pl.DataFrame) -> pl.DataFrame:
    sites = call_sites(recording, blocks).with_columns(site_id=pl.col("site_path").rank("dense").cast(pl.UInt32))
    return blocks.join(sites, on=STACK_COLUMNS, how="left", maintain_order="left")


def _slow_leaks(recording: Recording, grown: pl.DataFrame, blocks: pl.DataFrame, without: SlowLeaks) -> SlowLeaks:
    """Returns the answer with the call sites that grow, and what holds their blocks."""
    grows = blocks.join(grown.select(_GROWN_KEY), on=_GROWN_KEY, how="semi")
    alive = grows.filter(pl.col("last_end") == pl.col("ended"))
    holders = block_holders(recording)
    held = held_now_or_before(alive, grows, holders, _GROWN_KEY)
    named = alive.join(holders, on="malloc_sequence", maintain_order="left")
    filling = named.filter(filling_blocks(named)).select(_GROWN_KEY).unique()
    grown = grown.join(filling, on=_GROWN_KEY, how="anti", maintain_order="left")
    alive = alive.join(filling, on=_GROWN_KEY, how="anti", maintain_order="left")
    order = ["slope_bytes_per_step", "last_bytes", "site_path", "device", "pool"]
    sites = (
        grown.drop("held_by")
        .join(held, on=_GROWN_KEY, how="left")
        .select(GROWTH_SCHEMA.names())
        .sort(order, descending=[True, True, False, False, False])
    )
    return dataclasses.replace(without, sites=sites, blocks=alive["malloc_sequence"])


def _growth_over_time(recording: Recording, options: GrowthOptions, coverage: Coverage, least: int) -> SlowLeaks:
    """Judge a program without steps by the parts of its run."""
    blocks = recording.blocks.select(_JUDGED)
    nothing = SlowLeaks(GROWTH_SCHEMA.to_frame(), 0, (), coverage, GrowthBasis.PARTS)
    if min(blocks.height // _LEAST_IN_PART, _MOST_PARTS) < least:
        remark = Remark(
            "growth",
            f"there are too few steps and {blocks.height} allocations; without steps, at least {least * _LEAST_IN_PART} are needed",
        )
        return dataclasses.replace(nothing, remarks=(remark,))
    found = _grown_over_parts(recording, blocks, options, least)
    if found is None:
        remark = Remark(
            "growth", "there are too few steps, and the program gives back too little to be a loop or a server"
        )
        return dataclasses.replace(nothing, remarks=(remark,))
    grown, placed, judged = found
    line = line_of_one_pass(recording, placed.join(grown, on=_GROWN_KEY, how="semi")["malloc_sequence"])
    if line:
        size = format_bytes(int((grown["last_bytes"] - grown["first_bytes"]).sum()))
        explained = f"{size} grew within one forward pass, at {line}: its backward pass has not run, and frees it."
        return dataclasses.replace(nothing, judged_sites=judged, explained=(explained,))
    # Those allocated in the last part are alive, too, and of the same sites.
    return _slow_leaks(recording, grown, placed, dataclasses.replace(nothing, judged_sites=judged))


def find_growth_outside_steps(recording: Recording, options: GrowthOptions | None = None) -> SlowLeaks:
    """Find the call sites that grow where a program with steps has none: before the first has ended, after the last, within a long one.

    A phase is judged as a run without steps is. What a call site left in it must still be there in the end, and it must be
    known what holds it: no weights or other tensors of a module, which are loaded in a loop, too.

    Args:
        recording: Of a process.
        options: What counts as growth.

    Returns:
        The call sites, with their `phase`; none if the program has no steps.
    """
    options = options or GrowthOptions()
    least = WARM_UP_STEPS + 2 * _LEAST_HALF - 1
    nothing = SlowLeaks(GROWTH_SCHEMA.to_frame(), 0, (), coverage_of(SUBJECT, recording), GrowthBasis.PARTS)
    bounds = process_steps(recording)
    if bounds.ended <= WARM_UP_STEPS or recording.blocks.is_empty():
        return nothing
    placed = with_steps(recording.blocks.select(_JUDGED), bounds)
    holders = block_holders(recording)
    freed = pl.col("free_sequence")
    # What is freed after the last allocation is freed because the program ends, or might as well be.
    is_freed_last = freed.is_null() | (freed > placed["malloc_sequence"].max())
    is_left = is_freed_last | (pl.col("last_end") == pl.col("ended"))
    rows, blocks = [nothing.sites], []
    for phase, of_phase in _phases(placed, least * _LEAST_IN_PART):
        found = _grown_over_parts(recording, of_phase.select(_JUDGED), options, least)
        if found is None or found[0].is_empty():
            continue
        grown, in_parts, _ = found
        left = of_phase.filter(is_left).select("malloc_sequence")
        lasting = in_parts.join(grown.select(_GROWN_KEY), on=_GROWN_KEY, how="semi").join(
            left, on="malloc_sequence", how="semi"
        )
        held = main_holders(lasting, holders, _GROWN_KEY).filter(~pl.col("held_by").str.contains(_OF_NO_VARIABLE))
        sums = lasting.group_by(_GROWN_KEY).agg(left_bytes=pl.col("size").sum())
        grown = (
            grown.drop("held_by", "phase")
            .join(held, on=_GROWN_KEY)
            .join(sums, on=_GROWN_KEY)
            .filter(2 * pl.col("left_bytes") >= pl.col("last_bytes"))
            .with_columns(phase=pl.lit(phase))
        )
        rows.append(grown.select(GROWTH_SCHEMA.names()).cast(GROWTH_SCHEMA))
        blocks.append(lasting.join(grown, on=_GROWN_KEY, how="semi")["malloc_sequence"])
    sites = pl.concat(rows).sort("last_bytes", descending=True)
    return dataclasses.replace(
        nothing, sites=sites, blocks=pl.concat(blocks) if blocks else nothing.blocks, judged_sites=sites.height
    )


def _phases(placed: pl.DataFrame, least: int) -> Iterator[tuple[str, pl.DataFrame]]:
    """The stretches of a run that no step of its loop explains, with the blocks that were allocated in them."""
    for of_group in placed.partition_by("ended"):
        ended = int(of_group["ended"][0])
        # By the next end: what comes between two ranges of the program is judged with the second.
        is_of_step = pl.col("first_end").is_between(WARM_UP_STEPS + 1, ended)
        counts = of_group.filter(is_of_step).group_by("first_end").len().sort("first_end")
        long = counts.filter(pl.col("len") >= _LONG_STEP_RATIO * pl.col("len").median())["first_end"]
        phases = (
            ("before the first step has ended", pl.col("first_end") <= WARM_UP_STEPS),
            *((f"within step {step}", pl.col("first_end") == step) for step in long),
            ("after the last step", pl.col("first_end") > ended),
        )
        for phase, is_in_phase in phases:
            of_phase = of_group.filter(is_in_phase)
            if of_phase.height >= least:
                yield phase, of_phase


def _grown_over_parts(
    recording: Recording, blocks: pl.DataFrame, options: GrowthOptions, least: int
) -> tuple[pl.DataFrame, pl.DataFrame, int] | None:
    """Judge blocks by parts of the time in which they were allocated, at least so many.

    Returns:
        The growing call sites, the blocks with their sites, and how many sites were judged; None if too little is given back
        to be a loop.
    """
    parts = min(blocks.height // _LEAST_IN_PART, _MOST_PARTS)
    placed, busy_parts = _in_parts(blocks, parts)
    if busy_parts < _LEAST_BUSY_SHARE * parts:
        return None
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
        return GROWTH_SCHEMA.to_frame(), placed, 0
    judged = [
        _grown(part, part["ended"][0], options, least_rises=_LEAST_RISES)
        for part in lasting.partition_by("ended", maintain_order=True)
    ]
    return pl.concat([rows for rows, _ in judged]), placed, sum(count for _, count in judged)


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
        phase=pl.lit(None, dtype=pl.String),
    )
    return found.select(GROWTH_SCHEMA.names()).cast(GROWTH_SCHEMA), groups.height

"""Slow leaks: call sites whose live memory grows over many steps, even if each block is freed.

A queue that is drained too slowly, or a cache whose entries live longer and longer, frees every block and grows all the
same. So the live bytes of each call site at the end of each step are taken as a series. A robust trend is looked for:
Theil and Sen's slope, the median of the slopes between all pairs of steps. Its significance is that of Mann and
Kendall's test, one-sided. The trend must show in the whole run and in its second half by itself. So memory that fills
up and then stays is none.

Steps that do more need more, and keep nothing. So a call site is passed over if its blocks do not become more, and each
is gone after a step. Besides, the short-lived memory of steps in its pool must have grown by twice as much.

A program without steps, a server for example, is judged by the parts of its run (`parts_of_run`). Memory that adds up
within one forward pass is no growth (`one_pass`), nor is the cache of a sequence that becomes longer (`longer_caches`).

The stated rate is for call sites with a stationary use, independent from step to step or autocorrelated up to 0.9. At
the default significance of 0.001, at most 1 in 200 of them is named. A use that swings with a period longer than the
run looks like growth. So does one that has not filled up when the run ends.
"""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.analysis.coverage import Coverage, Subject, coverage_of
from msmemscope.analysis.leaks.growing_sites import (
    GROWN_KEY,
    GROWTH_SCHEMA,
    JUDGED,
    LEAST_STEPS,
    GrowthOptions,
    growing_sites,
    with_sites,
)
from msmemscope.analysis.leaks.longer_caches import longer_caches
from msmemscope.analysis.leaks.one_pass import line_of_one_pass
from msmemscope.analysis.leaks.parts_of_run import LEAST_ALLOCATIONS, grown_over_parts
from msmemscope.analysis.recorded import Need
from msmemscope.analysis.remark import Remark
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.holders import GRADIENT
from msmemscope.model.pools import Pool
from msmemscope.recording.holders import (
    Filling,
    block_holders,
    filling_blocks,
    filling_containers,
    held_now_or_before,
)
from msmemscope.recording.pool_segments import segments_at_last_step
from msmemscope.recording.step_bounds import WARM_UP_STEPS, process_steps, with_steps
from msmemscope.units import format_bytes

if TYPE_CHECKING:
    from msmemscope.recording import Recording

SUBJECT: Final = Subject(
    "Growth", needed=(Need.ALLOCATIONS, Need.ALL_STEPS), helpful=(Need.FREES, Need.STACKS, Need.STEPS)
)
STATED_FALSE_POSITIVE_RATE: Final = 0.005
"""Of call sites with a stationary use, the share that is named at the default significance, at most; see above."""

_PASSING_RATIO: Final = 2
"""The short-lived memory of steps explains the growth of a call site if it has grown so many times as much."""


class GrowthBasis(Enum):
    """The parts of a run that are judged; the value is the word for people."""

    STEPS = "step"
    PARTS = "part of the run"
    """Of a program without steps: parts with the same number of allocations each."""


@dataclasses.dataclass(frozen=True)
class SlowLeaks:
    """The call sites of a process that grow."""

    sites: pl.DataFrame
    """GROWTH_SCHEMA."""
    judged_sites: int
    """Call sites with blocks alive at the end of a step, from the second step on."""
    remarks: tuple[Remark, ...]
    """The parts that could not be judged."""
    coverage: Coverage
    """The coverage of the answer."""
    basis: GrowthBasis = GrowthBasis.STEPS
    """The parts that the run was divided into."""
    filling: tuple[Filling, ...] = ()
    """Containers that take more still, whose blocks are no growth."""
    one_pass: tuple[str, ...] = ()
    """Growth that is no leak within one forward pass, in a sentence."""
    longer_caches: tuple[str, ...] = ()
    """Key-value caches of sequences that go on, which are no growth, in a sentence."""
    blocks: pl.Series = dataclasses.field(default_factory=lambda: pl.Series(dtype=pl.UInt64))
    """`malloc_sequence` of the blocks of these sites that are alive in the end."""

    @property
    def explained(self) -> tuple[str, ...]:
        """Growth that is no leak, one sentence each."""
        return (*(one.text for one in self.filling), *self.of_passes)

    @property
    def of_passes(self) -> tuple[str, ...]:
        """The part of it that is no container's."""
        return (*self.one_pass, *self.longer_caches)

    def to_polars(self) -> pl.DataFrame:
        """Return the sites, of GROWTH_SCHEMA."""
        return self.sites


def find_slow_leaks(recording: Recording, options: GrowthOptions | None = None) -> SlowLeaks:
    """Find the call sites whose live memory grows over the steps of a run.

    Args:
        recording: Of a process.
        options: The limits of growth.

    Returns:
        The call sites; none, and a remark, if too few steps have ended, or of a program without any, too little has happened.
    """
    options = options or GrowthOptions()
    coverage = coverage_of(SUBJECT, recording)
    bounds = process_steps(recording)
    if bounds.ended <= WARM_UP_STEPS:
        return _growth_over_time(recording, options, coverage)
    if bounds.ended < LEAST_STEPS:
        counted = {0: "no step has", 1: "1 step has"}.get(bounds.ended, f"{bounds.ended} steps have")
        remark = Remark("slow leaks", f"{counted} ended, at least {LEAST_STEPS} are needed")
        return SlowLeaks(GROWTH_SCHEMA.to_frame(), 0, (remark,), coverage)
    placed = with_steps(recording.blocks.select(JUDGED), bounds)
    # A pool's reserve grows with its blocks, which are judged themselves.
    reserve = segments_at_last_step(recording)
    # Pinned memory is kept by torch's allocator: `pinned_growth` judges it.
    is_pinned = (pl.col("device") == DEVICE_CPU) & (pl.col("pool") == Pool.HAL)
    is_reserve = pl.col("malloc_sequence").is_in(reserve.implode())
    blocks = placed.filter((pl.col("last_end") > WARM_UP_STEPS) & ~is_reserve & ~is_pinned)
    blocks = with_sites(recording, blocks)
    parts = [GROWTH_SCHEMA.to_frame()]
    judged = 0
    for (ended,), part in blocks.partition_by("ended", as_dict=True).items():
        if ended >= LEAST_STEPS:
            grown, count = growing_sites(part, int(ended), options)
            judged += count
            parts.append(_without_larger_steps(grown, placed.filter(pl.col("ended") == ended), part))
    return _slow_leaks(recording, pl.concat(parts), blocks, SlowLeaks(GROWTH_SCHEMA.to_frame(), judged, (), coverage))


def _without_larger_steps(grown: pl.DataFrame, placed: pl.DataFrame, blocks: pl.DataFrame) -> pl.DataFrame:
    """Return the growing call sites without those that hold one batch at a time, in steps with ever larger batches.

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
        blocks.join(grown.select(GROWN_KEY), on=GROWN_KEY, how="semi")
        .group_by(GROWN_KEY)
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
        grown.join(alive, on=GROWN_KEY, how="left", maintain_order="left")
        .join(passing, on=["device", "pool"], how="left", maintain_order="left")
        .filter(~is_batch.fill_null(value=False))
        .select(grown.columns)
    )


def _slow_leaks(recording: Recording, grown: pl.DataFrame, blocks: pl.DataFrame, without: SlowLeaks) -> SlowLeaks:
    """Return the answer with the call sites that grow, and the holders of their blocks."""
    if grown.is_empty():
        return without
    grows = blocks.join(grown.select(GROWN_KEY), on=GROWN_KEY, how="semi")
    caches, sentence = longer_caches(recording, grown, grows)
    if sentence:
        grown, grows = (table.join(caches, on=GROWN_KEY, how="anti", maintain_order="left") for table in (grown, grows))
    alive = grows.filter(pl.col("last_end") == pl.col("ended"))
    holders = block_holders(recording)
    held = held_now_or_before(alive, grows, holders, GROWN_KEY)
    named = alive.join(holders, on="malloc_sequence", maintain_order="left")
    in_containers = named.filter(filling_blocks(named))
    containers = filling_containers(in_containers)
    filling = in_containers.select(GROWN_KEY).unique()
    grown = grown.join(filling, on=GROWN_KEY, how="anti", maintain_order="left")
    alive = alive.join(filling, on=GROWN_KEY, how="anti", maintain_order="left")
    order = ["slope_bytes_per_step", "last_bytes", "site_path", "device", "pool"]
    sites = (
        grown.drop("held_by", "viewed_share")
        .join(held, on=GROWN_KEY, how="left")
        .filter(~pl.col("held_by").fill_null("").str.contains(GRADIENT))
        .select(GROWTH_SCHEMA.names())
        .sort(order, descending=[True, True, False, False, False])
    )
    return dataclasses.replace(
        without,
        sites=sites,
        blocks=alive["malloc_sequence"],
        filling=containers,
        longer_caches=(sentence,) if sentence else (),
    )


def _growth_over_time(recording: Recording, options: GrowthOptions, coverage: Coverage) -> SlowLeaks:
    """Judge a program without steps by the parts of its run."""
    blocks = recording.blocks.select(JUDGED)
    nothing = SlowLeaks(GROWTH_SCHEMA.to_frame(), 0, (), coverage, GrowthBasis.PARTS)
    if blocks.height < LEAST_ALLOCATIONS:
        remark = Remark(
            "growth",
            f"there are too few steps and {blocks.height} allocations; without steps, at least {LEAST_ALLOCATIONS} are needed",
        )
        return dataclasses.replace(nothing, remarks=(remark,))
    found = grown_over_parts(recording, blocks, options)
    if found is None:
        remark = Remark(
            "growth", "there are too few steps, and the program gives back too little to be a loop or a server"
        )
        return dataclasses.replace(nothing, remarks=(remark,))
    grown, placed, judged = found
    line = line_of_one_pass(recording, placed.join(grown, on=GROWN_KEY, how="semi")["malloc_sequence"])
    if line:
        size = format_bytes(int((grown["last_bytes"] - grown["first_bytes"]).sum()))
        one_pass = f"{size} grew within one forward pass, at {line}: its backward pass has not run, and frees it."
        return dataclasses.replace(nothing, judged_sites=judged, one_pass=(one_pass,))
    # Those allocated in the last part are alive, too, and of the same sites.
    return _slow_leaks(recording, grown, placed, dataclasses.replace(nothing, judged_sites=judged))

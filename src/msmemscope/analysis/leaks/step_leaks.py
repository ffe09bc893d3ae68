"""Leaks over steps: blocks that a step allocates and later steps never give back.

The definition: a block leaks if it was allocated in step k >= 2 and is alive when step k+1 ends. The first step is
warm-up. A block that is freed after all is withdrawn, and listed as long-lived. A free after the last step does not
count: at its end a program frees all its leaks.

A run ends at some moment, and not all blocks that are alive then have leaked. Four rules tell what is; the option
`StepLeakOptions.judges_sites` turns the first three off.

- A bounded cache: the call site has freed blocks that were as old as this one. Such a block is expected to be freed; so is one in
  a container with a bound that is not full yet.
- Set up once, or filled up: the call site has leaked nothing in the last steps. This pause is longer than any before,
  and lasts at least `StepLeakOptions.quiet_steps`. Its blocks are kept. But if it leaked in eight steps in a row, this
  is a leak that has stopped: a set-up is complete sooner. A cache that is full is none: two and a half times as many
  steps are quiet then, and half of the run. Where nobody marked the steps, one step without a leak is
  enough for a call site that leaked in a single one. Data parallel training makes its buckets anew in the second step.
- A block much larger than the others of its call site, in one step alone, is judged by itself. It was made once on a
  line that leaks, and is no part of the line's growth.
- A block of the driver that a memory pool hands out in parts is that pool's reserve: its parts are judged instead.
"""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from msmemscope.analysis.leaks.sites import (
    CONFIDENCE_TYPE,
    SITE_KEY,
    Confidence,
    cached_pinned_blocks,
    expected_blocks,
    judge_sites,
    with_odd_ones_apart,
    with_pinned_sizes_apart,
)
from msmemscope.analysis.remark import Remark
from msmemscope.model.events import EventFlag, EventKind
from msmemscope.model.holders import BOUNDED_INDEX
from msmemscope.recording.call_sites import STACK_COLUMNS, call_sites
from msmemscope.recording.holders import (
    Filling,
    block_holders,
    filling_blocks,
    filling_containers,
    held_now_or_before,
)
from msmemscope.recording.peak_without import peaks_without
from msmemscope.recording.pool_segments import segments_at_last_step
from msmemscope.recording.recording import StepSource
from msmemscope.recording.step_bounds import WARM_UP_STEPS, ProcessSteps, process_steps, with_steps

if TYPE_CHECKING:
    from msmemscope.recording import Recording

__all__ = [
    "LEAK_BLOCK_SCHEMA",
    "LEAK_SITE_SCHEMA",
    "Confidence",
    "Fate",
    "PoolLeaks",
    "StepLeakOptions",
    "StepLeaks",
    "find_step_leaks",
]

_NANOSECONDS_PER_SECOND: Final = 1_000_000_000
_LEAST_STEPS: Final = WARM_UP_STEPS + 2
"""Steps that must have ended before a block can leak: the warm-up, that of the block, and the next."""
_LEAST_CALLS: Final = WARM_UP_STEPS + 4
"""Likewise, where calls of a model are taken for steps: two or three results may be kept on purpose."""


class Fate(str, Enum):
    """The fate of a block that outlived the step after its own."""

    LEAKED = "leaked"
    KEPT = "kept"
    """Not freed; its call site has leaked nothing for several steps."""
    EXPECTED = "expected"
    """Not freed; its call site frees blocks at this age."""
    RESERVE = "reserve"
    """Not freed; a block of the driver from which a memory pool hands out parts."""
    LONG_LIVED = "long-lived"
    """Freed before the last step ended: withdrawn."""


FATE_TYPE: Final = pl.Enum([fate.value for fate in Fate])

LEAK_BLOCK_SCHEMA: Final = pl.Schema(
    {
        "fate": FATE_TYPE,
        "device": pl.Int16(),
        "pool": pl.UInt8(),
        "step": pl.Int64(),
        "last_end": pl.Int64(),
        "size": pl.Int64(),
        "address": pl.UInt64(),
        "malloc_sequence": pl.UInt64(),
        "free_sequence": pl.UInt64(),
        "kernel_index": pl.Int64(),
        "operator": pl.String(),
        "site": pl.String(),
        "byte_seconds": pl.Float64(),
        "allocated_ns": pl.UInt64(),
        "thread_id": pl.UInt32(),
        "python_stack_id": pl.UInt32(),
        "native_stack_id": pl.UInt32(),
        "site_id": pl.UInt32(),
        "held_by": pl.String(),
    }
)
"""One row per block that was allocated in step 2 or later and was alive when the step after its own ended, in MALLOC
order.

fate: see `Fate`.
step, last_end: step that it was allocated in; the last one at whose end it was alive.
size, address, malloc_sequence, free_sequence, allocated_ns, thread_id: of the block, see `recording.BLOCK_SCHEMA`. A
    free_sequence beside a fate other than long-lived is a free after the last step.
kernel_index: kernel launches of the process before the MALLOC; null if no launch was recorded.
operator: outermost operator at the MALLOC, null outside of operators.
site, site_id: call site, see `call_sites`; the id says which row of LEAK_SITE_SCHEMA.
held_by: its holder in the program; null if that is not known.
byte_seconds: size times the seconds from the MALLOC to the FREE or to the end of the last step.
"""

LEAK_SITE_SCHEMA: Final = pl.Schema(
    {
        "device": pl.Int16(),
        "pool": pl.UInt8(),
        "site_id": pl.UInt32(),
        "site": pl.String(),
        "site_path": pl.String(),
        "operators": pl.List(pl.String()),
        "leaked_bytes": pl.Int64(),
        "leaked_blocks": pl.Int64(),
        "growth_bytes_per_step": pl.Float64(),
        "confidence": CONFIDENCE_TYPE,
        "leaking_steps": pl.Int64(),
        "judged_steps": pl.Int64(),
        "longest_run": pl.Int64(),
        "first_step": pl.Int64(),
        "last_step": pl.Int64(),
        "peak_without_bytes": pl.Int64(),
        "byte_seconds": pl.Float64(),
        "held_by": pl.String(),
        "viewed_share": pl.Float64(),
        "kept_bytes": pl.Int64(),
        "kept_blocks": pl.Int64(),
        "expected_bytes": pl.Int64(),
        "expected_blocks": pl.Int64(),
        "long_lived_bytes": pl.Int64(),
        "long_lived_blocks": pl.Int64(),
        "longest_life": pl.Int64(),
    }
)
"""One row per call site of LEAK_BLOCK_SCHEMA's blocks in one pool of one device, most leaked bytes first.

leaked_bytes, leaked_blocks, byte_seconds: of its leaked blocks.
growth_bytes_per_step: leaked_bytes by judged_steps.
confidence: see `Confidence`; null for a site that does not leak.
leaking_steps: different steps whose blocks leaked. judged_steps: steps from the first of them to the last one that can
    be judged. longest_run: the most of them in a row. first_step, last_step: the first and last of them. Null for a
    site without blocks that are leaked or kept.
peak_without_bytes: the pool's peak without the leaked blocks of this site; null where it does not leak, and beyond the
    largest sites.
held_by: the holder of most of its leaked blocks with a known holder, `recording.holders`; null if none is known.
viewed_share: the part of those blocks that tensors of the program have: the rest is kept by their views alone. Null where
    it is not known, or half and more.
kept_*, expected_*, long_lived_*: its blocks of these fates. longest_life: step ends that a long-lived block outlived.
"""


@dataclasses.dataclass(frozen=True)
class StepLeakOptions:
    """How strictly leaks over steps are judged."""

    judges_sites: bool = True
    """False: the definition alone. Every block that is not freed before the last step ends is leaked."""
    quiet_steps: int = 3
    """Steps without a leak at the end after which a call site counts as one that keeps its blocks."""


@dataclasses.dataclass(frozen=True)
class PoolLeaks:
    """The leaks of one memory pool of one device."""

    device: int
    pool: int
    leaked_bytes: int
    leaked_blocks: int
    peak_bytes: int
    peak_without_bytes: int
    """The peak without the leaked blocks."""


@dataclasses.dataclass(frozen=True)
class StepLeaks:
    """The leaks over steps of one process."""

    steps_ended: int
    """The most steps that ended on any device."""
    step_source: StepSource
    """Where the steps were taken from."""
    blocks: pl.DataFrame
    """LEAK_BLOCK_SCHEMA."""
    sites: pl.DataFrame
    """LEAK_SITE_SCHEMA."""
    pools: tuple[PoolLeaks, ...]
    """Pools that leaked, by device and pool."""
    remarks: tuple[Remark, ...]
    """The parts that could not be judged."""
    filling: tuple[Filling, ...] = ()
    """Containers with a bound that are not full yet: their blocks are no leaks."""

    @property
    def leaked(self) -> pl.DataFrame:
        """The leaked blocks, of LEAK_BLOCK_SCHEMA, in MALLOC order."""
        return self.blocks.filter(pl.col("fate") == Fate.LEAKED.value)

    @property
    def leaking_sites(self) -> pl.DataFrame:
        """The call sites that leak, of LEAK_SITE_SCHEMA."""
        return self.sites.filter(pl.col("leaked_blocks") > 0)

    def to_polars(self) -> pl.DataFrame:
        """Return the leaked blocks, of LEAK_BLOCK_SCHEMA."""
        return self.leaked


def find_step_leaks(recording: Recording, options: StepLeakOptions | None = None) -> StepLeaks:
    """Find the blocks that leak from step to step, in every pool of every device.

    Args:
        recording: Of a process whose steps are known, see `Recording.steps`.
        options: How strictly to judge.

    Returns:
        The leaks; none, and a remark, if too few steps have ended.
    """
    options = options or StepLeakOptions()
    bounds = process_steps(recording)
    least = _LEAST_CALLS if recording.step_source is StepSource.MODULE else _LEAST_STEPS
    if bounds.ended < least:
        counted = {0: "no step has", 1: "1 step has"}.get(bounds.ended, f"{bounds.ended} steps have")
        remark = Remark("leaks over steps", f"{counted} ended, at least {least} are needed")
        source = recording.step_source
        return StepLeaks(bounds.ended, source, LEAK_BLOCK_SCHEMA.to_frame(), LEAK_SITE_SCHEMA.to_frame(), (), (remark,))
    blocks = _outliving(recording, bounds)
    judged = _judged(blocks, options, bounds.ended, steps_are_marked=not recording.step_source.is_implied)
    holders = block_holders(recording)
    judged = judged.join(holders, on="malloc_sequence", how="left", maintain_order="left")
    filling: tuple[Filling, ...] = ()
    if options.judges_sites:
        is_filling = _fill_containers(judged) & (judged["fate"] == Fate.LEAKED.value)
        filling = filling_containers(_seen_last(judged.filter(is_filling)))
        judged = judged.with_columns(
            fate=pl.when(is_filling).then(pl.lit(Fate.EXPECTED.value, FATE_TYPE)).otherwise("fate")
        )
    blocks = judged.filter(pl.col("step") > WARM_UP_STEPS)
    leaked = blocks.filter(pl.col("fate") == Fate.LEAKED.value)
    sites = _sites(blocks).join(
        held_now_or_before(leaked, blocks, holders, SITE_KEY), on=SITE_KEY, how="left", maintain_order="left"
    )
    pools, peaks = _pools(recording.blocks, leaked)
    sites = sites.join(peaks, on=SITE_KEY, how="left", maintain_order="left")
    return StepLeaks(
        bounds.ended,
        recording.step_source,
        _as(blocks, LEAK_BLOCK_SCHEMA),
        _as(sites, LEAK_SITE_SCHEMA),
        pools,
        (),
        filling,
    )


def _seen_last(filling: pl.DataFrame) -> pl.DataFrame:
    """Leave out call sites whose newest block has no known container: how full that has become is not known, either."""
    newest = pl.col("held_by").sort_by("malloc_sequence").last().over(SITE_KEY)
    return filling.filter(newest.str.contains(BOUNDED_INDEX, literal=True))


def _fill_containers(judged: pl.DataFrame) -> pl.Series:
    """Tell which blocks are in a container with a bound that it has not passed.

    When holders were looked for, some blocks were not there yet. They are taken for entries of a container too if all
    others of their call site are in it. The newest is left out: a variable may hold it as well.
    """
    is_known = filling_blocks(judged)
    of_site = judged.select(*SITE_KEY, "held_by").with_columns(
        is_filling=is_known,
        is_other=~is_known & judged["held_by"].is_not_null(),
        most=judged["held_by"].str.extract(rf"{BOUNDED_INDEX}(\d+)\]").cast(pl.Int64, strict=False),
    )
    return of_site.select(
        pl.col("is_filling")
        | (
            (pl.col("is_filling").sum().over(SITE_KEY) > 1)
            & (pl.col("is_other").sum().over(SITE_KEY) <= 1)
            & (pl.len().over(SITE_KEY) <= pl.col("most").max().over(SITE_KEY))
        ).fill_null(value=False)
    ).to_series()


def _outliving(recording: Recording, bounds: ProcessSteps) -> pl.DataFrame:
    """Return the blocks of any step that were alive at the end of the step after their own, with all their columns."""
    placed = with_steps(recording.blocks, bounds)
    # Where collection begins again, blocks of the time between have no step of their own.
    is_of_step = (pl.col("step") >= WARM_UP_STEPS) & ((pl.col("flags") & int(EventFlag.SHADOW)) == 0)
    blocks = placed.filter(is_of_step & (pl.col("last_end") > pl.col("step")))
    sites = call_sites(recording, blocks).with_columns(site_id=pl.col("site_path").rank("dense").cast(pl.UInt32))
    launches = recording.events.filter(pl.col("kind") == EventKind.KERNEL_LAUNCH)["sequence"]
    end_ns = _last_end_ns(recording, bounds)
    until = pl.min_horizontal(pl.col("freed_ns").fill_null(end_ns), pl.lit(end_ns, dtype=pl.UInt64))
    # Clocks can be set back.
    nanoseconds = (until.cast(pl.Int64) - pl.col("allocated_ns").cast(pl.Int64)).clip(lower_bound=0)
    blocks = blocks.join(sites, on=STACK_COLUMNS, how="left", maintain_order="left").with_columns(
        _kernel_index(launches, blocks["malloc_sequence"]),
        # A gigabyte for ten seconds is more byte-nanoseconds than 64 bits hold.
        byte_seconds=pl.col("size") * (nanoseconds / _NANOSECONDS_PER_SECOND),
        operator=pl.col("name"),
        is_alive=pl.col("last_end") == pl.col("ended"),
    )
    reserve = segments_at_last_step(recording)
    return blocks.with_columns(is_reserve=pl.col("malloc_sequence").is_in(reserve.implode()))


def _kernel_index(launches: pl.Series, allocated: pl.Series) -> pl.Series:
    """Return how many launches came before each allocation; null if none was recorded at all."""
    if launches.is_empty():
        return pl.Series("kernel_index", [None] * len(allocated), dtype=pl.Int64)
    return pl.Series("kernel_index", np.searchsorted(launches.to_numpy(), allocated.to_numpy()))


def _last_end_ns(recording: Recording, bounds: ProcessSteps) -> int:
    sequence = max(int(group.ends[-1]) for group in (bounds.shared, *bounds.by_device.values()) if group.ended)
    index = int(recording.events["sequence"].search_sorted(sequence, side="right")) - 1
    return int(recording.events["timestamp_ns"][index])


def _judged(blocks: pl.DataFrame, options: StepLeakOptions, ended: int, *, steps_are_marked: bool) -> pl.DataFrame:
    """Return the blocks with their fate, and the columns of their call site."""
    never = pl.repeat(False, blocks.height, dtype=pl.Boolean, eager=True)
    is_expected = expected_blocks(blocks) if options.judges_sites else never
    blocks = blocks.with_columns(is_expected.alias("is_expected") & ~pl.col("is_reserve"))
    is_suspect = pl.col("is_alive") & ~pl.col("is_expected") & ~pl.col("is_reserve") & (pl.col("step") > WARM_UP_STEPS)
    blocks = blocks.with_columns(is_suspect=is_suspect)
    if options.judges_sites:
        blocks = with_pinned_sizes_apart(blocks)
        is_cached = cached_pinned_blocks(blocks, ended)
        blocks = blocks.with_columns(
            is_expected=pl.col("is_expected") | is_cached, is_suspect=pl.col("is_suspect") & ~is_cached
        )
        blocks = with_odd_ones_apart(blocks)
    quiet_steps = options.quiet_steps if options.judges_sites else None
    verdicts = judge_sites(blocks, quiet_steps, quiet_steps if steps_are_marked else 1)
    blocks = blocks.join(verdicts, on=SITE_KEY, how="left", maintain_order="left")
    fate = (
        pl.when(~pl.col("is_alive"))
        .then(pl.lit(Fate.LONG_LIVED.value))
        .when("is_reserve")
        .then(pl.lit(Fate.RESERVE.value))
        .when("is_expected")
        .then(pl.lit(Fate.EXPECTED.value))
        .when("is_kept")
        .then(pl.lit(Fate.KEPT.value))
        .otherwise(pl.lit(Fate.LEAKED.value))
    )
    return blocks.with_columns(fate=fate.cast(FATE_TYPE))


def _sites(blocks: pl.DataFrame) -> pl.DataFrame:
    def sums(name: str, fate: Fate) -> list[pl.Expr]:
        chosen = pl.col("size").filter(pl.col("fate") == fate.value)
        return [chosen.sum().alias(f"{name}_bytes"), chosen.len().cast(pl.Int64).alias(f"{name}_blocks")]

    is_leaked = pl.col("fate") == Fate.LEAKED.value
    verdict = ("leaking_steps", "judged_steps", "longest_run", "first_step", "last_step", "confidence")
    life = (pl.col("last_end") - pl.col("step")).filter(pl.col("fate") == Fate.LONG_LIVED.value).max()
    return (
        blocks.filter(pl.col("fate") != Fate.RESERVE.value)
        .group_by(SITE_KEY)
        .agg(
            pl.col("site", "site_path", *verdict).first(),
            pl.col("operator").drop_nulls().unique().sort().alias("operators"),
            *sums("leaked", Fate.LEAKED),
            *sums("kept", Fate.KEPT),
            *sums("expected", Fate.EXPECTED),
            *sums("long_lived", Fate.LONG_LIVED),
            pl.col("byte_seconds").filter(is_leaked).sum(),
            life.alias("longest_life"),
        )
        .with_columns(
            growth_bytes_per_step=pl.col("leaked_bytes") / pl.col("judged_steps"),
            confidence=pl.when(pl.col("leaked_blocks") > 0).then("confidence"),
        )
        .sort(
            ["leaked_bytes", "kept_bytes", "expected_bytes", "long_lived_bytes", "site_path", "device", "pool"],
            descending=[True, True, True, True, False, False, False],
        )
    )


def _pools(blocks: pl.DataFrame, leaked: pl.DataFrame) -> tuple[tuple[PoolLeaks, ...], pl.DataFrame]:
    """Return the pools that leak, and for their sites the peak without them."""
    pools = []
    schema = {"device": pl.Int16, "pool": pl.UInt8, "site_id": pl.UInt32, "peak_without_bytes": pl.Int64}
    rows: list[tuple[int, int, int, int]] = []
    for (device, pool), part in sorted(leaked.partition_by("device", "pool", as_dict=True).items()):
        everything = blocks.filter((pl.col("device") == device) & (pl.col("pool") == pool))
        peak, without, by_site = peaks_without(everything, part.with_columns(group=pl.col("site_id").cast(pl.Int64)))
        pools.append(PoolLeaks(device, pool, int(part["size"].sum()), part.height, peak, without))
        rows.extend((device, pool, site, figure) for site, figure in by_site.items())
    return tuple(pools), pl.DataFrame(rows, schema=schema, orient="row")


def _as(table: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
    return table.select(schema.names()).cast(schema)

"""Growth in the phases of a program with steps that no step explains: before the first, after the last, within a long one."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.analysis.coverage import coverage_of
from msmemscope.analysis.leaks.growing_sites import GROWN_KEY, GROWTH_SCHEMA, JUDGED, GrowthOptions
from msmemscope.analysis.leaks.growth import SUBJECT, GrowthBasis, SlowLeaks
from msmemscope.analysis.leaks.parts_of_run import LEAST_ALLOCATIONS, grown_over_parts
from msmemscope.model.holders import HELD_BY_C, OF_MODULE
from msmemscope.recording.holders import block_holders, main_holders
from msmemscope.recording.step_bounds import WARM_UP_STEPS, process_steps, with_steps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from msmemscope.recording import Recording

_OF_NO_VARIABLE: Final = rf"^(?:{OF_MODULE}|{re.escape(HELD_BY_C)})"
AFTER_LAST_STEP: Final = "after the last step"
"""The phase of what grows behind the last step that has ended."""
_LONG_STEP_RATIO: Final = 4
"""A step with so many times the usual number of allocations is judged by itself."""


def find_growth_outside_steps(
    recording: Recording, options: GrowthOptions | None = None, *, known: pl.Series | None = None
) -> SlowLeaks:
    """Find the call sites that grow around steps: before the first has ended, after the last, within a long one.

    A phase is judged as a run without steps is. The blocks that a call site left in it must still be there in the end,
    and their holder must be known. Weights and other tensors of a module are left out: they are loaded in a loop, too.

    Args:
        recording: Of a process.
        options: The limits of growth.
        known: `malloc_sequence` of blocks that leak over steps. In a long step they count as that leak alone.

    Returns:
        The call sites, with their `phase`; none if the program has no steps.
    """
    options = options or GrowthOptions()
    nothing = SlowLeaks(GROWTH_SCHEMA.to_frame(), 0, (), coverage_of(SUBJECT, recording), GrowthBasis.PARTS)
    bounds = process_steps(recording)
    if bounds.ended <= WARM_UP_STEPS or recording.blocks.is_empty():
        return nothing
    placed = with_steps(recording.blocks.select(JUDGED), bounds)
    last = placed["malloc_sequence"].max()
    if known is not None:
        is_known = pl.col("malloc_sequence").is_in(known.implode())
        placed = placed.filter(~is_known | (pl.col("first_end") > pl.col("ended")))
    holders = block_holders(recording)
    freed = pl.col("free_sequence")
    # A block that is freed after the last allocation is freed because the program ends, or might as well be.
    is_freed_last = freed.is_null() | (freed > last)
    is_left = is_freed_last | (pl.col("last_end") == pl.col("ended"))
    rows, blocks = [nothing.sites], []
    for phase, of_phase in _phases(placed):
        found = grown_over_parts(recording, of_phase.select(JUDGED), options)
        if found is None or found[0].is_empty():
            continue
        grown, in_parts, _ = found
        left = of_phase.filter(is_left).select("malloc_sequence")
        lasting = in_parts.join(grown.select(GROWN_KEY), on=GROWN_KEY, how="semi").join(
            left, on="malloc_sequence", how="semi"
        )
        held = main_holders(lasting, holders, GROWN_KEY).filter(~pl.col("held_by").str.contains(_OF_NO_VARIABLE))
        sums = lasting.group_by(GROWN_KEY).agg(left_bytes=pl.col("size").sum(), left_blocks=pl.len())
        grown = (
            grown.drop("held_by", "viewed_share", "phase")
            .join(held, on=GROWN_KEY)
            .join(sums, on=GROWN_KEY)
            # What is joined on the line of its parts is as large as these, and one block.
            .filter(
                2 * pl.col("left_bytes") >= pl.col("last_bytes"), 2 * pl.col("left_blocks") >= pl.col("last_blocks")
            )
            .with_columns(phase=pl.lit(phase), last_bytes="left_bytes", last_blocks="left_blocks")
        )
        rows.append(grown.select(GROWTH_SCHEMA.names()).cast(GROWTH_SCHEMA))
        blocks.append(lasting.join(grown, on=GROWN_KEY, how="semi")["malloc_sequence"])
    sites = pl.concat(rows).sort("last_bytes", descending=True)
    return dataclasses.replace(
        nothing, sites=sites, blocks=pl.concat(blocks) if blocks else nothing.blocks, judged_sites=sites.height
    )


def _phases(placed: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """The stretches of a run that no step of its loop explains, with the blocks that were allocated in them."""
    for of_group in placed.partition_by("ended"):
        ended = int(of_group["ended"][0])
        # By the next end: blocks between two ranges of the program are judged with the second.
        is_of_step = pl.col("first_end").is_between(WARM_UP_STEPS + 1, ended)
        counts = of_group.filter(is_of_step).group_by("first_end").len().sort("first_end")
        long = counts.filter(pl.col("len") >= _LONG_STEP_RATIO * pl.col("len").median())["first_end"]
        phases = (
            ("before the first step has ended", pl.col("first_end") <= WARM_UP_STEPS),
            *((f"within step {step}", pl.col("first_end") == step) for step in long),
            (AFTER_LAST_STEP, pl.col("first_end") > ended),
        )
        for phase, is_in_phase in phases:
            of_phase = of_group.filter(is_in_phase)
            if of_phase.height >= LEAST_ALLOCATIONS:
                yield phase, of_phase

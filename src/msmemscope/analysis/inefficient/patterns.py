"""Patterns of wasted memory that the literature knows, beside those of `inefficient`.

The names are those of DrGPUM (Lin et al., ASPLOS 2023) and of ValueExpert (Zhou et al., ASPLOS 2022). The definitions
are ours, in the words of `inefficient`. They are about operators of a device in the order of their begins, and about
blocks of one pool. They leave out rows of the driver and of workspaces, and moments that were not recorded when they
happened.

- Unused allocation: no access names the block during its life, and at least one operator lies strictly in it. A block
  that was never freed lives to the end of the recording. Where no access of any block of the pool was recorded, nothing
  is said. Scratch memory that a library keeps for its operators is never accessed by name, and is found as well. The
  whole life is without need.
- Redundant allocation: when the block was allocated, another block of the same size was dead but not freed, whose
  memory could have served. Dead means that the operator of its last access had ended, and that it was freed later. A
  block that was never freed, or never accessed, is not dead. Of several the one that is freed last counts. The time
  without need is from the allocation until that block's free, or its own if that is first. At least one operator lies
  strictly in it. One dead block can stand for several allocations, so the findings are to be fixed one after the other.
- Dead write: the last access of the block is a write, and the block is freed: nobody reads its last contents. The time
  without need begins at the end of the operator that read the block last, or at the allocation if nobody ever did. It
  ends with the free, and at least one operator lies strictly in it.
- Short-lived churn: blocks of one size and call site are allocated and freed again and again. A block is short-lived if
  at most `short_life` operators lie strictly between its allocation and its free. A repetition is a short-lived block
  with a short-lived predecessor of the same size and call site. The predecessor was freed before, by at most
  `short_life` operators. At least `least_repetitions` of them are churn. Allocating once, outside of the loop, saves
  allocations, not bytes.
"""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from msmemscope.analysis.inefficient.finding_rows import Intervals, finding_rows, ranked
from msmemscope.analysis.options import QuestionOptions, Size, WholeNumber, option
from msmemscope.recording.block_uses import (
    OperatorPlaces,
    device_orders,
    end_of_operator,
    find_block_uses,
    holds_tensors,
    pool_use,
)
from msmemscope.recording.call_sites import STACK_COLUMNS, call_sites
from msmemscope.recording.operators import NOWHERE

if TYPE_CHECKING:
    from msmemscope.recording import Recording
    from msmemscope.recording.block_uses import BlockUses
    from msmemscope.recording.operators import DeviceOrder, IntegerArray


class PatternKind(Enum):
    """A pattern that concerns one block."""

    UNUSED_ALLOCATION = "unused_allocation"
    REDUNDANT_ALLOCATION = "redundant_allocation"
    DEAD_WRITE = "dead_write"


CHURN_SCHEMA: Final = pl.Schema(
    {
        "device": pl.Int16(),
        "pool": pl.UInt8(),
        "size": pl.Int64(),
        "call_site": pl.String(),
        "site_path": pl.String(),
        "repetitions": pl.Int64(),
        "allocated_bytes": pl.Int64(),
        "first_allocation_id": pl.UInt64(),
        "last_allocation_id": pl.UInt64(),
    }
)
"""One row per device, pool, size and call site with churn.

size: bytes of each block.
call_site, site_path: where in the program they are allocated, see `call_sites`.
repetitions: blocks that need not have been allocated.
allocated_bytes: size times repetitions.
first_allocation_id, last_allocation_id: the first and the last of these blocks.
"""


@dataclasses.dataclass(frozen=True)
class PatternOptions(QuestionOptions):
    """The limits of patterns."""

    mem_size: int = option(0, Size(), "smallest block", is_python_only=True)
    """Blocks smaller than this, in bytes, are not reported."""
    short_life: int = option(16, WholeNumber(), "operators of a short life", is_python_only=True)
    """Operators that a short-lived block lives for at most, and that lie between two of them at most."""
    least_repetitions: int = option(10, WholeNumber(1), "repetitions that are churn", is_python_only=True)
    """Fewer repetitions are no churn."""


@dataclasses.dataclass(frozen=True)
class PatternResult:
    """The patterns found."""

    findings: pl.DataFrame
    """`finding_rows.FINDING_SCHEMA`, the worst first; `kind` is a value of PatternKind."""
    churn: pl.DataFrame
    """CHURN_SCHEMA, descending by bytes allocated."""

    def to_polars(self) -> pl.DataFrame:
        """Return the findings that concern one block each."""
        return self.findings


def find_memory_patterns(recording: Recording, options: PatternOptions | None = None) -> PatternResult:
    """Find the patterns that this module defines.

    Args:
        recording: One process.
        options: The limits of patterns.
    """
    options = options or PatternOptions()
    uses = find_block_uses(recording)
    orders = device_orders(uses)
    parts: list[pl.DataFrame] = []
    churn = [CHURN_SCHEMA.to_frame()]
    for device, pool, blocks in uses.pools_of_devices():
        if not holds_tensors(pool):
            continue
        order = orders[device]
        reported = blocks[(uses.sizes[blocks] >= options.mem_size) & uses.is_malloc_timed[blocks]]
        found = {
            PatternKind.UNUSED_ALLOCATION: _unused(uses, order, blocks, reported),
            PatternKind.REDUNDANT_ALLOCATION: _redundant(uses, order, blocks, reported),
            PatternKind.DEAD_WRITE: _dead_writes(uses, order, reported),
        }
        if any(len(intervals.blocks) for intervals in found.values()):
            use, places = pool_use(uses, blocks), OperatorPlaces(recording, order)
            parts.extend(
                finding_rows(recording, uses, places, use, kind, intervals)
                for kind, intervals in found.items()
                if len(intervals.blocks)
            )
        churn.append(_churn(recording, uses, order, reported, options))
    by_size = pl.concat(churn).sort(["allocated_bytes", "first_allocation_id"], descending=[True, False])
    return PatternResult(ranked(recording, parts), by_size)


def _unused(uses: BlockUses, order: DeviceOrder, blocks: IntegerArray, reported: IntegerArray) -> Intervals:
    """Find blocks that nobody accessed."""
    if not (uses.first_access_rows[blocks] != NOWHERE).any():
        reported = reported[:0]
    is_known_end = uses.is_free_timed[reported] | (uses.free_rows[reported] == NOWHERE)
    chosen = reported[(uses.first_access_rows[reported] == NOWHERE) & is_known_end]
    mallocs, frees = uses.malloc_rows[chosen], uses.free_rows[chosen]
    low = order.first_after(mallocs)
    high = np.full(len(chosen), len(order), np.int64)
    is_freed = frees != NOWHERE
    high[is_freed] = order.last_before(frees[is_freed])
    ends = np.where(is_freed, frees, uses.row_count)
    return Intervals(chosen, mallocs, frees, low, high, mallocs, ends).chosen(high >= low)


def _redundant(uses: BlockUses, order: DeviceOrder, blocks: IntegerArray, reported: IntegerArray) -> Intervals:
    """Find blocks whose memory a dead one could have been."""
    dead = blocks[(uses.last_access_rows[blocks] != NOWHERE) & uses.is_free_timed[blocks]]
    _, size_class = np.unique(uses.sizes, return_inverse=True)
    # One ascending number for a size and a moment of it.
    span = uses.row_count + 1
    deaths = size_class[dead] * span + end_of_operator(uses, uses.last_access_rows[dead])
    in_order = np.argsort(deaths, kind="stable")
    # The last free of those that have died so far; a size starts anew, because its numbers are above all before.
    latest_free = np.maximum.accumulate(size_class[dead][in_order] * span + uses.free_rows[dead][in_order])
    mallocs = uses.malloc_rows[reported]
    moments = size_class[reported] * span + mallocs
    place = np.searchsorted(deaths[in_order], moments) - 1
    serves = np.full(len(reported), NOWHERE, np.int64)
    has_dead = place >= 0
    serves[has_dead] = latest_free[place[has_dead]]
    is_redundant = serves > moments
    chosen, mallocs = reported[is_redundant], mallocs[is_redundant]
    other_free = serves[is_redundant] - size_class[chosen] * span
    own_free = uses.free_rows[chosen]
    ends = np.where(own_free == NOWHERE, other_free, np.minimum(own_free, other_free))
    low, high = order.first_after(mallocs), order.last_before(ends)
    return Intervals(chosen, mallocs, ends, low, high, mallocs, ends).chosen(high >= low)


def _dead_writes(uses: BlockUses, order: DeviceOrder, reported: IntegerArray) -> Intervals:
    """Find blocks whose last write nobody read."""
    chosen = reported[uses.ends_with_write[reported] & uses.is_free_timed[reported]]
    reads, frees = uses.last_read_rows[chosen], uses.free_rows[chosen]
    starts = np.where(reads == NOWHERE, uses.malloc_rows[chosen], reads)
    begins = np.where(reads == NOWHERE, starts, end_of_operator(uses, starts))
    low, high = order.first_after(starts), order.last_before(frees)
    return Intervals(chosen, starts, frees, low, high, begins, frees).chosen(high >= low)


def _churn(
    recording: Recording, uses: BlockUses, order: DeviceOrder, reported: IntegerArray, options: PatternOptions
) -> pl.DataFrame:
    """Find call sites that allocate and free the same again and again."""
    freed = reported[uses.is_free_timed[reported]]
    low, high = order.first_after(uses.malloc_rows[freed]), order.last_before(uses.free_rows[freed])
    is_short = high - low + 1 <= options.short_life
    chosen, low, high = freed[is_short], low[is_short], high[is_short]
    if len(chosen) <= options.least_repetitions:
        return CHURN_SCHEMA.to_frame()
    blocks = recording.blocks[chosen]
    # The operators between two of them: after the free of one and before the allocation of the next.
    lives = blocks.with_columns(
        after_free=pl.Series(order.first_after(uses.free_rows[chosen])),
        before_malloc=pl.Series(order.last_before(uses.malloc_rows[chosen])),
    ).join(call_sites(recording, blocks).rename({"site": "call_site"}), on=STACK_COLUMNS, how="left")
    group = ["device", "pool", "size", "call_site", "site_path"]
    previous_free = pl.col("free_sequence").shift(1).over(group, order_by="malloc_sequence")
    previous_after = pl.col("after_free").shift(1).over(group, order_by="malloc_sequence")
    is_repetition = (previous_free < pl.col("malloc_sequence")) & (
        pl.col("before_malloc") - previous_after + 1 <= options.short_life
    )
    return (
        lives.filter(is_repetition)
        .group_by(group)
        .agg(
            pl.len().cast(pl.Int64).alias("repetitions"),
            pl.col("size").sum().alias("allocated_bytes"),
            pl.col("allocation_id").min().alias("first_allocation_id"),
            pl.col("allocation_id").max().alias("last_allocation_id"),
        )
        .filter(pl.col("repetitions") >= options.least_repetitions)
        .select(CHURN_SCHEMA.names())
    )

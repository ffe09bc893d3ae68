"""Blocks that are held while nobody needs them: allocated too early, freed too late, idle for long.

Every outermost operator has the next number of its device, and so has every allocation and every free outside of
operators. Events inside an operator have its number (`operator_intervals` says exactly what an operator is).

- Early allocation: the number of another block's free lies between those of the allocation and of the first access.
  That access has another number than the allocation: writes of the allocating operator into its result are no first
  use.
- Late deallocation: the number of another block's allocation lies between those of the last access and of the free.
  Python frees most tensors outside of operators (`del`, the end of a scope), with a number of its own.
- Temporary idleness: more than `idle_threshold` operators lie strictly between two consecutive accesses.

The definitions leave some cases open. They are decided so:

- "Another block" is one of the same pool of the same device: only that memory could have served instead.
- An access outside of operators has its place between the operators that began before it and those that begin after it.
- Consecutive, first and last are meant in the order of events. The order of operators is that of their begins, also
  where operators of several threads overlap.
- A block that was never freed is not freed late. A block that was never accessed is neither early nor late;
  `memory_patterns` finds it as an unused allocation.
- A MALLOC or FREE that did not happen when it was recorded has no number. These are blocks found alive at a start, and
  frees written at an end. Such a block is not early or not late, and makes no other block so.
- An access counts for the block that it names, also through a view; one that names no block counts for nothing.
- Blocks of the driver and of operators' workspaces are no tensors and are left out.
- Findings name an allocation or a free outside of operators by the last operator of its device that began before it.

A finding is not always something that can be changed. An operator that reads other blocks computes its result where it
runs: the result cannot be allocated later. So such an early allocation saves nothing. Others can: zeros, random numbers,
copies from the host.
"""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from msmemscope.analysis.inefficient.finding_rows import (
    Intervals,
    PoolSaving,
    coverage_of_uses,
    finding_rows,
    pool_saving,
    ranked,
)
from msmemscope.analysis.inefficient.patterns import PatternOptions, find_memory_patterns
from msmemscope.analysis.options import QuestionOptions, Size, Switch, WholeNumber, Words, option
from msmemscope.recording.block_uses import (
    OperatorPlaces,
    begin_of_operator,
    device_orders,
    end_of_operator,
    find_block_uses,
    holds_tensors,
    last_rows,
    pool_use,
)
from msmemscope.recording.operators import NOWHERE
from msmemscope.units import SIZE_FORMS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msmemscope.analysis.coverage import Coverage
    from msmemscope.analysis.inefficient.patterns import PatternResult
    from msmemscope.recording import Recording
    from msmemscope.recording.block_uses import BlockUses
    from msmemscope.recording.operators import DeviceOrder, IntegerArray, MaskArray


class InefficientKind(Enum):
    """In which way a block is held inefficiently; the values are those of the attribute `inefficient_type`."""

    EARLY_ALLOCATION = "early_allocation"
    LATE_DEALLOCATION = "late_deallocation"
    TEMPORARY_IDLENESS = "temporary_idleness"


DEFAULT_IDLE_THRESHOLD: Final = 3000
"""Operators between two accesses, above which a block counts as idle."""

KIND_WORDS: Final = tuple(kind.value for kind in InefficientKind)
"""All kinds, in the order in which they are written into dumps."""


@dataclasses.dataclass(frozen=True)
class InefficientOptions(QuestionOptions):
    """The patterns to look for, and where to write them."""

    mem_size: int = option(0, Size(), f"smallest block: {SIZE_FORMS}")
    """Blocks smaller than this, in bytes, are not reported; they still count as other blocks."""
    inefficient_type: str | Sequence[str] | None = option(
        None, Words(KIND_WORDS, "a kind of inefficient memory"),
        f"{', '.join(KIND_WORDS)}, separated by commas; default: all", spelling="--type",
    )  # fmt: skip
    """One or several of early_allocation, late_deallocation, temporary_idleness; None for all."""
    idle_threshold: int = option(
        DEFAULT_IDLE_THRESHOLD, WholeNumber(1, " of operators"),
        "operators between two accesses above which a block is idle",
    )  # fmt: skip
    """A block is idle if more operators than this lie between two consecutive accesses."""
    write_back: bool = option(
        True, Switch(writes=True), "write inefficient_type into the dump, or the dumps of a capture"
    )
    """Whether the MALLOC rows of the dump, or of the dumps of a capture, get the attribute `inefficient_type`."""
    patterns: bool = option(
        False, Switch(), "also look for unused, redundant and dead memory, and churn", is_python_only=True
    )
    """Whether to look for the other patterns too, see `msmemscope.analysis.inefficient.patterns`."""

    @property
    def kinds(self) -> tuple[InefficientKind, ...]:
        """The kinds asked for, each once, in their order."""
        asked = self.inefficient_type
        words = KIND_WORDS if asked is None else (asked,) if isinstance(asked, str) else tuple(asked)
        return tuple(kind for kind in InefficientKind if kind.value in words)


@dataclasses.dataclass(frozen=True)
class InefficientResult:
    """Every block that is held inefficiently, once for each way in which it is."""

    findings: pl.DataFrame
    """FINDING_SCHEMA, by bytes saved at the peak, then by bytes times operators, both descending."""
    pools: tuple[PoolSaving, ...]
    """Each device and pool that has a finding, in their order."""
    operator_count: int
    """Operators of all devices that were looked at."""
    coverage: Coverage
    """The coverage of the answer."""
    patterns: PatternResult | None = None
    """The other patterns of the same process, if they were looked for too."""

    def to_polars(self) -> pl.DataFrame:
        """Return the findings."""
        return self.findings

    def kinds_by_block(self) -> pl.DataFrame:
        """Return one row per block: `allocation_id` (u64) and `inefficient_type`, its kinds with commas between."""
        bits = pl.col("kind").replace_strict({word: 1 << place for place, word in enumerate(KIND_WORDS)})
        texts = {
            chosen: ",".join(word for place, word in enumerate(KIND_WORDS) if chosen >> place & 1)
            for chosen in range(1, 1 << len(KIND_WORDS))
        }
        return (
            self.findings.group_by("allocation_id")
            .agg(bits.sum().replace_strict(texts).alias("inefficient_type"))
            .sort("allocation_id")
        )


def find_inefficient(recording: Recording, options: InefficientOptions | None = None) -> InefficientResult:
    """Find blocks that are held inefficiently; the module says what that means.

    Args:
        recording: One process.
        options: The patterns to look for; everything by default.
    """
    options = options or InefficientOptions()
    uses = find_block_uses(recording)
    orders = device_orders(uses)
    places: dict[int, OperatorPlaces] = {}
    parts: list[pl.DataFrame] = []
    savings = []
    for device, pool, blocks in uses.pools_of_devices():
        if not holds_tensors(pool):
            continue
        found = _find_in_pool(uses, orders[device], device, pool, blocks, options)
        if not any(len(intervals.blocks) for intervals in found.values()):
            continue
        if device not in places:
            places[device] = OperatorPlaces(recording, orders[device])
        use = pool_use(uses, blocks)
        savings.append(pool_saving(recording, device, pool, use, uses, list(found.values())))
        parts.extend(
            finding_rows(recording, uses, places[device], use, kind, intervals)
            for kind, intervals in found.items()
            if len(intervals.blocks)
        )
        del found, use
    operator_count, coverage = len(uses.operators), coverage_of_uses(recording, uses)
    del uses, orders, places  # as large as the findings
    return InefficientResult(
        ranked(recording, parts),
        tuple(savings),
        operator_count,
        coverage,
        find_memory_patterns(recording, PatternOptions(options.mem_size)) if options.patterns else None,
    )


def _find_in_pool(
    uses: BlockUses, order: DeviceOrder, device: int, pool: int, blocks: IntegerArray, options: InefficientOptions
) -> dict[InefficientKind, Intervals]:
    """Find the inefficient blocks of one pool."""
    reported = blocks[uses.sizes[blocks] >= options.mem_size]
    accessed = reported[uses.first_access_rows[reported] != NOWHERE]
    found: dict[InefficientKind, Intervals] = {}
    for kind in options.kinds:
        if kind is InefficientKind.EARLY_ALLOCATION:
            frees = np.concatenate([uses.free_rows[blocks[uses.is_free_timed[blocks]]], uses.stray_frees(device, pool)])
            found[kind] = _early(uses, order, accessed[uses.is_malloc_timed[accessed]], frees)
        elif kind is InefficientKind.LATE_DEALLOCATION:
            mallocs = uses.malloc_rows[blocks[uses.is_malloc_timed[blocks]]]
            found[kind] = _late(uses, order, accessed[uses.is_free_timed[accessed]], mallocs)
        else:
            found[kind] = _idle(uses, order, accessed, options.idle_threshold)
    return found


def _early(uses: BlockUses, order: DeviceOrder, blocks: IntegerArray, frees: IntegerArray) -> Intervals:
    """Find blocks that were allocated too early; `frees` are the rows of all frees of the pool."""
    firsts = _first_uses_elsewhere(uses)[blocks]
    blocks, firsts = blocks[firsts != NOWHERE], firsts[firsts != NOWHERE]
    mallocs = uses.malloc_rows[blocks]
    own = np.where(uses.is_free_timed[blocks], uses.free_rows[blocks], NOWHERE)
    is_early = _others_between(uses, frees, own, mallocs, firsts)
    low, high = order.first_after(mallocs), order.last_before(firsts)
    ends = np.where(_are_computed(uses, blocks), mallocs, begin_of_operator(uses, firsts))
    return Intervals(blocks, mallocs, firsts, low, high, mallocs, ends).chosen(is_early)


def _are_computed(uses: BlockUses, blocks: IntegerArray) -> MaskArray:
    """Tell which blocks are results that their operator computed from other blocks."""
    of_row = uses.operators.of_row
    running = of_row[uses.access_rows]
    is_input = (running != NOWHERE) & (running != of_row[uses.malloc_rows[uses.access_blocks]])
    has_input = np.zeros(len(uses.operators) + 1, np.bool_)
    has_input[running[is_input]] = True
    allocating = of_row[uses.malloc_rows[blocks]]
    are_computed: MaskArray = (allocating != NOWHERE) & has_input[allocating]
    return are_computed


def _late(uses: BlockUses, order: DeviceOrder, blocks: IntegerArray, mallocs: IntegerArray) -> Intervals:
    """Find blocks that were freed too late; `mallocs` are the rows of all allocations of the pool."""
    lasts, frees = uses.last_access_rows[blocks], uses.free_rows[blocks]
    own = np.where(uses.is_malloc_timed[blocks], uses.malloc_rows[blocks], NOWHERE)
    is_late = _others_between(uses, mallocs, own, lasts, frees)
    low, high = order.first_after(lasts), order.last_before(frees)
    begins = end_of_operator(uses, lasts)
    return Intervals(blocks, lasts, frees, low, high, begins, frees).chosen(is_late)


def _first_uses_elsewhere(uses: BlockUses) -> IntegerArray:
    """Return for each block the row of its first access outside of the operator that allocated it."""
    allocating = begin_of_operator(uses, uses.malloc_rows)
    is_elsewhere = begin_of_operator(uses, uses.access_rows) != allocating[uses.access_blocks]
    blocks, rows = uses.access_blocks[is_elsewhere], uses.access_rows[is_elsewhere]
    return last_rows(blocks[::-1], rows[::-1], len(allocating))


def _idle(uses: BlockUses, order: DeviceOrder, blocks: IntegerArray, threshold: int) -> Intervals:
    """Find blocks that were idle, each with its longest time, of equally long ones the first."""
    is_of_pool = np.zeros(len(uses.sizes), np.bool_)
    is_of_pool[blocks] = True
    chosen = np.flatnonzero(is_of_pool[uses.access_blocks]) if len(order) > threshold else np.zeros(0, np.int64)
    chosen = chosen[np.argsort(uses.access_blocks[chosen], kind="stable")]
    block, row = uses.access_blocks[chosen], uses.access_rows[chosen]
    low, high = order.first_after(row[:-1]), order.last_before(row[1:])
    pairs = np.flatnonzero((block[:-1] == block[1:]) & (high - low + 1 > threshold))
    longest_first = pairs[np.lexsort((-(high - low)[pairs], block[pairs]))]
    pairs = longest_first[np.diff(block[longest_first], prepend=NOWHERE) != 0]
    before, after = row[pairs], row[pairs + 1]
    begins, ends = end_of_operator(uses, before), begin_of_operator(uses, after)
    return Intervals(block[pairs], before, after, low[pairs], high[pairs], begins, ends)


def _others_between(
    uses: BlockUses, rows: IntegerArray, own: IntegerArray, low: IntegerArray, high: IntegerArray
) -> MaskArray:
    """Tell for which blocks one of the events has a number between those of two rows, and is not the block's own.

    A number is the row where the operator begins, or the event itself: in the same order, and the same for the same events.
    """
    below, above = begin_of_operator(uses, low), begin_of_operator(uses, high)
    numbers = np.sort(begin_of_operator(uses, rows))
    count = np.searchsorted(numbers, above, side="left") - np.searchsorted(numbers, below, side="right")
    own_number = begin_of_operator(uses, np.maximum(own, 0))
    is_own_between = (own != NOWHERE) & (own_number > below) & (own_number < above)
    found: MaskArray = count - is_own_between > 0
    return found

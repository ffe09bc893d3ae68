"""A step that ran out of memory beside the last good one: the bytes in use, and the full need of the failing one.

The failing step is compared at the same operator, with the last step that allocated at the same call site. The moment
is right before that step did so as often as the failing step had. The remaining need of the step is that of the good
step from there on. Its blocks are scaled by the ratio of the blocks of both steps until then. Blocks of the size of one
that is kept over steps (gradients beside their weights) stay as they are.
"""

from __future__ import annotations

import dataclasses
import math
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.model.moved_module import bytes_to_come
from msmemscope.model.pools import Pool
from msmemscope.recording.call_sites import STACK_COLUMNS, call_sites, failing_call_site
from msmemscope.recording.failed_allocations import failed_attempts
from msmemscope.recording.holders import block_holders_at
from msmemscope.recording.operators import NOWHERE, find_operators
from msmemscope.recording.step_bounds import StepBounds, process_steps, with_steps
from msmemscope.recording.timeline import MemoryUse, blocks_in_use

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from msmemscope.recording import Recording

LEAST_USUAL_RATIO: Final = 1.2
"""Blocks that have become less larger stay as they are in each step: they say nothing of the others."""
_SAME_BASE: Final = 1.02
"""A step can begin with so much more in use, as results of the one before it differ in size."""
MOST_GOOD_STEPS: Final = 8
"""Steps before the failing one in which one to compare it with is looked for."""


@dataclasses.dataclass(frozen=True)
class StepComparison:
    """The failing step beside the last good one."""

    failing_step: int
    good_step: int
    is_same_operator: bool
    """Whether the good step allocated at the call site that failed; otherwise its end is compared."""
    sequence: int
    """The event of the good step that is compared."""
    in_use_bytes: int
    """In use then."""
    request_bytes: int
    """The bytes that were allocated then at the call site that failed."""
    own_bytes: int
    """Of `in_use_bytes`, allocated in the good step."""
    failing_own_bytes: int
    """In use at the failure, allocated in the failing step."""
    need_bytes: int
    """The most that the failing step would have had in use, estimated."""
    is_base_as_before: bool = False
    """Whether about as much was in use when the failing step began as when the good one did, or less."""

    @property
    def good_bytes(self) -> int:
        """The bytes that the good step had allocated up to here, the request included."""
        return self.own_bytes + self.request_bytes

    @property
    def ratio(self) -> float:
        """How many times as much as that the failing step has allocated."""
        return self.failing_own_bytes / self.good_bytes if self.good_bytes > 0 else 1.0


def failing_step(bounds: StepBounds, sequence: int) -> tuple[int, int]:
    """Return the step that an event belongs to, 0 without steps, and the event with which it begins.

    An event behind the end of a step belongs to the next one, which ends with the next call or has not been marked yet.
    """
    step = int(bounds.step_of(np.array([sequence], dtype=np.uint64))[0])
    if step == 0:
        return 0, 0
    if step <= bounds.ended and bounds.ends[step - 1] < sequence:
        return step + 1, int(bounds.ends[step - 1]) + 1
    return step, int(bounds.begins[step - 1])


def _are_among(sizes: Sequence[int], others: Sequence[int]) -> bool:
    """Whether each size has one of the others for itself that is about as large."""
    left = iter(sorted(others))
    return all(
        next((other for other in left if other * LEAST_USUAL_RATIO > size), math.inf) < size * LEAST_USUAL_RATIO
        for size in sorted(sizes)
    )


def _side_by_side(own: pl.DataFrame, steps_own: pl.DataFrame) -> pl.DataFrame:
    """Return `size` of blocks of the failing step and `size_then` of the good one: the nth of a line beside the nth."""
    site = ["site_path", "name"]
    numbered, good = (
        blocks.sort("malloc_sequence").with_columns(place=pl.int_range(pl.len()).over(site))
        for blocks in (own, steps_own)
    )
    return numbered.join(good, on=[*site, "place"], nulls_equal=True, suffix="_then").select("size", "size_then")


def _ratio_of(sums: tuple[int, int], pairs: pl.DataFrame) -> tuple[float, bool]:
    """Return the ratio of the sizes of blocks of the failing step to those of the good one, and whether they are larger.

    Parts of a batch can differ in the order of their sizes, such as tokens that are routed to experts. So blocks are
    compared side by side as well as by their sum. The median of their ratios, by bytes, counts if it is smaller and at
    least LEAST_USUAL_RATIO.

    Args:
        sums: Of the own bytes in use at the same operator: of the failing step, and of the good one.
        pairs: Of `_side_by_side`.
    """
    now, then = sums
    ratio = max(now / then, 1.0) if then > 0 else 1.0
    ratios = pairs.select("size", ratio=pl.col("size") / pl.col("size_then"))
    reached = ratios.sort("ratio").filter(pl.col("size").cum_sum() * 2 >= pl.col("size").sum())
    if reached.is_empty():
        return ratio, True
    usual = float(reached["ratio"][0])
    is_larger = usual >= LEAST_USUAL_RATIO or ratio < LEAST_USUAL_RATIO
    return (usual if LEAST_USUAL_RATIO <= usual < ratio else ratio), is_larger


def _enlarged(sizes: pl.Series, pairs: pl.DataFrame, ratio: float) -> pl.Series:
    """Return the sizes that blocks of the good step would have in the failing one.

    Scores of attention grow with the square of a sequence, and the rest with its length. So a block grows as the one of
    the nearest size does; by the ratio where no block has become larger.
    """
    logarithm = pl.col("size_then").cast(pl.Float64).log()
    known = pairs.group_by("size_then").agg(ratio=pl.col("size").sum() / pl.col("size_then").sum())
    is_larger = pl.col("ratio") >= LEAST_USUAL_RATIO
    grown = known.filter(is_larger).select("ratio", logarithm=logarithm).sort("logarithm")
    asked = sizes.alias("size_then").to_frame().with_row_index("row").with_columns(logarithm=logarithm)
    found = asked.sort("logarithm").join_asof(grown, on="logarithm", strategy="nearest").sort("row")
    larger = (pl.col("size_then") * pl.col("ratio").fill_null(ratio)).round().cast(pl.Int64)
    # Workspaces have one size for all batches.
    stays = pl.col("size_then").is_in(known.filter(~is_larger)["size_then"].implode())
    return found.select(size=pl.when(stays).then("size_then").otherwise(larger))["size"]


def failing_operator(recording: Recording, failure: Mapping[str, Any]) -> tuple[str | None, int]:
    """Return the outermost operator that ran on the thread of a failure, and the event of its start; None and 0 for none."""
    events = recording.events.filter(pl.col("thread_id") == failure["thread_id"])
    operators = find_operators(events)
    row = int(events["sequence"].search_sorted(failure["sequence"]))
    operator = int(operators.of_row[row])
    if operator == NOWHERE:
        return None, 0
    begin = int(operators.begin_rows[operator])
    names = recording.strings.filter(pl.col("id") == events["name_id"][begin])["text"]
    return (names[0] if len(names) else None), int(events["sequence"][begin])


class FailingStep:
    """One failure on one device, the step that it was in, and the blocks around it.

    Args:
        recording: Of the process.
        failure: A row of `failed_attempts`.
        request_bytes: The bytes that were asked for.
    """

    def __init__(self, recording: Recording, failure: Mapping[str, Any], request_bytes: int) -> None:
        """Give each block its call site."""
        self.recording, self.failure = recording, failure
        self.sequence, device = int(failure["sequence"]), int(failure["device"])
        self.request_bytes = request_bytes
        steps = process_steps(recording)
        self.bounds = steps.of(device)
        self.step, self.begin = failing_step(self.bounds, self.sequence)
        name, self.operator_begin = failing_operator(recording, failure)
        self.operator = name or ""
        self.ended = min(self.step - 1, self.bounds.ended) if self.step else 0
        """Steps that had ended before the failing one."""
        self.later_steps = max(self.bounds.ended - max(self.step, 1), 0)
        """Steps that ended after the failing one. A crash ends that one at most, where a module's end counts."""
        again = (pl.col("malloc_sequence") > self.sequence) & (pl.col("python_stack_id") == failure["python_stack_id"])
        is_served_later = failure["python_stack_id"] != 0 and not recording.blocks.filter(again).is_empty()
        self.is_handled = self.later_steps > 0 or is_served_later
        """Whether the program went on: in other steps, or because the same call was served later."""
        is_looked_at = pl.col("malloc_sequence") <= self.sequence
        if self.step:
            since = self.bounds.begins[max(self.step - 2 - MOST_GOOD_STEPS, 0)]
            is_looked_at &= (pl.col("last_end") > 0) | (pl.col("malloc_sequence") >= since)
        on_device = recording.blocks.filter((pl.col("device") == device) & (pl.col("pool") != Pool.HAL))
        blocks = with_steps(on_device, steps).filter(is_looked_at)
        sites = call_sites(recording, blocks.select(STACK_COLUMNS))
        self.blocks = blocks.join(sites, on=STACK_COLUMNS, how="left", maintain_order="left")
        """Of the device's pools: those that outlive steps, and those of the last steps; with `site`, `site_path`, and
        the columns of `with_steps`.
        """
        self.site, self.site_path = failing_call_site(recording, failure)
        if failure["python_stack_id"] == 0:
            # Without a Python stack the operator says more than the driver's function.
            self.site, self.site_path = (self.operator or self.site), self.operator
        stacks = {failure["python_stack_id"], *blocks["python_stack_id"].unique()}
        texts = recording.python_stacks.filter(pl.col("id").is_in(stacks))
        self.texts: dict[int, str] = {key: text or "" for key, text in texts.iter_rows()}
        """Python stacks by their ids."""
        self.stack = self.texts.get(failure["python_stack_id"], "")
        self.alive = blocks_in_use(self.blocks, self.sequence).join(
            block_holders_at(recording, self.sequence), on="malloc_sequence", how="left", maintain_order="left"
        )
        """With `held_by`, null where that is not known."""
        self.own = self.alive.filter(pl.col("malloc_sequence") >= self.begin)
        """Alive, and allocated since the failing step began; in the whole run where there are no steps."""
        self.in_use_bytes = int(self.alive["size"].sum())
        self.least_need_bytes = self.in_use_bytes + request_bytes

    def _made_in(self, step: int) -> pl.DataFrame:
        """Return the blocks that a step that has ended allocated."""
        stretch = self.bounds.begins[step - 1], self.bounds.ends[step - 1]
        return self.blocks.filter(pl.col("malloc_sequence").is_between(*stretch))

    @cached_property
    def bytes_to_come(self) -> int | None:
        """The bytes of a module that was being moved to the device and are not there, the request too; None if not known."""
        attempts = failed_attempts(self.recording)["sequence"]
        for number, size in bytes_to_come(self.recording.facts, int(self.failure["device"])):
            if attempts.filter(attempts < number).max() == self.sequence:
                return max(size, self.request_bytes)
        return None

    @cached_property
    def usual(self) -> tuple[int, int]:
        """Bytes and blocks that the last good step had of its own when that was the most; 0 without one."""
        own = self._made_in(self.ended) if self.ended else self.blocks.clear()
        use = MemoryUse.of(own)
        return use.peak_bytes, blocks_in_use(own, use.peak_moment).height

    @cached_property
    def comparison(self) -> StepComparison | None:
        """The failing step beside the last good one; None without one."""
        last = self.ended
        if last < 1:
            return None
        so_far = self._at_site(self.blocks.filter(pl.col("malloc_sequence") >= self.begin))
        for good in range(last, max(last - MOST_GOOD_STEPS, 0), -1):
            made = self._at_site(self._made_in(good))
            if so_far.height < made.height:
                return self._compared(good, made.row(self._place_in(made, so_far), named=True))
        return self._compared(last, None)

    def _place_in(self, made: pl.DataFrame, so_far: pl.DataFrame) -> int:
        """The request of a good step to compare the failing one with: the one that is as far, or one that is as large.

        The latter only if the step has made the same requests in another order, such as inputs that are shuffled.
        """
        place, sizes = so_far.height, made["size"].to_list()
        # The driver was asked for a whole segment, which is a little larger than the block.
        alike = [one for one in range(len(sizes)) if sizes[one] <= self.request_bytes < sizes[one] * LEAST_USUAL_RATIO]
        if place in alike or not alike:
            return place
        nearest = max(alike, key=lambda one: (sizes[one], -one))
        return nearest if _are_among([*so_far["size"].to_list(), sizes[nearest]], sizes) else place

    @cached_property
    def left_of_last_step(self) -> pl.DataFrame:
        """Blocks of the last good step that are alive, of call sites where the failing step has blocks beside them."""
        if not self.ended:
            return self.alive.clear()
        first = int(self.bounds.begins[self.ended - 1])
        site = ["site_path", "name"]
        left = self.alive.filter(pl.col("malloc_sequence").is_between(first, self.begin, closed="left"))
        return left.join(
            self.own.select(site).unique(), on=site, how="semi", nulls_equal=True, maintain_order="left"
        ).select(pl.exclude("held_by"))

    def _at_site(self, blocks: pl.DataFrame) -> pl.DataFrame:
        is_here = (pl.col("site_path") == self.site_path) & (pl.col("name").fill_null("") == self.operator)
        return blocks.filter(is_here)

    def _compared(self, good: int, block: Mapping[str, Any] | None) -> StepComparison:
        since, until = int(self.bounds.begins[good - 1]), int(self.bounds.ends[good - 1])
        moment, request_then = (until, 0) if block is None else (block["malloc_sequence"] - 1, block["size"])
        then = blocks_in_use(self.blocks, moment)
        own_then = int(then.filter(pl.col("malloc_sequence") >= since)["size"].sum())
        own_now = int(self.own["size"].sum()) + self.request_bytes
        need = self.least_need_bytes
        if block is not None:
            made, made_now = self._made_in(good), self.blocks.filter(pl.col("malloc_sequence") >= self.begin)
            pairs = _side_by_side(made_now, made)
            ratio, is_larger = _ratio_of((own_now, own_then + request_then), pairs)
            if is_larger:
                request = pl.DataFrame([{"size": self.request_bytes, "size_then": request_then}], pairs.schema)
                need = max(need, self._estimated(made, since, pl.concat([pairs, request]), ratio))
            else:
                # More blocks of the same sizes: what the good step still had to come is to come here as well.
                peak = MemoryUse.of(made).peak_bytes
                to_come = self._to_come(made, made_now, block["malloc_sequence"])
                need += max(peak - own_then - request_then, to_come, 0)
        return StepComparison(
            failing_step=self.step,
            good_step=good,
            is_same_operator=block is not None,
            sequence=moment,
            in_use_bytes=int(then["size"].sum()),
            request_bytes=request_then,
            own_bytes=own_then,
            failing_own_bytes=own_now,
            need_bytes=need,
            is_base_as_before=self._base(self.begin) <= self._base(since) * _SAME_BASE,
        )

    def _base(self, begin: int) -> int:
        """Return the bytes in use when a step began."""
        return int(blocks_in_use(self.blocks, begin).filter(pl.col("malloc_sequence") < begin)["size"].sum())

    def _to_come(self, made: pl.DataFrame, made_now: pl.DataFrame, moment: int) -> int:
        """Return the most that blocks have in use that the good step made later, in the failing one.

        Lines may keep their blocks, although those of the good step had gone. Of a layer that is unfrozen, inputs are
        kept for the gradient. So will be those of layers that have not run yet.

        Args:
            made: Blocks of the good step.
            made_now: Those of the failing one.
            moment: The event of the good step that has got as far.
        """
        line = ["site_path", "name"]
        before = made.filter(pl.col("malloc_sequence") < moment)
        later = made.filter(pl.col("malloc_sequence") > moment)
        then, now = (
            blocks.group_by(line)
            .agg(made=pl.len())
            .join(
                blocks_in_use(blocks, until).group_by(line).agg(alive=pl.len()), on=line, how="left", nulls_equal=True
            )
            .with_columns(is_kept=pl.col("alive").fill_null(0) * 2 > pl.col("made"))
            for blocks, until in ((before, moment), (made_now, self.sequence))
        )
        longer = now.filter("is_kept").join(then.filter(~pl.col("is_kept")), on=line, how="semi", nulls_equal=True)
        staying = longer.select(*line, stays=True)
        end = pl.when(pl.col("stays").is_null()).then("free_sequence")
        ended = later.join(staying, on=line, how="left", nulls_equal=True).with_columns(free_sequence=end)
        return MemoryUse.of(ended).peak_bytes if staying.height else 0

    def _estimated(self, made: pl.DataFrame, since: int, pairs: pl.DataFrame, ratio: float) -> int:
        """Return the peak of the good step as it would be in the failing one."""
        base = int(blocks_in_use(self.blocks, self.begin)["size"].sum())
        kept = blocks_in_use(self.blocks, since).filter(pl.col("malloc_sequence") < since)
        # Blocks that the good step has left are in use at the begin of the failing one. They are state that is made
        # once, and gradients that are made again in the place of those before them. Where the failing step has new ones
        # beside them, it needs both.
        again = self.left_of_last_step["malloc_sequence"].implode()
        passing = made.filter((pl.col("free_sequence") <= self.begin) | pl.col("malloc_sequence").is_in(again))
        is_as_before = pl.col("size").is_in(kept["size"].implode())
        larger = _enlarged(passing["size"], pairs, ratio)
        size = pl.when(is_as_before).then(pl.col("size")).otherwise(larger)
        return base + MemoryUse.of(passing.with_columns(size=size)).peak_bytes

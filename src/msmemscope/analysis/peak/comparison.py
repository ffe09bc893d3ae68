"""A step that ran out of memory beside the last good one: what has come since, what grows, and what the step needs in full.

The failing step is compared at the same operator: with the last step that allocated at the same call site, right before it
did so as often as the failing step had. What the step still needed is taken from what the good step did from there on, its
blocks as much larger as those of the failing step were until then; blocks of the size of one that is kept over steps
(gradients beside their weights) stay as they are.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.analysis.leaks.growth import live_series
from msmemscope.model.pools import Pool
from msmemscope.recording.call_sites import NO_CALL_SITE, STACK_COLUMNS, call_sites
from msmemscope.recording.operators import NOWHERE, find_operators
from msmemscope.recording.step_bounds import StepBounds, process_steps
from msmemscope.recording.timeline import blocks_in_use, byte_changes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msmemscope.recording import Recording

MOST_GOOD_STEPS: Final = 8
"""Steps before the failing one in which one to compare it with is looked for."""
_OPTIMIZER: Final = re.compile(r"/torch(?:_npu)?/optim/|/apex/optimizers/|/deepspeed/ops/adam/")
_CHECKPOINT: Final = re.compile(
    r"/torch/serialization\.py\(|/torch/distributed/checkpoint/|/python3[.\d]*/copy\.py\(\d+\): deepcopy|\): (?:_?save_to_)?state_dict$"
    r"|\): [a-z_]*(?:save_checkpoint|save_model|save_pretrained)$",
    re.MULTILINE,
)
_CACHE: Final = re.compile(
    r"/transformers/cache_utils\.py\(|/vllm/.*(?:kv_cache|cache_engine)|kv_?cache", re.IGNORECASE
)
_MODEL: Final = re.compile(
    r"/torch/nn/(?:modules/\w+|parameter)\.py\(\d+\): (?:__init__|_apply|to|npu|cuda|load_state_dict|_load_from_state_dict|to_empty|convert)$"
    r"|\): from_pretrained$",
    re.MULTILINE,
)
_JOINING: Final = re.compile(r"\baten\.(?:cat|concat|stack|constant_pad_nd)\b")
_COPYING: Final = re.compile(r"\baten\.(?:clone|_to_copy|empty_like|copy|empty_strided|cat|stack)\b")
_WITH_WORKSPACE: Final = re.compile(
    r"\baten\.(?:\w*mm|matmul|linear|\w*conv\w*|\w*attention\w*|einsum|bilinear)\b|\bnpu\.\w*(?:attention|matmul|linear)\w*\b"
)
_SITE: Final = ("pool", "site_path")
_FEWEST_COPIES: Final = 2


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
    """What was allocated then at the call site that failed."""
    own_bytes: int
    """Of `in_use_bytes`, allocated in the good step."""
    failing_own_bytes: int
    """In use at the failure, allocated in the failing step."""
    need_bytes: int
    """The most that the failing step would have had in use, estimated."""

    @property
    def ratio(self) -> float:
        """How many times as much as the good step the failing step has allocated up to here, the request included."""
        before = self.own_bytes + self.request_bytes
        return (self.failing_own_bytes) / before if before > 0 else 1.0


@dataclasses.dataclass(frozen=True)
class Contribution:
    """What one kind of use has brought about a failure."""

    size_bytes: int
    """That would not have been needed without it."""
    site: str
    """The call site with most of it; empty if there is none."""
    need_bytes: int
    """The most that would have been in use with it in full; at least what is in use and the request."""


@dataclasses.dataclass(frozen=True)
class Circumstances:
    """Everything that happened around a failure that its cause can be told by."""

    step: int
    """The step that had begun last, 0 before the first and without steps."""
    site: str
    """The call site of the request; empty without any stack."""
    operator: str
    comparison: StepComparison | None
    need_bytes: int
    """The most that would have been in use, as far as that can be told."""
    leak: Contribution | None
    cache: Contribution | None
    batch: Contribution | None
    optimizer: Contribution | None
    checkpoint: Contribution | None
    workspace: Contribution | None
    model: Contribution | None


def stacks_to_compare(recording: Recording, device: int, sequence: int) -> pl.Series:
    """Return the ids of the Python stacks that `circumstances` looks up: of what outlives steps, and of the last steps."""
    bounds = process_steps(recording).of(device)
    blocks = recording.blocks.filter(pl.col("device") == device)
    return _looked_at(blocks, bounds, sequence)["python_stack_id"].unique()


def failing_step(bounds: StepBounds, sequence: int) -> tuple[int, int]:
    """Return the step that an event belongs to, 0 without steps, and the event with which it begins.

    What comes behind the end of a step belongs to the next one, which ends with the next call or has not been marked yet.
    """
    step = int(bounds.step_of(np.array([sequence], dtype=np.uint64))[0])
    if step == 0:
        return 0, 0
    if step <= bounds.ended and bounds.ends[step - 1] < sequence:
        return step + 1, int(bounds.ends[step - 1]) + 1
    return step, int(bounds.begins[step - 1])


def _looked_at(blocks: pl.DataFrame, bounds: StepBounds, sequence: int) -> pl.DataFrame:
    step, _ = failing_step(bounds, sequence)
    since = int(bounds.begins[max(step - 2 - MOST_GOOD_STEPS, 0)]) if step else 0
    born, died = (
        pl.Series(bounds.ends_before(column.to_numpy()))
        for column in (blocks["malloc_sequence"], blocks["free_sequence"].fill_null(np.iinfo(np.uint64).max))
    )
    return blocks.filter(
        (pl.col("malloc_sequence") <= sequence) & ((pl.lit(born) < pl.lit(died)) | (pl.col("malloc_sequence") >= since))
    )


def circumstances(recording: Recording, failure: Mapping[str, Any], request_bytes: int) -> Circumstances:
    """Look at what happened around a failure.

    Args:
        recording: Of the process.
        failure: A row of `failed_attempts`.
        request_bytes: What was asked for.
    """
    return _Failure(recording, failure, request_bytes).look()


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


class _Failure:
    """One failure on one device, and the blocks around it."""

    def __init__(self, recording: Recording, failure: Mapping[str, Any], request_bytes: int) -> None:
        """Give each block its call site and the kind of use that its stack tells."""
        self._sequence = int(failure["sequence"])
        self._request = request_bytes
        device = int(failure["device"])
        self._bounds = process_steps(recording).of(device)
        self.step, self._begin = failing_step(self._bounds, self._sequence)
        name, self._operator_begin = failing_operator(recording, failure)
        self.operator = name or ""
        on_device = recording.blocks.filter((pl.col("device") == device) & (pl.col("pool") != Pool.HAL))
        blocks = _looked_at(on_device, self._bounds, self._sequence)
        asked = {**{column: failure[column] for column in STACK_COLUMNS}, "name_id": 0}
        stacks = pl.concat(
            [blocks.select(STACK_COLUMNS), pl.DataFrame([asked], schema=blocks.select(STACK_COLUMNS).schema)]
        )
        sites = call_sites(recording, stacks)
        self._blocks = blocks.join(sites, on=STACK_COLUMNS, how="left", maintain_order="left")
        own = sites.filter(pl.all_horizontal(pl.col(column) == value for column, value in asked.items())).row(
            0, named=True
        )
        has_python = failure["python_stack_id"] != 0
        # Without a Python stack the operator says more than the driver's function.
        self.site = own["site"] if has_python or not self.operator else self.operator
        self._site_path = own["site_path"] if has_python else self.operator
        if self.site == NO_CALL_SITE:
            self.site = ""
        texts = recording.python_stacks.filter(pl.col("id").is_in(stacks["python_stack_id"].unique().implode()))
        self._texts = dict(texts.iter_rows())
        self._stack = self._texts.get(failure["python_stack_id"], "") or ""
        self._alive = blocks_in_use(self._blocks, self._sequence)
        self._in_use = int(self._alive["size"].sum())
        self._least_need = self._in_use + self._request

    def look(self) -> Circumstances:
        """Put everything together."""
        comparison = self._comparison()
        need = max(self._least_need, comparison.need_bytes if comparison is not None else 0)
        leak, cache = self._growth()
        return Circumstances(
            step=self.step,
            site=self.site,
            operator=self.operator,
            comparison=comparison,
            need_bytes=need,
            leak=leak,
            cache=cache,
            batch=self._batch(comparison),
            optimizer=self._of_stack(_OPTIMIZER, comparison),
            checkpoint=self._of_stack(_CHECKPOINT, comparison) or self._copies(),
            workspace=self._workspace(),
            model=self._model(),
        )

    # --- the good step -------------------------------------------------------------------------------------------------

    def _comparison(self) -> StepComparison | None:
        last = min(self.step - 1, self._bounds.ended)
        if last < 1:
            return None
        begin = self._begin
        own = self._blocks.filter(pl.col("malloc_sequence") >= begin)
        at_site = self._at_site(own).height
        for good in range(last, max(last - MOST_GOOD_STEPS, 0), -1):
            since, until = int(self._bounds.begins[good - 1]), int(self._bounds.ends[good - 1])
            steps_own = self._blocks.filter(pl.col("malloc_sequence").is_between(since, until))
            candidates = self._at_site(steps_own)
            if at_site < candidates.height:
                return self._compared(good, (since, until), steps_own, candidates.row(at_site, named=True))
        since, until = int(self._bounds.begins[last - 1]), int(self._bounds.ends[last - 1])
        steps_own = self._blocks.filter(pl.col("malloc_sequence").is_between(since, until))
        return self._compared(last, (since, until), steps_own, None)

    def _at_site(self, blocks: pl.DataFrame) -> pl.DataFrame:
        is_here = (pl.col("site_path") == self._site_path) & (pl.col("name").fill_null("") == self.operator)
        return blocks.filter(is_here)

    def _compared(
        self, good: int, stretch: tuple[int, int], steps_own: pl.DataFrame, block: Mapping[str, Any] | None
    ) -> StepComparison:
        since, until = stretch
        moment = int(block["malloc_sequence"]) - 1 if block is not None else until
        then = blocks_in_use(self._blocks, moment)
        own_then = int(then.filter(pl.col("malloc_sequence") >= since)["size"].sum())
        begin = self._begin
        own_now = int(self._alive.filter(pl.col("malloc_sequence") >= begin)["size"].sum())
        request_then = int(block["size"]) if block is not None else 0
        need = self._least_need
        if block is not None:
            need = max(
                need, self._estimated(steps_own, since, until, (own_then + request_then, own_now + self._request))
            )
        return StepComparison(
            failing_step=self.step,
            good_step=good,
            is_same_operator=block is not None,
            sequence=moment,
            in_use_bytes=int(then["size"].sum()),
            request_bytes=request_then,
            own_bytes=own_then,
            failing_own_bytes=own_now + self._request,
            need_bytes=need,
        )

    def _estimated(self, steps_own: pl.DataFrame, since: int, until: int, sums: tuple[int, int]) -> int:
        """Returns the peak of the good step as it would be in the failing one."""
        then, now = sums
        ratio = max(now / then, 1.0) if then > 0 else 1.0
        begin = self._begin
        base = int(blocks_in_use(self._blocks, begin)["size"].sum())
        kept = blocks_in_use(self._blocks, since).filter(pl.col("malloc_sequence") < since)
        # What the good step has left is in use at the begin of the failing one: state that is made once, gradients that
        # are made again where those before them were.
        passing = steps_own.filter(pl.col("free_sequence") <= begin)
        is_as_before = passing["size"].is_in(kept["size"].implode())
        larger = (pl.col("size") * ratio).round().cast(pl.Int64)
        size = pl.when(pl.lit(is_as_before)).then(pl.col("size")).otherwise(larger)
        changes = byte_changes(passing.with_columns(size=size))
        course = changes.filter(pl.col("sequence") <= until)["change"].cum_sum()
        highest = course.max()
        return base + (int(highest) if isinstance(highest, int) else 0)

    # --- kinds of use --------------------------------------------------------------------------------------------------

    def _growth(self) -> tuple[Contribution | None, Contribution | None]:
        """Returns what call sites keep more of from step to step: as more and more blocks, and as larger ones."""
        ended = min(self.step - 1, self._bounds.ended) if self.step else 0
        if ended < 2:  # noqa: PLR2004 - growth needs two steps
            return None, None
        born = self._bounds.ends_before(self._blocks["malloc_sequence"].to_numpy()) + 1
        freed = self._blocks["free_sequence"].fill_null(np.iinfo(np.uint64).max).to_numpy()
        died = np.minimum(self._bounds.ends_before(freed), ended)
        outliving = self._blocks.with_columns(first_end=pl.Series(born), last_end=pl.Series(died))
        outliving = outliving.filter(pl.col("last_end") >= pl.col("first_end")).with_columns(
            group=pl.struct(_SITE).rank("dense").cast(pl.Int64) - 1
        )
        if outliving.is_empty():
            return None, None
        groups = int(outliving["group"].to_numpy().max()) + 1
        steps = np.arange(1, ended + 1, dtype=np.int64)
        group = outliving["group"].to_numpy()
        live = live_series(group, groups, outliving, steps)
        count = live_series(group, groups, outliving.with_columns(size=pl.lit(1)), steps)
        names = dict(outliving.group_by("group").agg(pl.col("site").first()).iter_rows())
        marks = self._cache_groups(outliving)
        sums: dict[bool, list[tuple[int, str]]] = {False: [], True: []}
        for number in np.flatnonzero(_is_growing(live)):
            is_cache = int(number) in marks or (
                count[number, -1] == count[number, 0] and self._is_joined(outliving, int(number))
            )
            sums[bool(is_cache)].append((int(live[number, -1] - live[number, 0]), names[int(number)]))
        found = [_summed(sums[is_cache], self._least_need) for is_cache in (False, True)]
        return found[0], found[1]

    def _cache_groups(self, outliving: pl.DataFrame) -> frozenset[int]:
        stacks = outliving.select("group", "python_stack_id").unique().iter_rows()
        return frozenset(group for group, stack in stacks if _CACHE.search(self._texts.get(stack) or ""))

    def _is_joined(self, outliving: pl.DataFrame, group: int) -> bool:
        names = outliving.filter(pl.col("group") == group)["name"].drop_nulls().unique()
        return any(_JOINING.search(name) for name in names)

    def _batch(self, comparison: StepComparison | None) -> Contribution | None:
        """Returns what call sites of the step itself have more than in the good step, and how much more there is to come."""
        if comparison is None or not comparison.is_same_operator or comparison.ratio < LEAST_JUMP:
            return None
        begin = self._begin
        own = self._alive.filter(pl.col("malloc_sequence") >= begin)
        grown = comparison.failing_own_bytes - comparison.own_bytes - comparison.request_bytes
        rest = max(comparison.need_bytes - self._least_need, 0)
        sites = own.group_by("site").agg(pl.col("size").sum()).sort("size", "site", descending=[True, False])
        del rest
        return Contribution(
            grown + comparison.need_bytes - self._least_need,
            sites["site"][0] if len(sites) else self.site,
            comparison.need_bytes,
        )

    def _of_stack(self, pattern: re.Pattern[str], comparison: StepComparison | None) -> Contribution | None:
        """Returns what has come from stacks of one kind since the good step, or at all; the rest of it is estimated."""
        ids = [key for key, text in self._texts.items() if text and pattern.search(text)]
        is_kind = pl.col("python_stack_id").is_in(ids)
        now = self._alive.filter(is_kind)
        before = (
            blocks_in_use(self._blocks, comparison.sequence).filter(is_kind) if comparison is not None else now.clear()
        )
        is_request = pattern.search(self._stack) is not None
        size = int(now["size"].sum()) - int(before["size"].sum()) + (self._request if is_request else 0)
        if size <= 0:
            return None
        need = self._least_need
        if is_request:
            need = max(need, self._in_use + self._missing_copies(now))
        sites = now.group_by("site").agg(pl.col("size").sum()).sort("size", "site", descending=[True, False])
        return Contribution(size + need - self._least_need, self.site if is_request else sites["site"][0], need)

    def _missing_copies(self, copies: pl.DataFrame) -> int:
        """Returns what is still to come of something that is made beside each weight: for each stack, all weights once."""
        originals = self._originals()
        stacks = max(copies.select("python_stack_id").n_unique(), 1)
        return max(int(originals["size"].sum()) * stacks - int(copies["size"].sum()), self._request)

    def _originals(self) -> pl.DataFrame:
        """Returns the weights as far as they can be told: the blocks that a model was made of, before its first gradient."""
        ids = [key for key, text in self._texts.items() if text and _MODEL.search(text)]
        return self._alive.filter(pl.col("python_stack_id").is_in(ids))

    def _copies(self) -> Contribution | None:
        """Returns what copies of the weights, made one after the other on one line, have and need."""
        if not _COPYING.search(self.operator):
            return None
        begin, path = self._begin, self._site_path
        made = self._alive.filter((pl.col("site_path") == path) & (pl.col("malloc_sequence") >= begin))
        originals = self._originals()
        if made.height < _FEWEST_COPIES or originals.height < made.height:
            return None
        if made["size"].to_list() != originals["size"].to_list()[: made.height]:
            return None
        need = max(self._least_need, self._in_use + int(originals["size"].sum()) - int(made["size"].sum()))
        return Contribution(int(made["size"].sum()) + need - self._in_use, self.site, need)

    def _workspace(self) -> Contribution | None:
        """Returns what a workspace has grown by, if the request is for one.

        No recorded fact names the request's pool. A workspace is what an operator that has one asks for when it has its
        result already.
        """
        if not _WITH_WORKSPACE.search(self.operator) or not self._operator_begin:
            return None
        results = self._alive.filter(
            (pl.col("malloc_sequence") > self._operator_begin) & (pl.col("name") == self.operator)
        )
        if results.is_empty():
            return None
        # Earlier workspaces: what such operators had before, results no larger than the request among it.
        is_such = pl.col("name").str.contains(_WITH_WORKSPACE.pattern) | (pl.col("pool") == Pool.PTA_WORKSPACE)
        earlier = self._blocks.filter(is_such & (pl.col("malloc_sequence") < self._operator_begin))
        sizes = earlier["size"].to_numpy()
        largest = int(sizes[sizes <= self._request].max(initial=0))
        grown = self._request - largest
        return Contribution(grown, self.site, self._least_need) if grown > 0 else None

    def _model(self) -> Contribution | None:
        """Returns what a model has that is being made or moved to the device."""
        if self.step > 1 or not _MODEL.search(self._stack):
            return None
        size = int(self._originals()["size"].sum()) + self._request
        return Contribution(size, self.site, self._least_need)


LEAST_JUMP: Final = 1.2
"""How many times as much as the good step a step needs at least that is said to need more."""


def _is_growing(live: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Tell which series grow: they are highest at the end, rise at half of the steps or more, and in their last quarter."""
    rises = np.diff(live, axis=1) > 0
    late = rises[:, -max(rises.shape[1] // 4, 1) :].any(axis=1)
    growing: np.ndarray[Any, np.dtype[np.bool_]] = (
        (live[:, -1] > live[:, 0]) & (live[:, -1] == live.max(axis=1)) & (rises.mean(axis=1) >= 1 / 2) & late
    )
    return growing


def _summed(found: list[tuple[int, str]], need_bytes: int) -> Contribution | None:
    if not found:
        return None
    return Contribution(sum(size for size, _ in found), max(found)[1], need_bytes)

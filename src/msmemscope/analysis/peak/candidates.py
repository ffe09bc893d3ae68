"""Memory that would have to be gone for a failed step to finish: by kind of use, the memory since the last good step.

Each candidate says how many bytes it would free, and at which line. Memory of holders is in `kept`, gaps are in `gaps`;
`cause` ranks them all.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.analysis.peak.cause_words import Cause
from msmemscope.analysis.peak.figures import most_of
from msmemscope.model.caching_allocator import segment_bytes
from msmemscope.model.pools import Pool
from msmemscope.recording.holders import container_of, main_holder
from msmemscope.recording.source_lines import blamed_frame, site_text, stack_frames
from msmemscope.recording.timeline import blocks_in_use

if TYPE_CHECKING:
    from collections.abc import Iterator

    from msmemscope.analysis.peak.comparison import FailingStep

_OPTIMIZER: Final = re.compile(r"/torch(?:_npu)?/optim/|/apex/optimizers/|/deepspeed/ops/adam/")
_WITH_TWO_COPIES: Final = re.compile(r"/optim/(?:adam|adamw|nadam|radam|adamax|adadelta)\.py\(")
"""Optimizers that make two tensors beside each weight: the first one that is refused does not show the second."""
_CHECKPOINT: Final = re.compile(
    r"/torch/serialization\.py\(|/torch/distributed/checkpoint/|/python3[.\d]*/copy\.py\(\d+\): deepcopy|\): (?:_?save_to_)?state_dict$"
    r"|\): [a-z_]*(?:save_checkpoint|save_model|save_pretrained)$",
    re.MULTILINE,
)
_LOADING: Final = re.compile(r"/torch/serialization\.py\(\d+\): _?load$", re.MULTILINE)
_COPIED_MODEL: Final = re.compile(r"/torch/nn/parameter\.py\(\d+\): __deepcopy__$", re.MULTILINE)
_MODEL: Final = re.compile(
    r"/torch/nn/(?:modules/\w+|parameter)\.py\(\d+\): (?:__init__|__deepcopy__|_apply|to|npu|cuda|load_state_dict|_load_from_state_dict|to_empty|convert)$"
    r"|\): from_pretrained$",
    re.MULTILINE,
)
_COPYING: Final = re.compile(r"\baten\.(?:clone|_to_copy|empty_like|copy|empty_strided|cat|stack)\b")
_WITH_WORKSPACE: Final = re.compile(
    r"\baten\.(?:\w*mm|matmul|linear|\w*conv\w*|\w*attention\w*|einsum|bilinear)\b|\bnpu\.\w*(?:attention|matmul|linear)\w*\b"
)
_FEWEST_COPIES: Final = 2
_LEAST_MODEL_SHARE: Final = 1 / 4
"""Of all models: the least share of the one that is being made, or of an earlier one, where there are two."""
LEAST_JUMP: Final = 1.2
"""A step that needs more needs at least so many times as much as the good step."""
_ABOUT_AS_LARGE: Final = 3 / 4
"""Of the largest line of a step: lines with so much are about as large."""
_LEAST_STEPLESS_JUMP: Final = 4
"""The same where there are no steps, and by line: requests of a line differ between the layers of a model."""
_FEWEST_EARLIER: Final = 3
"""Blocks that a line must have had before to be compared."""


@dataclasses.dataclass(frozen=True)
class Candidate:
    """Something that would have to be gone."""

    cause: Cause
    freed_bytes: int
    """That would be free, or would not be needed, without it."""
    site: str
    """The call site with most of it; empty if there is none."""
    need_bytes: int = 0
    """The most that would have been in use with it in full; 0 where it ends with the request."""
    block_count: int = 0
    """Blocks that it has at the failure; 0 where they are not counted."""
    held_by: str = ""
    """The holder of most of it in the program; empty where that is not known."""
    is_enough: bool | None = None
    """Whether the step would finish without it; None where that is not known."""
    is_loaded: bool = False
    """Whether it is a checkpoint that was loaded, not one that is being saved."""
    is_whole: bool = False
    """Whether it is a model whose bytes still to come are known, and are among its own."""
    setting: str | None = None
    """Of gaps: the setting of the allocator with which a replay serves the request. Empty if there is none, None if the
    allocations cannot be replayed.
    """


def candidate_of(cause: Cause, blocks: pl.DataFrame, step: FailingStep, more_bytes: int = 0) -> Candidate:
    """Return blocks of `step.alive` as a candidate, with so many more bytes than they have."""
    size = int(blocks["size"].sum()) + more_bytes
    site = most_of(blocks, "site") or step.site
    count = blocks.height if more_bytes <= 0 else 0
    return Candidate(cause, size, site, step.least_need_bytes, count, main_holder(blocks))


def is_of_stack(step: FailingStep, pattern: re.Pattern[str]) -> pl.Expr:
    """Tell which blocks were allocated below a Python stack that a pattern is found in."""
    ids = [key for key, text in step.texts.items() if text and pattern.search(text)]
    return pl.col("python_stack_id").is_in(ids)


def is_of_model(step: FailingStep) -> pl.Expr:
    """Tell which blocks a model was made of, before its first gradient."""
    return is_of_stack(step, _MODEL)


def is_of_optimizer(step: FailingStep) -> pl.Expr:
    """Tell which blocks an optimizer has made."""
    return is_of_stack(step, _OPTIMIZER)


def candidates_by_use(step: FailingStep) -> Iterator[Candidate]:
    """Return the memory that has come since the last good step, or in a first one, by kind of use."""
    found = (
        _of_stack(step, Cause.CHECKPOINT, _CHECKPOINT) or _copies(step),
        _of_stack(step, Cause.OPTIMIZER_STATE, _OPTIMIZER),
        _workspace(step),
        _model(step),
        _more_than_before(step),
    )
    yield from (one for one in found if one is not None)


def _of_stack(step: FailingStep, cause: Cause, pattern: re.Pattern[str]) -> Candidate | None:
    """Memory that has come from stacks of one kind since the good step, or at all; the rest of it is estimated."""
    # A copy of a model is one: what is copied for a checkpoint are tensors.
    is_kind, comparison = is_of_stack(step, pattern) & ~is_of_stack(step, _COPIED_MODEL), step.comparison
    now = step.alive.filter(is_kind)
    before = blocks_in_use(step.blocks, comparison.sequence).filter(is_kind) if comparison is not None else now.clear()
    is_request = pattern.search(step.stack) is not None and not _COPIED_MODEL.search(step.stack)
    size = int(now["size"].sum()) - int(before["size"].sum()) + (step.request_bytes if is_request else 0)
    if size <= 0:
        return None
    need = step.least_need_bytes
    if is_request:
        need = max(need, step.in_use_bytes + _missing_copies(step, now))
    site = step.site if is_request else most_of(now, "site")
    # A number of blocks beside the bytes of more than these would be wrong.
    count = 0 if is_request else now.height - before.height
    found = Candidate(cause, size + need - step.least_need_bytes, site, need, count)
    loaded = now.filter(is_of_stack(step, _LOADING))
    if cause is Cause.CHECKPOINT and int(loaded["size"].sum()) * 2 > int(now["size"].sum()):
        return dataclasses.replace(found, held_by="" if is_request else main_holder(loaded), is_loaded=True)
    return found


def _missing_copies(step: FailingStep, copies: pl.DataFrame) -> int:
    """Return the bytes still to come of things that are made beside each weight: for each stack, all weights once."""
    originals = step.alive.filter(is_of_model(step))
    stacks = max(copies["python_stack_id"].n_unique(), 2 if _WITH_TWO_COPIES.search(step.stack) else 1)
    return max(int(originals["size"].sum()) * stacks - int(copies["size"].sum()), step.request_bytes)


def _copies(step: FailingStep) -> Candidate | None:
    """The bytes that copies of the weights, made one after the other on one line, have and need."""
    # A model that is moved to the device is no copy of another one.
    if not _COPYING.search(step.operator) or _MODEL.search(step.stack):
        return None
    made = step.own.filter(pl.col("site_path") == step.site_path)
    originals = step.alive.filter(is_of_model(step))
    if made.height < _FEWEST_COPIES or not made["size"].equals(originals["size"].head(made.height)):
        return None
    size = int(made["size"].sum())
    need = max(step.least_need_bytes, step.in_use_bytes + int(originals["size"].sum()) - size)
    return Candidate(Cause.CHECKPOINT, size + need - step.in_use_bytes, step.site, need, made.height)


def _workspace(step: FailingStep) -> Candidate | None:
    """The growth of a workspace, if the request is for one.

    No recorded fact names the request's pool. An operator with a workspace asks for it when it has its result already.
    """
    if not _WITH_WORKSPACE.search(step.operator) or not step.operator_begin:
        return None
    is_result = (pl.col("malloc_sequence") > step.operator_begin) & (pl.col("name") == step.operator)
    if step.alive.filter(is_result).is_empty():
        return None
    # Earlier workspaces: the memory that such operators had before, results no larger than the request among it.
    is_such = pl.col("name").str.contains(_WITH_WORKSPACE.pattern) | (pl.col("pool") == Pool.PTA_WORKSPACE)
    earlier = step.blocks.filter(is_such & (pl.col("malloc_sequence") < step.operator_begin))
    sizes = earlier["size"].to_numpy()
    grown = step.request_bytes - int(sizes[sizes <= step.request_bytes].max(initial=0))
    return Candidate(Cause.WORKSPACE, grown, step.site, step.least_need_bytes) if grown > 0 else None


def _model(step: FailingStep) -> Candidate | None:
    """The memory of a model that is being made or moved to the device, in the failing step or in a first one."""
    models = step.alive.filter(is_of_model(step))
    model_bytes = int(models["size"].sum()) + step.request_bytes
    is_request = _MODEL.search(step.stack) is not None
    if step.step > 1:
        own = models.filter(pl.col("malloc_sequence") >= step.begin)
        second = candidate_of(Cause.SECOND_MODEL, own, step, step.request_bytes if is_request else 0)
        is_second = second.freed_bytes >= _LEAST_MODEL_SHARE * model_bytes and own.height < models.height
        if is_request and step.bytes_to_come is not None:
            size = int(own["size"].sum()) + step.bytes_to_come
            need = step.in_use_bytes + step.bytes_to_come
            second = dataclasses.replace(second, freed_bytes=size, need_bytes=need, is_whole=True)
            is_second = (
                size >= _LEAST_MODEL_SHARE * (need - step.in_use_bytes + model_bytes) and own.height < models.height
            )
        elif is_request:
            # Its bytes still to come are taken for those of a model as large as the first.
            to_come = int(models["size"].sum()) - 2 * int(own["size"].sum())
            second = dataclasses.replace(second, need_bytes=step.in_use_bytes + max(to_come, step.request_bytes))
        first = models.filter(pl.col("malloc_sequence") < step.begin)
        text = step.stack if is_request else step.texts.get(_main_stack(own), "")
        return dataclasses.replace(second, site=_line_apart(text, first, step) or second.site) if is_second else None
    if not is_request:
        return None
    model_bytes += (step.bytes_to_come or step.request_bytes) - step.request_bytes
    need = step.in_use_bytes + (step.bytes_to_come or step.request_bytes)
    earlier = candidate_of(Cause.SECOND_MODEL, models.filter(pl.col("site_path") != step.site_path), step)
    is_whole = step.bytes_to_come is not None
    earlier = dataclasses.replace(earlier, need_bytes=need, is_whole=is_whole)
    if min(earlier.freed_bytes, model_bytes - earlier.freed_bytes) >= _LEAST_MODEL_SHARE * model_bytes:
        return earlier
    return Candidate(Cause.MODEL_TOO_LARGE, model_bytes, step.site, need, models.height, is_whole=is_whole)


def _main_stack(blocks: pl.DataFrame) -> int:
    sums = blocks.group_by("python_stack_id").agg(pl.col("size").sum())
    return int(sums.sort("size", "python_stack_id", descending=[True, False])["python_stack_id"][0]) if len(sums) else 0


def _line_apart(text: str, others: pl.DataFrame, step: FailingStep) -> str:
    """Return the innermost line of a stack that leads to none of the other blocks; empty if its own line is such a one.

    Two models are often made by the same function, and the line that called it tells which one is meant.
    """
    stack = stack_frames(text)
    of_others = {frame for key in others["python_stack_id"].unique() for frame in stack_frames(step.texts.get(key, ""))}
    if blamed_frame(stack) not in of_others:
        return ""
    apart = [frame for frame in stack if frame not in of_others]
    return site_text(apart) or ""


def _more_than_before(step: FailingStep) -> Candidate | None:
    """The surplus that the failing step needs over the last good one: at the same operator, else at its most."""
    comparison, (usual_bytes, _) = step.comparison, step.usual
    if comparison is None:
        return _larger_than_before(step)
    # Without the surplus the step would be the good one again, which has finished.
    is_enough = comparison.is_base_as_before or None
    if comparison.is_same_operator:
        if comparison.ratio < LEAST_JUMP:
            return None
        rest = comparison.need_bytes - step.least_need_bytes
        cause = _jump(step)
        site = _line_of(step, cause)
        if cause is Cause.MORE_BLOCKS:
            # Beside the most that the good step had, which it may have had later.
            grown = comparison.failing_own_bytes + rest - max(usual_bytes, comparison.good_bytes)
            if grown <= 0:
                return None
            held_by = _holder_of_more(step, grown)
            return Candidate(cause, grown, site, comparison.need_bytes, held_by=held_by, is_enough=is_enough)
        grown = comparison.failing_own_bytes - comparison.good_bytes + rest
        return Candidate(cause, grown, site, comparison.need_bytes, is_enough=is_enough)
    own = int(step.own["size"].sum()) + step.request_bytes
    if not usual_bytes or own < LEAST_JUMP * usual_bytes:
        return None
    cause, grown = _jump(step), own - usual_bytes
    site = _line_of(step, cause)
    if cause is Cause.MORE_BLOCKS and step.request_bytes >= own / 2:
        return None  # there is one block more
    held_by = _holder_of_more(step, grown) if cause is Cause.MORE_BLOCKS else ""
    return Candidate(cause, grown, site, step.least_need_bytes, held_by=held_by, is_enough=is_enough)


def _line_of(step: FailingStep, cause: Cause) -> str:
    """Return the line with most of the failing step's blocks, the request among them.

    Of a batch that jumped, all layers have results that are about as large: the first of them shows where it comes from.
    """
    request = pl.DataFrame(
        {"site": [step.site], "size": [step.request_bytes], "malloc_sequence": [step.sequence]},
        schema={"site": pl.String(), "size": pl.Int64(), "malloc_sequence": step.own.schema["malloc_sequence"]},
    )
    own = step.own.select("site", pl.col("size").cast(pl.Int64), "malloc_sequence")
    lines = (
        pl.concat([own, request])
        .drop_nulls("site")
        .group_by("site")
        .agg(pl.col("size").sum(), pl.col("malloc_sequence").min())
        .sort("size", "site", descending=[True, False])
    )
    if cause is Cause.BATCH_JUMP:
        lines = lines.filter(pl.col("size") >= _ABOUT_AS_LARGE * pl.col("size").max()).sort("malloc_sequence")
    return str(lines["site"][0]) or step.site


def _holder_of_more(step: FailingStep, grown_bytes: int) -> str:
    """Return the main holder of blocks of the failing step, if it holds half of the surplus; empty elsewhere."""
    held = step.own.drop_nulls("held_by").with_columns(key=container_of(pl.col("held_by")))
    largest = held.group_by("key").agg(pl.col("size").sum()).sort("size", "key", descending=[True, False]).head(1)
    if largest.is_empty() or int(largest["size"][0]) * 2 < grown_bytes:
        return ""
    return main_holder(held.filter(pl.col("key") == largest["key"][0]))


def _jump(step: FailingStep) -> Cause:
    """Whether the surplus is mostly of blocks that are larger than any that their line ever had in earlier steps.

    A validation calls the model from another line: a new line is compared with its operator.
    """
    line = ["python_stack_id", "name"]
    request = pl.DataFrame(
        {"python_stack_id": [step.failure["python_stack_id"]], "name": [step.operator], "size": [step.request_bytes]},
        schema={"python_stack_id": step.own.schema["python_stack_id"], "name": pl.String(), "size": pl.Int64()},
    )
    sizes = pl.col("size").cast(pl.Int64), pl.col("name").fill_null("")
    own = pl.concat([step.own.select("python_stack_id", *sizes), request], how="diagonal")
    earlier = step.recording.blocks.filter(
        pl.col("malloc_sequence") < step.begin, pl.col("device") == step.failure["device"]
    ).select("python_stack_id", *sizes)
    of_line, of_operator = (
        earlier.group_by(key).agg(pl.col("size").max().alias(name))
        for key, name in ((line, "of_line"), ("name", "of_operator"))
    )
    usual = pl.coalesce("of_line", "of_operator")
    larger = own.join(of_line, on=line, how="left").join(of_operator, on="name", how="left")
    larger = larger.filter(pl.col("size") >= LEAST_JUMP * usual)
    is_larger = int(larger["size"].sum()) * 2 >= int(own["size"].sum())
    return Cause.BATCH_JUMP if is_larger else Cause.MORE_BLOCKS


def _larger_than_before(step: FailingStep) -> Candidate | None:
    """Without steps: blocks that are far larger than the usual requests of their line, the request among them."""
    request = step.request_bytes
    here = step.blocks.filter(pl.col("site_path") == step.site_path)
    is_such = pl.col("size") * LEAST_JUMP >= request
    first = here.filter(is_such)["malloc_sequence"].min()
    usual = here.filter(~is_such)
    # A line that has always had both kinds has not jumped: an optimizer asks for matrices and for vectors.
    before = usual if first is None else usual.filter(pl.col("malloc_sequence") < first)
    if before.height < _FEWEST_EARLIER:
        return None
    most = int(usual["size"].to_numpy().max())
    # A pool asks for a whole segment, however little of it a block takes.
    if request < _LEAST_STEPLESS_JUMP * most or request <= segment_bytes(most):
        return None
    # A gradient is as large as its weight.
    weights = step.alive.filter(is_of_model(step))["size"].to_numpy()
    if "backward" in step.operator and (abs(weights - request) <= (LEAST_JUMP - 1) * request).any():
        return None
    such = step.alive.filter(is_such, pl.col("site_path") == step.site_path)["size"].to_numpy()
    size = int((such - most).sum()) + _larger_elsewhere(step) + request - most
    # The usual requests of the line did fit.
    return Candidate(Cause.BATCH_JUMP, size, step.site, step.least_need_bytes, is_enough=True)


def _larger_elsewhere(step: FailingStep) -> int:
    """By how many bytes live blocks of other lines are larger than the usual ones of their line."""
    of_line = step.blocks.filter(pl.col("site_path") != step.site_path).with_columns(
        usual=pl.col("size").median().over("site_path", "name"), count=pl.len().over("site_path", "name")
    )
    is_larger = pl.col("size") >= _LEAST_STEPLESS_JUMP * pl.col("usual")
    first = pl.when(is_larger).then("malloc_sequence").min().over("site_path", "name")
    is_before = first.is_null() | (pl.col("malloc_sequence") < first)
    of_line = of_line.filter(
        pl.col("count") >= _FEWEST_EARLIER, is_before.sum().over("site_path", "name") >= _FEWEST_EARLIER
    )
    is_alive = pl.col("malloc_sequence").is_in(step.alive["malloc_sequence"].implode())
    larger = of_line.filter(is_larger & is_alive)
    return int((larger["size"] - larger["usual"]).sum())

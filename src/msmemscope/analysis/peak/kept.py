"""Memory that is kept at a failure though no step needs it: blocks that the program still refers to, and growth.

Seven kinds, each of blocks that are alive at the failure:

- frames of an exception: of a failed attempt, whose traceback something still refers to;
- reference cycles: nothing leads to the blocks, they wait for the garbage collector;
- growth over steps: call sites that keep more with each step that has ended;
- entries of a container that came one by one over the run, each with a model of its own (folds of a cross-validation);
- a container with most of what is in use that became fuller, though not with each step: a queue;
- results of the last step that are made anew while something still refers to the old ones;
- growth within the failing stretch, behind the last good step or in a program without steps. Examples are collected
  results of an evaluation, graphs that are kept, and one tensor that is joined again and again. After good steps it
  must be more than the last of them had of its own at its highest.

A container that the program bounds is none of these, and a candidate of its own.

The observed process found the holders of blocks by following references when the allocation failed.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.analysis.leaks.trends import live_series
from msmemscope.analysis.peak.candidates import (
    LEAST_JUMP,
    Candidate,
    candidate_of,
    is_of_model,
    is_of_optimizer,
)
from msmemscope.analysis.peak.cause_words import Cause
from msmemscope.analysis.peak.figures import most_of
from msmemscope.model.holders import GRADIENT, HANDLED_EXCEPTION, IN_CYCLE, TRACEBACK
from msmemscope.recording.holders import container_of, filling_blocks, filling_containers, main_holder
from msmemscope.recording.timeline import MemoryUse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from msmemscope.analysis.peak.comparison import FailingStep

_CACHE: Final = re.compile(
    r"/transformers/cache_utils\.py\(|/vllm/.*(?:kv_cache|cache_engine)|kv_?cache|past_key_values", re.IGNORECASE
)
_OF_PART: Final = r"^\w+\.\w+, from [\w.]*\.\d+(?:\.|$)"
"""Chains to an attribute of a module that is a numbered part of another: a weight, though none that is registered."""
_UNDER_CONSTRUCTION: Final = r"^forward\.\w+ -> autograd graph"
"""Chains to the graph of a forward pass that is running: its backward pass will need it."""
_JOINING: Final = re.compile(r"\baten\.(?:cat|concat|stack|constant_pad_nd)\b")
_SITE: Final = ("pool", "site_path")
_FEWEST_STEPS: Final = 2
_FEWEST_KEPT: Final = 6
"""Blocks of one holder or call site that are kept one by one are together at least so many times the largest."""
_FEWEST_JOINED: Final = 4
"""Blocks of one line, each larger than the one before it; only the last is alive."""
_LEAST_RATIO: Final = 2
"""The ratio of the blocks of a stretch to those of the last good step."""
_MOST_LINES: Final = 3
"""Of the largest blocks, those whose lines are looked at for joining."""
_LEAST_OF_LINE: Final = 1 / 64
"""Of the largest block of a line: smaller ones are of other tensors that are joined there."""
_LEAST_RISING: Final = 3 / 4
"""Of the blocks of a line that joins: those that are larger than the one before."""
_LEAST_OF_MOST: Final = 3 / 4
"""Of the most that the lines of kept blocks ever had in use: lines that give back half of it only leave gaps."""
_LEAST_OF_IN_USE: Final = 1 / 8
"""Of the bytes in use: fewer results of the last step, or entries of a bounded container, are no cause."""
_LEAST_OF_ALL: Final = 1 / 2
"""Of the bytes in use, that a container has which became fuller unevenly."""
_ENTRY: Final = r"(?:^|, from )(?<container>[\w.]+)\[(?<key>-?\d+|'[^']*')\]"
"""Chains to an entry of a container that a variable refers to: `main.results[3]['model']`."""
_FEWEST_ROUNDS: Final = 4
"""Steps in which a container got entries, to be more than a set-up and a first step."""
_THIRDS: Final = 3
_LEAST_FULLER: Final = 1.5
"""Its bytes over the last third of the steps beside those over the first."""
_LEAST_OF_FILLER: Final = 9 / 10
"""Of the blocks of a thread: it only fills a container, and does not work for the step that runs."""
_LEAST_SPAN: Final = 1 / 2
"""Of a stretch, by its allocations: the distance between the births of blocks that are kept one by one."""


def kept_candidates(step: FailingStep) -> Iterator[Candidate]:
    """Return the candidates that keep memory that no step needs."""
    held = step.alive
    chain = pl.col("held_by").fill_null("")
    is_cycle = chain.str.contains(IN_CYCLE, literal=True)
    is_exception = ~is_cycle & (chain.str.starts_with(HANDLED_EXCEPTION) | chain.str.contains(TRACEBACK, literal=True))
    for cause, is_kind in ((Cause.FAILED_ATTEMPT, is_exception), (Cause.CYCLES, is_cycle)):
        blocks = held.filter(is_kind)
        if not blocks.is_empty():
            yield candidate_of(cause, blocks, step)
    # A container that fills up to a bound is no growth.
    rest = held.filter(~is_cycle & ~is_exception & ~filling_blocks(held))
    growing = [*_over_steps(rest, step), *_within_stretch(rest, step)]
    yield from growing or [*_in_rounds(rest, step)] or [*_in_container(rest, step)] or _of_last_step(rest, step)


def bounded_candidate(step: FailingStep) -> Candidate | None:
    """Return the largest container that the program bounds, with its entries from before the failing step.

    It is no growth, and its entries may all be needed. It is named beside causes, and where there is no other. Entries to
    come count too.
    """
    held = step.alive.filter(
        filling_blocks(step.alive) & (pl.col("malloc_sequence") < step.begin) & _is_collected(step)
    )
    held = held.with_columns(key=container_of(pl.col("held_by")))
    key = most_of(held, "key")
    blocks = held.filter(pl.col("key") == key)
    size = int(blocks["size"].sum())
    if not key or size < _LEAST_OF_IN_USE * step.in_use_bytes:
        return None
    to_come = 0
    for filling in filling_containers(blocks)[:1]:
        one = size // filling.entries
        # A bound above the bytes of an entry may be one in bytes.
        to_come = one * (filling.most - filling.entries) if filling.most < one else 0
    found = candidate_of(Cause.BOUNDED, blocks, step, to_come)
    return dataclasses.replace(found, need_bytes=found.need_bytes + to_come)


def _outliving(step: FailingStep) -> pl.DataFrame:
    """Blocks that were alive at the end of a step, with `group`: the number of their call site."""
    return (
        step.blocks.with_columns(pl.col("last_end").clip(upper_bound=step.ended))
        .filter(pl.col("last_end") >= pl.col("first_end"))
        .with_columns(group=pl.struct(_SITE).rank("dense").cast(pl.Int64) - 1)
    )


def _over_steps(held: pl.DataFrame, step: FailingStep) -> Iterator[Candidate]:
    """Memory that call sites keep more of from step to step: as more and more blocks, and as larger ones."""
    ended, outliving = step.ended, _outliving(step)
    if ended < _FEWEST_STEPS or outliving.is_empty():
        return
    group = outliving["group"].to_numpy()
    groups, steps = int(group.max()) + 1, np.arange(1, ended + 1, dtype=np.int64)
    live = live_series(group, groups, outliving, steps)
    count = live_series(group, groups, outliving.with_columns(size=pl.lit(1)), steps)
    growing = outliving.filter(pl.col("group").is_in(np.flatnonzero(_is_growing(live))))
    numbers: dict[Cause, list[int]] = {Cause.LEAK: [], Cause.KV_CACHE: []}
    half = count.shape[1] // 2
    for number, stacks, names in growing.group_by("group").agg(pl.col("python_stack_id", "name").unique()).iter_rows():
        is_joined = count[number, -1] == count[number, half] and any(_JOINING.search(name or "") for name in names)
        is_cache = is_joined or any(_CACHE.search(step.texts.get(stack, "")) for stack in stacks)
        numbers[Cause.KV_CACHE if is_cache else Cause.LEAK].append(number)
    is_earlier = pl.col("malloc_sequence") < step.begin
    for cause, chosen in numbers.items():
        sites = growing.filter(pl.col("group").is_in(chosen)).select(_SITE).unique()
        of_lines = held.join(sites, on=_SITE, how="semi", maintain_order="left")
        blocks, own = of_lines.filter(is_earlier), of_lines.filter(~is_earlier)
        found = candidate_of(
            cause, pl.concat([blocks, _run_ahead(blocks, own, step)]), step, -int(live[chosen, 0].sum())
        )
        if found.freed_bytes > 0:
            yield dataclasses.replace(found, block_count=max(found.block_count - int(count[chosen, 0].sum()), 0))


def _run_ahead(blocks: pl.DataFrame, own: pl.DataFrame, step: FailingStep) -> pl.DataFrame:
    """Return what threads that do nothing else have put into the container that keeps most since the failing step began.

    The failing step has a use for its own blocks. A thread that fills a queue runs ahead of the steps.

    Args:
        blocks: Of earlier steps.
        own: Of the failing step, and of the same lines.
        step: The failing one.
    """
    key = most_of(blocks.with_columns(key=container_of(pl.col("held_by"))), "key")
    made = step.blocks.filter(pl.col("malloc_sequence") >= step.begin)
    shares = made.join(blocks.select(*_SITE, is_here=True).unique(), on=_SITE, how="left").group_by("thread_id")
    fillers = shares.agg(pl.col("is_here").count() / pl.len()).filter(pl.col("is_here") >= _LEAST_OF_FILLER)
    is_of_filler = pl.col("thread_id").is_in(fillers["thread_id"].implode())
    return own.filter(is_of_filler & (container_of(pl.col("held_by")) == key)) if "[" in key else own.clear()


def _in_rounds(held: pl.DataFrame, step: FailingStep) -> Iterator[Candidate]:
    """A container of a variable that got an entry now and then, over many steps: what each has may be a whole model."""
    entries = (
        held.with_columns(entry=pl.col("held_by").str.extract_groups(_ENTRY))
        .unnest("entry")
        .drop_nulls("container")
        .with_columns(first_step=pl.col("step").min().over("container", "key"))
    )
    containers = (
        entries.group_by("container")
        .agg(
            pl.col("size").sum(),
            rounds=pl.col("first_step").n_unique(),
            span=pl.col("first_step").max() - pl.col("first_step").min(),
        )
        .filter(
            pl.col("size") >= _LEAST_OF_ALL * step.in_use_bytes,
            pl.col("rounds") >= _FEWEST_ROUNDS,
            pl.col("span") >= _LEAST_SPAN * step.ended,
        )
    )
    if not containers.is_empty():
        blocks = entries.filter(pl.col("container") == containers["container"][0]).select(held.columns)
        yield candidate_of(Cause.KEPT, blocks, step)


def _in_container(held: pl.DataFrame, step: FailingStep) -> Iterator[Candidate]:
    """A container that has most of what is in use, and became fuller: not with each step, as a queue does."""
    if step.ended < _THIRDS:
        return
    groups = (
        held.filter(_is_collected(step) & pl.col("held_by").str.contains("[", literal=True))
        .with_columns(key=container_of(pl.col("held_by")), is_early=pl.col("malloc_sequence") < step.begin)
        .filter(pl.col("is_early").mean().over("key") >= 1 / 2)
    )
    largest = (
        groups.group_by("key")
        .agg(pl.col("size").sum(), largest=pl.col("size").max())
        .filter(pl.col("size") >= _LEAST_OF_ALL * step.in_use_bytes, pl.col("size") >= _FEWEST_KEPT * pl.col("largest"))
    )
    if largest.is_empty():
        return
    blocks = groups.filter(pl.col("key") == largest["key"][0])
    of_lines = _outliving(step).join(blocks.select(_SITE).unique(), on=_SITE, how="semi", maintain_order="left")
    if of_lines.is_empty():
        return
    steps = np.arange(1, step.ended + 1, dtype=np.int64)
    live = live_series(np.zeros(of_lines.height, dtype=np.int64), 1, of_lines, steps)[0]
    third = max(len(live) // _THIRDS, 1)
    if live[-third:].mean() >= _LEAST_FULLER * live[:third].mean():
        yield candidate_of(_kind(main_holder(blocks)), blocks, step)


def _of_last_step(held: pl.DataFrame, step: FailingStep) -> Iterator[Candidate]:
    """Results of the last good step that the failing one makes beside them, since a variable still refers to them."""
    is_result = ~is_of_model(step) & ~is_of_optimizer(step) & ~pl.col("held_by").fill_null("").str.contains(GRADIENT)
    old = step.left_of_last_step.join(held.select("malloc_sequence", "held_by"), on="malloc_sequence").filter(
        is_result & pl.col("held_by").is_not_null()
    )
    blocks = held.join(old.select("malloc_sequence"), on="malloc_sequence", how="semi", maintain_order="left")
    if int(blocks["size"].sum()) >= _LEAST_OF_IN_USE * step.in_use_bytes:
        yield candidate_of(Cause.KEPT, blocks, step)


def _is_growing(live: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Tell which series grow: they are highest at the end, rise at half of the steps or more, and in their last quarter."""
    rises = np.diff(live, axis=1) > 0
    late = rises[:, -max(rises.shape[1] // 4, 1) :].any(axis=1)
    growing: np.ndarray[Any, np.dtype[np.bool_]] = (
        (live[:, -1] > live[:, 0]) & (live[:, -1] == live.max(axis=1)) & (rises.mean(axis=1) >= 1 / 2) & late
    )
    return growing


def _is_collected(step: FailingStep) -> pl.Expr:
    """Tell which blocks are no part of a model, of its gradients, of an optimizer, or of a pass that runs."""
    is_collected = ~is_of_model(step) & ~is_of_optimizer(step)
    for chain in (_OF_PART, GRADIENT, _UNDER_CONSTRUCTION):
        is_collected &= ~pl.col("held_by").fill_null("").str.contains(chain)
    return is_collected


def _within_stretch(held: pl.DataFrame, step: FailingStep) -> Iterator[Candidate]:
    """Memory that has been collected since the last good step, or in a run without steps."""
    own = held.filter((pl.col("malloc_sequence") >= step.begin) & _is_collected(step)).with_columns(
        key=pl.coalesce(container_of(pl.col("held_by")), "site_path")
    )
    joined = _joined(own, step)
    if joined is not None:
        yield joined
    usual_bytes, usual_blocks = step.usual
    size = int(own["size"].sum())
    if size < LEAST_JUMP * usual_bytes or own.height < _LEAST_RATIO * usual_blocks:
        return
    allocated = step.blocks.filter(pl.col("malloc_sequence") >= step.begin)
    births = allocated["malloc_sequence"]
    groups = (
        own.with_columns(birth=pl.Series(births.search_sorted(own["malloc_sequence"])))
        .group_by("key")
        .agg(pl.col("size").sum(), largest=pl.col("size").max(), span=pl.col("birth").max() - pl.col("birth").min())
        .filter(pl.col("size") >= _FEWEST_KEPT * pl.col("largest"), pl.col("span") >= _LEAST_SPAN * allocated.height)
        .sort("size", "key", descending=[True, False])
    )
    if groups.is_empty():
        return
    blocks = own.filter(pl.col("key") == groups["key"][0])
    of_lines = allocated.join(blocks.select("site_path").unique(), on="site_path", how="semi", maintain_order="left")
    if int(blocks["size"].sum()) < _LEAST_OF_MOST * MemoryUse.of(of_lines).peak_bytes:
        return
    found = candidate_of(_kind(main_holder(blocks)), blocks, step)
    # That it is more than usual says that it is the cause; all of it would be free.
    if found.freed_bytes > usual_bytes:
        yield found


def _joined(own: pl.DataFrame, step: FailingStep) -> Candidate | None:
    """A tensor that is joined again and again.

    On one line each block is larger than the one before, and the last is alive.
    """
    for block in own.top_k(_MOST_LINES, by="size").iter_rows(named=True):
        line = step.blocks.filter(
            (pl.col("site_path") == block["site_path"])
            & pl.col("name").eq_missing(pl.lit(block["name"], dtype=pl.String))
            & (pl.col("malloc_sequence") >= step.begin)
        ).sort("malloc_sequence")
        sizes = line.filter(pl.col("size") >= block["size"] * _LEAST_OF_LINE)["size"].to_numpy()
        is_rising = np.diff(sizes) > 0
        if len(sizes) >= _FEWEST_JOINED and is_rising.mean() >= _LEAST_RISING and _JOINING.search(block["name"] or ""):
            blocks = own.filter(pl.col("malloc_sequence") == block["malloc_sequence"])
            return candidate_of(_kind(step.texts.get(block["python_stack_id"], "")), blocks, step)
    return None


def _kind(text: str) -> Cause:
    return Cause.KV_CACHE if _CACHE.search(text) else Cause.KEPT

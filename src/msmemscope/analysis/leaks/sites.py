"""The judgement of call sites by their blocks that outlived a step: the leaking ones, their pace, the confidence."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.pools import Pool
from msmemscope.recording.step_bounds import WARM_UP_STEPS

if TYPE_CHECKING:
    from typing import TypeAlias

Flags: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"
Numbers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

SITE_KEY: Final = ["device", "pool", "site_id"]
"""The key that findings of leaks are grouped by."""

_ODD_RATIO: Final = 4
"""A block of so many times the size of the next smaller one of its call site is none of them."""
SURE_IN_A_ROW: Final = 4
"""Consecutive steps in which a site must leak so that its confidence is high."""
SURE_IN_ALL: Final = 8
"""Steps in which a site must leak so that its confidence is high, if they are not consecutive."""
_MOST_TO_SET_UP: Final = 7
"""Consecutive steps in which a site may keep blocks as its set-up; later there is nothing left to set up."""
_QUIET_RATIO: Final = 1.9
"""So many times the steps in which it leaked, and half of all steps, are quiet behind a cache that is full."""

_NEARLY_FULL: Final = 0.98
_ABOUT_AS_MANY: Final = 1.01
_SHARE_WHILE_FULL: Final = 4
"""A cache was full for one in so many of all steps, at least."""


class Confidence(str, Enum):
    """How sure it is that a call site leaks."""

    HIGH = "high"
    """It leaked in at least SURE_IN_A_ROW consecutive steps, or in at least SURE_IN_ALL steps."""
    MEDIUM = "medium"
    """It leaked in two steps or more."""
    LOW = "low"
    """It leaked in one step: memory that is set up once looks the same."""


CONFIDENCE_TYPE: Final = pl.Enum([level.value for level in Confidence])


def expected_blocks(blocks: pl.DataFrame) -> pl.Series:
    """Tell which blocks are no older than those that their call site frees.

    A site's longest life is that of a block that it freed. An older block leaked for sure. A younger block is expected
    to be freed if the site freed more blocks of at least its age than it leaked for sure. Ages are counted in steps. A
    cache of limited size frees a block only when newer ones have come, and keeps no more of them in the end than
    before. Ages of such a site are counted in newer blocks too: steps in which nothing comes push nothing out.

    A cache that frees what was used least keeps some blocks for ever. All blocks of a site are expected to be freed if it
    had as many long before, and only exchanges them.

    Args:
        blocks: SITE_KEY, `step`, `last_end` (i64), `malloc_sequence`, `free_sequence`, and `is_alive`, of blocks that
            outlived the step after their own.

    Returns:
        One boolean per block; False for those that were freed.
    """
    if blocks.is_empty():
        return pl.Series([], dtype=pl.Boolean)
    groups = blocks.select(SITE_KEY).unique().with_row_index("group")
    group = blocks.join(groups, on=SITE_KEY, how="left", maintain_order="left")["group"].to_numpy().astype(np.int64)
    is_alive = blocks["is_alive"].to_numpy()
    is_judged = blocks["step"].to_numpy() > WARM_UP_STEPS
    life = (blocks["last_end"] - blocks["step"]).to_numpy()
    is_older, freed_as_old = _compared_with_freed(group, groups.height, life, is_alive)
    sure = np.bincount(group[is_older & is_judged], minlength=groups.height)
    is_expected = is_alive & ~is_older & (freed_as_old > sure[group])
    newer = _newer_blocks(group, blocks, is_alive)
    is_deeper, freed_as_deep = _compared_with_freed(group, groups.height, newer, is_alive)
    is_never_full = np.bincount(group[is_deeper], minlength=groups.height) > 0
    is_never_full[group[~is_alive & (newer == 0)]] = True
    is_by_depth = ~is_never_full[group] & (freed_as_deep >= SURE_IN_A_ROW)
    is_full = _full_groups(group, groups.height, blocks)
    return pl.Series(is_expected | (is_alive & (is_by_depth | is_full[group])))


def _full_groups(group: Numbers, groups: int, blocks: pl.DataFrame) -> Flags:
    """Return which groups had their most blocks long before the end, and have exchanged old ones for new ones since."""
    allocated, freed = blocks["malloc_sequence"].to_numpy(), blocks["free_sequence"].fill_null(0).to_numpy()
    is_alive, step, last_end = (blocks[name].to_numpy() for name in ("is_alive", "step", "last_end"))
    gone = np.flatnonzero(~is_alive)
    of_block = np.concatenate([np.arange(len(group)), gone])
    change = np.repeat([1, -1], [len(group), len(gone)])
    order = np.lexsort((np.concatenate([allocated, freed[gone]]), group[of_block]))
    of_block, change = of_block[order], change[order]
    is_full = np.zeros(groups, dtype=np.bool_)
    edges = np.searchsorted(group[of_block], np.arange(groups + 1))
    has_turnover = np.bincount(group[gone], minlength=groups) >= SURE_IN_ALL
    for one in np.flatnonzero(has_turnover):
        part = slice(edges[one], edges[one + 1])
        blocks_now = np.cumsum(change[part])
        first = int(np.argmax(blocks_now >= _NEARLY_FULL * blocks_now.max()))
        since, middle = of_block[part][first:], first + (len(blocks_now) - first) // 2
        ended = int(last_end[since].max())
        pushed_out = since[change[part][first:] < 0]
        life = last_end[pushed_out] - step[pushed_out]
        least = blocks_now[first:middle].max(initial=0)
        is_full[one] = (
            (ended - step[since[0]]) * _SHARE_WHILE_FULL >= ended
            and len(pushed_out) >= max(SURE_IN_ALL, blocks_now[-1] / 4)
            and np.median(life) >= max(SURE_IN_ALL, ended / 16)
            and blocks_now[middle:].max() <= max(least + 1, least * _ABOUT_AS_MANY)
        )
    return is_full


def _newer_blocks(group: Numbers, blocks: pl.DataFrame, is_alive: Flags) -> Numbers:
    """Return how many blocks of the same group came after each, until it was freed or until the end."""
    allocated = blocks["malloc_sequence"].to_numpy()
    order = np.lexsort((allocated, group))
    # Ordered by group and then by moment: moments are replaced by their ranks, so that both fit into one number.
    freed = blocks["free_sequence"].fill_null(0).to_numpy()
    moments = np.sort(allocated)
    stride = len(moments) + 1
    keys = group[order] * stride + np.searchsorted(moments, allocated[order])
    until = np.where(is_alive, len(moments), np.searchsorted(moments, freed))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    newer: Numbers = np.searchsorted(keys, group * stride + until) - place - 1
    return newer


def _compared_with_freed(group: Numbers, groups: int, age: Numbers, is_alive: Flags) -> tuple[Flags, Numbers]:
    """Return which blocks are alive and older than any that their group freed, and how many of it were freed as old."""
    # Freed ages, ordered by group: how many of a group are at least so old is a difference of two positions.
    stride = int(age.max()) + 2
    freed = np.sort(group[~is_alive] * stride + age[~is_alive])
    ends = np.searchsorted(freed, (np.arange(groups) + 1) * stride)
    starts = np.searchsorted(freed, np.arange(groups) * stride)
    oldest = np.zeros(groups, dtype=np.int64)
    has_freed = ends > starts
    oldest[has_freed] = freed[ends[has_freed] - 1] % stride
    return is_alive & (age > oldest[group]), ends[group] - np.searchsorted(freed, group * stride + age)


def with_pinned_sizes_apart(blocks: pl.DataFrame) -> pl.DataFrame:
    """Make a call site of each size of pinned memory.

    Torch's allocator keeps this memory: a size that comes again does not grow.

    Args:
        blocks: SITE_KEY and `size`.

    Returns:
        The same with other values of `site_id` for pinned memory.
    """
    is_pinned = (pl.col("device") == DEVICE_CPU) & (pl.col("pool") == Pool.HAL)
    if blocks.filter(is_pinned).is_empty():
        return blocks
    of_size = pl.struct("site_id", "size").rank("dense").cast(pl.UInt32) + blocks["site_id"].max()
    return blocks.with_columns(site_id=pl.when(is_pinned).then(of_size).otherwise("site_id"))


def cached_pinned_blocks(blocks: pl.DataFrame, ended: int) -> pl.Series:
    """Tell which pinned blocks torch's allocator keeps to hand out again: of sizes that did not grow in most steps.

    A program keeps its own memory from step to step; the bytes in use at once may be more now and then.

    Args:
        blocks: SITE_KEY with pinned sizes apart, `step` and `is_suspect`.
        ended: Steps that have ended.

    Returns:
        One boolean per block.
    """
    is_pinned = (pl.col("device") == DEVICE_CPU) & (pl.col("pool") == Pool.HAL)
    step = pl.col("step").filter("is_suspect")
    is_rare = 2 * step.n_unique().over(SITE_KEY) < ended - step.min().over(SITE_KEY)
    return blocks.select(is_pinned & is_rare.fill_null(value=True)).to_series()


def with_odd_ones_apart(blocks: pl.DataFrame) -> pl.DataFrame:
    """Give blocks that are far larger than the others of their call site, in one step alone, a site of their own.

    Args:
        blocks: SITE_KEY, `step`, `size` and `is_suspect`.

    Returns:
        The same with other values of `site_id` for such blocks. If the other blocks of a site leaked in fewer than
        SURE_IN_A_ROW steps, its usual size is not known, and nothing is set apart.
    """
    suspects = blocks.filter("is_suspect").select(*SITE_KEY, "step", "size")
    # The largest blocks of a site above the widest gap between sizes.
    sizes = (
        suspects.group_by(*SITE_KEY, "size")
        .agg(pl.col("step").unique())
        .sort(*SITE_KEY, "size")
        .with_columns(ratio=pl.col("size") / pl.col("size").shift(1).over(SITE_KEY))
    )
    gaps = (
        sizes.filter(pl.col("ratio") >= _ODD_RATIO)
        .sort("ratio", descending=True)
        .unique(SITE_KEY, keep="first", maintain_order=True)
        .select(*SITE_KEY, odd_from="size")
    )
    odd = (
        suspects.join(gaps, on=SITE_KEY)
        .with_columns(is_odd=pl.col("size") >= pl.col("odd_from"))
        .group_by(*SITE_KEY, "odd_from")
        .agg(
            pl.col("step").filter("is_odd").n_unique().alias("odd_steps"),
            pl.col("step").filter(~pl.col("is_odd")).n_unique().alias("usual_steps"),
        )
        .filter((pl.col("odd_steps") == 1) & (pl.col("usual_steps") >= SURE_IN_A_ROW))
        .select(*SITE_KEY, "odd_from")
    )
    if odd.is_empty():
        return blocks
    beyond = blocks["site_id"].max()
    return (
        blocks.join(odd, on=SITE_KEY, how="left", maintain_order="left")
        .with_columns(
            site_id=pl.when(pl.col("is_suspect") & (pl.col("size") >= pl.col("odd_from")))
            .then(pl.col("site_id") + pl.lit(beyond, dtype=pl.UInt32))
            .otherwise("site_id")
        )
        .drop("odd_from")
    )


def judge_sites(blocks: pl.DataFrame, quiet_steps: int | None, quiet_after_one: int | None) -> pl.DataFrame:
    """Say of each call site with blocks that were not freed in which steps it leaked, and whether it still does.

    Args:
        blocks: SITE_KEY, `step`, `ended` (i64), `is_suspect` and `is_expected`.
        quiet_steps: Steps without a leak at the end after which a site counts as kept; None for never.
        quiet_after_one: The same for a site that leaked in one step alone, where that is fewer.

    Returns:
        One row per site with a suspect: SITE_KEY, `is_kept`, `confidence`, and numbers (i64). The numbers are
        `first_step`, `last_step`, `leaking_steps`, `judged_steps`, `longest_run` and `quiet_steps`. `judged_steps`
        counts from the first leak to the last step that can be judged.
    """
    suspects = blocks.filter("is_suspect").select(*SITE_KEY, "step", "ended").unique().sort(*SITE_KEY, "step")
    # Within a site, consecutive steps minus their position are one number: that of their run.
    runs = suspects.with_columns(run=pl.col("step") - pl.int_range(pl.len()).over(SITE_KEY))
    longest = runs.group_by(*SITE_KEY, "run").agg(pl.len().alias("length")).group_by(SITE_KEY)
    # Where younger blocks are expected to be freed, later steps say nothing.
    pending = blocks.filter("is_expected").group_by(SITE_KEY).agg(pl.col("step").min().alias("pending_from"))
    sites = (
        suspects.group_by(SITE_KEY)
        .agg(
            pl.col("step").min().alias("first_step"),
            pl.col("step").max().alias("last_step"),
            pl.len().cast(pl.Int64).alias("leaking_steps"),
            pl.col("step").diff().max().fill_null(0).alias("longest_gap"),
            pl.col("ended").first(),
        )
        .join(longest.agg(pl.col("length").max().cast(pl.Int64).alias("longest_run")), on=SITE_KEY)
        .join(pending, on=SITE_KEY, how="left")
        .with_columns(last_judged=pl.min_horizontal(pl.col("ended") - 1, pl.col("pending_from") - 1))
        .with_columns(last_judged=pl.max_horizontal("last_judged", "last_step"))
        .with_columns(
            quiet_steps=pl.col("last_judged") - pl.col("last_step"),
            judged_steps=pl.col("last_judged") - pl.col("first_step") + 1,
        )
    )
    if quiet_steps is None:
        is_kept = pl.lit(value=False)
    else:
        after_one = min(quiet_steps, quiet_after_one or quiet_steps)
        needed = pl.when(pl.col("leaking_steps") == 1).then(after_one).otherwise(quiet_steps)
        is_quiet = (pl.col("quiet_steps") >= needed) & (pl.col("quiet_steps") > pl.col("longest_gap"))
        # A cache is filled in a first pass over the data, however many steps that has: a fine-tuning often has three.
        span = pl.col("last_step") - pl.col("first_step") + 1
        is_filled = (pl.col("quiet_steps") >= _QUIET_RATIO * span) & (2 * pl.col("quiet_steps") >= pl.col("ended"))
        is_kept = is_quiet & ((pl.col("longest_run") <= _MOST_TO_SET_UP) | is_filled)
    is_sure = (pl.col("longest_run") >= SURE_IN_A_ROW) | (pl.col("leaking_steps") >= SURE_IN_ALL)
    confidence = (
        pl.when(is_sure)
        .then(pl.lit(Confidence.HIGH.value))
        .when(pl.col("leaking_steps") > 1)
        .then(pl.lit(Confidence.MEDIUM.value))
        .otherwise(pl.lit(Confidence.LOW.value))
    )
    return sites.select(
        *SITE_KEY,
        *("first_step", "last_step", "leaking_steps", "judged_steps", "longest_run", "quiet_steps"),
        is_kept.alias("is_kept"),
        confidence.cast(CONFIDENCE_TYPE).alias("confidence"),
    )

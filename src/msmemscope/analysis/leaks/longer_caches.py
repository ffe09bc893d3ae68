"""Key-value caches that become longer with each step of a sequence: each step makes it anew, and larger.

A program that generates text shows one call of its model per token. The cache ends with the sequence, however long the
recording saw it. An answer may keep it until the next one is there. A server that keeps the caches of more and more
sequences has more blocks: that is growth.

Without accesses nothing tells of attention. Then a cache is known by three signs:

- A module's forward concatenates it.
- Nothing trains.
- Its blocks are pairs of equal size, as far as the allocator makes them equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from msmemscope.analysis.leaks.growing_sites import GROWN_KEY
from msmemscope.analysis.leaks.trends import live_series, positions
from msmemscope.model.labels import KV_CACHE
from msmemscope.recording.recording import StepSource
from msmemscope.recording.step_bounds import WARM_UP_STEPS
from msmemscope.units import format_bytes

if TYPE_CHECKING:
    from msmemscope.recording import Recording

_CONCATENATES: Final = ".cat."
_FORWARD: Final = "/torch/nn/modules/module.py("
_POOL: Final = ["device", "pool"]
_OF_PAIR: Final = 2
_MOST_OF_REST: Final = 1 << 20
"""Of a block that caching allocators do not split off: the rest of a large one is at most so large."""


def longer_caches(recording: Recording, grown: pl.DataFrame, blocks: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """Find the growing call sites that hold the caches of sequences that go on.

    Args:
        recording: Of a process.
        grown: `growing_sites.GROWTH_SCHEMA`.
        blocks: Those of these call sites that were alive at the end of a step, `size` and `first_end`, `last_end` too.

    Returns:
        Their GROWN_KEY, and a sentence about them; it is empty where there are none.
    """
    none = grown.select(GROWN_KEY).clear(), ""
    if grown.is_empty():
        return none
    same = grown.join(_replaced(blocks), on=GROWN_KEY, how="semi")
    if same.is_empty():
        return none
    alive = blocks.filter(pl.col("last_end") == pl.col("ended")).join(same, on=GROWN_KEY, how="semi")
    found = same.join(_owned(recording, alive).vstack(_in_pairs(recording, alive)), on=GROWN_KEY, how="semi")
    if found.is_empty():
        return none
    longer = format_bytes(int((found["last_bytes"] - found["first_bytes"]).sum()))
    steps = f"{int(found['first_step'][0])} to {int(found['last_step'][0])}"
    sentence = f"The KV cache grew by {longer} in steps {steps}, made anew by each: it ends with its sequence."
    return found.select(GROWN_KEY), sentence


def _replaced(blocks: pl.DataFrame) -> pl.DataFrame:
    """The call sites at which the next block takes the place of each, or of one that the sequence before has left.

    In the latter case as many are alive in the second half of the steps as in the first one.
    """
    parts = [blocks.select(GROWN_KEY).clear()]
    for (ended,), part in blocks.partition_by("ended", as_dict=True).items():
        sites = part.group_by(GROWN_KEY).agg(longest=(pl.col("last_end") - pl.col("first_end")).max())
        sites = sites.sort(GROWN_KEY).with_row_index("group")
        group = part.join(sites, on=GROWN_KEY, how="left", maintain_order="left")["group"].to_numpy().astype(np.int64)
        steps = positions(WARM_UP_STEPS + 1, int(ended))
        count = live_series(group, sites.height, part.with_columns(size=pl.lit(1)), steps)
        half = len(steps) // 2
        is_as_many = count[:, half:].max(axis=1) <= count[:, :half].max(axis=1)
        parts.append(sites.filter((pl.col("longest") <= 1) | pl.Series(is_as_many)).select(GROWN_KEY))
    return pl.concat(parts)


def _owned(recording: Recording, alive: pl.DataFrame) -> pl.DataFrame:
    """The call sites with a block that accesses or labels show to be of a cache.

    The blocks of the last step have not been read yet, where the program ends with it.
    """
    # And with it all that knows of owners, at every program's end.
    from msmemscope.analysis.owners.decomposition import owned_blocks

    owned, _ = owned_blocks(recording)
    caches = owned.filter(pl.col("owner").str.contains(KV_CACHE, literal=True))
    return alive.join(caches, on="malloc_sequence", how="semi").select(GROWN_KEY)


def _in_pairs(recording: Recording, alive: pl.DataFrame) -> pl.DataFrame:
    """The call sites whose blocks a forward concatenated, each of them one of two of the same size."""
    if recording.step_source is StepSource.OPTIMIZER:
        return alive.select(GROWN_KEY).clear()
    named = alive.join(recording.blocks.select("malloc_sequence", "name"), on="malloc_sequence").join(
        recording.python_stacks, left_on="python_stack_id", right_on="id", how="left"
    )
    is_made = pl.col("name").str.contains(_CONCATENATES, literal=True) & pl.col("text").str.contains(
        _FORWARD, literal=True
    )
    made = named.filter(is_made.fill_null(value=False).all().over(GROWN_KEY)).sort("malloc_sequence")
    # Keys come right before values. On a device a block can be larger than what it is for.
    made = made.with_columns(pair=pl.int_range(pl.len()).over(_POOL) // _OF_PAIR)
    size = pl.col("size").cast(pl.Int64)
    spread = size.max().over(*_POOL, "pair") - size.min().over(*_POOL, "pair")
    made = made.with_columns(
        is_near=(pl.len().over(*_POOL, "pair") == _OF_PAIR) & (pl.col("device") >= 0) & (spread <= _MOST_OF_REST),
        is_equal=pl.len().over(*_POOL, "size") % _OF_PAIR == 0,
    )
    return made.filter(pl.col("is_equal").all().over(_POOL) | pl.col("is_near").all().over(_POOL)).select(GROWN_KEY)

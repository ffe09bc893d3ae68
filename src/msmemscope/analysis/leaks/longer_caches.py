"""Key-value caches that become longer with each step of a sequence: each step makes it anew, and larger.

A program that generates text shows one call of its model per token. The cache ends with the sequence, however long the
recording saw it. A server that keeps the caches of more and more sequences holds blocks for longer: that is growth.

Without accesses nothing tells of attention. Then a cache is known by three signs:

- A module's forward concatenates it.
- Nothing trains.
- Its blocks are pairs of equal size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.analysis.leaks.growing_sites import GROWN_KEY
from msmemscope.model.labels import KV_CACHE
from msmemscope.recording.recording import StepSource
from msmemscope.units import format_bytes

if TYPE_CHECKING:
    from msmemscope.recording import Recording

_CONCATENATES: Final = ".cat."
_FORWARD: Final = "/torch/nn/modules/module.py("
_SIZE_KEY: Final = ["device", "pool", "size"]


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
    # The next one takes the place of each: none is there for more than two ends of steps.
    lives = blocks.group_by(GROWN_KEY).agg(longest=(pl.col("last_end") - pl.col("first_end")).max())
    same = grown.join(lives.filter(pl.col("longest") <= 1), on=GROWN_KEY, how="semi")
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
    made = named.filter(is_made.fill_null(value=False).all().over(GROWN_KEY))
    return made.filter((pl.len().over(_SIZE_KEY) % 2 == 0).all().over("device", "pool")).select(GROWN_KEY)

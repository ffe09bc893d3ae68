"""What of the program referred to blocks that were alive: chains of references, as the observed process found them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.model.events import EventKind

if TYPE_CHECKING:
    from msmemscope.recording.recording import Recording

HOLDER_SCHEMA: Final = pl.Schema({"malloc_sequence": pl.UInt64(), "held_by": pl.String()})
"""One row per block whose holder was looked for and found. held_by: `LossTrainer.history[412], from main.trainer`."""


def block_holders(recording: Recording) -> pl.DataFrame:
    """Return the chain that was found last for each block, of HOLDER_SCHEMA."""
    names = recording.strings.select(name_id="id", held_by="text")
    return (
        recording.events.filter(pl.col("kind") == EventKind.HOLDER)
        .select("name_id", malloc_sequence="extra")
        .unique("malloc_sequence", keep="last", maintain_order=True)
        .join(names, on="name_id", how="inner", maintain_order="left")
        .select(HOLDER_SCHEMA.names())
    )


def main_holders(blocks: pl.DataFrame, holders: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    """Return what holds most of the blocks of each group.

    Args:
        blocks: `malloc_sequence`, `size` and the columns of the key.
        holders: Of HOLDER_SCHEMA; blocks without one are passed over.
        key: Columns that tell the groups.

    Returns:
        One row per group with a known holder: the key and `held_by`, the newest of those chains that differ in numbers
        only and hold the most.
    """
    known = blocks.select(*key, "malloc_sequence", "size").join(holders, on="malloc_sequence", maintain_order="left")
    return (
        known.with_columns(alike=pl.col("held_by").str.replace_all(r"\d+", "#"))
        .sort("malloc_sequence")
        .group_by(*key, "alike", maintain_order=True)
        .agg(pl.col("size").sum(), pl.col("held_by").last())
        .sort(["size", "alike"], descending=[True, False])
        .unique(key, keep="first", maintain_order=True)
        .select(*key, "held_by")
    )

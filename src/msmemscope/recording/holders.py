"""What of the program referred to blocks that were alive: chains of references, as the observed process found them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.model.events import EventKind
from msmemscope.model.holders import BOUNDED_INDEX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msmemscope.recording.recording import Recording

HOLDER_SCHEMA: Final = pl.Schema({"malloc_sequence": pl.UInt64(), "held_by": pl.String()})
"""One row per block whose holder was looked for and found. held_by: `LossTrainer.history[412], from main.trainer`."""

_MOST_FIELDS: Final = 4
"""Tensors of one entry of a bounded container."""
_BRACKETS: Final = r"\[[^\[\]]*\]"
_INDEX: Final = re.compile(r"\[[^\[\]]*\]|\d+")


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


def container_of(chain: pl.Expr) -> pl.Expr:
    """Return what chains have in common that differ in indices, keys and numbers only."""
    return chain.str.replace_all(_BRACKETS, "[...]").str.replace_all(r"\d+", "#")


def container_text(chain: str) -> str:
    """Return the same of one chain, as `container_of` does of columns."""
    return re.sub(r"\d+", "#", re.sub(_BRACKETS, "[...]", chain))


def filling_blocks(blocks: pl.DataFrame) -> pl.Series:
    """Tell which blocks lie in a container that drops what is too much, and that has not got so much yet.

    Its entries can be tuples or dictionaries of a few blocks each.

    Args:
        blocks: `held_by`; blocks of one container are counted in them.

    Returns:
        One boolean per block.
    """
    # Of the object itself, not of what holds it.
    found = pl.col("held_by").str.extract_groups(
        rf"^(?<place>[^,]*)\[\d+{re.escape(BOUNDED_INDEX)}(?<most>\d+)\](?<field>(?:\[[^\[\],]*\])?)(?<rest>,.*)?$"
    )
    chains = blocks.select(found.alias("found")).unnest("found")
    container = [container_of(pl.col(name)) for name in ("place", "rest")]
    is_filling = pl.len().over(*container, "field") <= pl.col("most").cast(pl.Int64, strict=False)
    # What has more of them is a container by itself, that may grow.
    is_entry = pl.col("field").n_unique().over(*container) <= _MOST_FIELDS
    return chains.select((is_filling & is_entry).fill_null(value=False)).to_series()


def main_holders(blocks: pl.DataFrame, holders: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    """Return what holds most of the blocks of each group.

    Args:
        blocks: `malloc_sequence`, `size` and the columns of the key.
        holders: Of HOLDER_SCHEMA; blocks without one are passed over.
        key: Columns that tell the groups.

    Returns:
        One row per group with a known holder: the key and `held_by`, the newest of those chains that differ in indices
        only and hold the most.
    """
    known = blocks.select(*key, "malloc_sequence", "size").join(holders, on="malloc_sequence", maintain_order="left")
    return (
        known.with_columns(alike=container_of(pl.col("held_by")))
        .sort("malloc_sequence")
        .group_by(*key, "alike", maintain_order=True)
        .agg(pl.col("size").sum(), pl.col("held_by").last())
        .sort(["size", "alike"], descending=[True, False])
        .unique(key, keep="first", maintain_order=True)
        .select(*key, "held_by")
    )


def held_now_or_before(
    alive: pl.DataFrame, blocks: pl.DataFrame, holders: pl.DataFrame, key: list[str]
) -> pl.DataFrame:
    """Return what holds most of the blocks of each group that are alive; where that is not known, what held those before them.

    Args:
        alive: As `main_holders` takes them.
        blocks: All of the groups, the others too.
        holders: Of HOLDER_SCHEMA.
        key: Columns that tell the groups.
    """
    now = main_holders(alive, holders, key)
    before = main_holders(blocks.drop("held_by", strict=False), holders, key)
    return pl.concat([now, before.join(now, on=key, how="anti")])


def main_holder(blocks: pl.DataFrame) -> str:
    """Return what holds most of some blocks: what the chains that hold them have in common; empty where none is known.

    Args:
        blocks: `malloc_sequence`, `size` and `held_by`.
    """
    known = blocks.drop_nulls("held_by").with_columns(alike=container_of(pl.col("held_by")))
    if known.is_empty():
        return ""
    sums = known.group_by("alike").agg(pl.col("size").sum()).sort("size", "alike", descending=[True, False])
    return common_chain(known.filter(pl.col("alike") == sums["alike"][0])["held_by"].unique().sort().to_list())


def common_chain(chains: Sequence[str]) -> str:
    """Write chains of one container as one: `Trainer.metrics[...]['preds']`, with the indices that all of them have.

    Args:
        chains: At least one; they differ in indices, keys and numbers only.
    """
    parts = [_INDEX.findall(chain) for chain in chains]
    shared = [first if all(other == first for other in same) else "" for first, *same in zip(*parts, strict=False)]
    indices = iter(shared)

    def index(match: re.Match[str]) -> str:
        one = next(indices, match[0])
        return one or ("[...]" if match[0].startswith("[") else "#")

    return _INDEX.sub(index, chains[0])

"""The parts of the program that referred to live blocks: chains of references, as the observed process found them."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.model.holders import BEFORE_BOUND, BOUNDED_INDEX, IN_CYCLE
from msmemscope.recording.holder_events import holder_events
from msmemscope.recording.once_per_recording import once_per_recording
from msmemscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msmemscope.recording.recording import Recording

HOLDER_SCHEMA: Final = pl.Schema({"malloc_sequence": pl.UInt64(), "held_by": pl.String(), "viewed_bytes": pl.UInt64()})
"""One row per block whose holder was looked for and found.

held_by: `LossTrainer.history[412], from main.trainer`.
viewed_bytes: the part of the block that all tensors of variables have; null where that is not known, or half of it and more.
"""

_MANY_BLOCKS: Final = 16
_LEAST_OF_MANY: Final = 1 / 4
"""Of many blocks of a line: a variable that has fewer of them is not what keeps the others."""
_MOST_FIELDS: Final = 4
"""Tensors of one entry of a bounded container."""
_BRACKETS: Final = r"\[[^\[\]]*\]"
_INDEX: Final = re.compile(r"\[[^\[\]]*\]|\d+")


def block_holders(recording: Recording) -> pl.DataFrame:
    """Return the chain that was found last for each block, of HOLDER_SCHEMA."""
    return _one_of_each(_found(recording))


def block_holders_at(recording: Recording, failure: int) -> pl.DataFrame:
    """Return the chain of each block where an allocation failed, of HOLDER_SCHEMA.

    A search follows each failure, so the first chain behind it counts; without one, the last before it. Later searches
    see the error of the failure as a holder.

    Args:
        recording: Of a process.
        failure: Sequence number of the event.
    """
    found = _found(recording)
    after = found.filter(pl.col("sequence") > failure)
    return _one_of_each(pl.concat([found.filter(pl.col("sequence") <= failure), after.reverse()]))


@once_per_recording
def _found(recording: Recording) -> pl.DataFrame:
    """All chains that were found, in order, with `sequence`.

    As a process ends, its functions have ended, and what their variables held is in cycles at most. So such a cycle
    does not count where an earlier search has found a variable that leads to an object of this kind.
    """
    found = holder_events(recording)
    ended = recording.steps["end_sequence"].max()
    return _without_late_cycles(found, ended) if isinstance(ended, int) else found


def _one_of_each(found: pl.DataFrame) -> pl.DataFrame:
    return found.unique("malloc_sequence", keep="last", maintain_order=True).select(HOLDER_SCHEMA.names())


def _without_late_cycles(found: pl.DataFrame, ended: int) -> pl.DataFrame:
    """Give chains through cycles that were found behind an event the beginning of earlier chains to the same object."""
    # The object with the block stands before the first comma, the way to it from a variable behind it.
    parts = found.with_columns(
        pl.col("held_by").str.extract(r"^([^,]*)", 1).alias("object"),
        pl.col("held_by").str.extract(r"^[^,]*(, .*)$", 1).alias("way"),
        is_cycle=pl.col("held_by").str.contains(IN_CYCLE, literal=True),
    ).with_columns(alike=container_of(pl.col("object")))
    early = (
        parts.filter(~pl.col("is_cycle") & (pl.col("sequence") <= ended))
        .unique("alike", keep="last", maintain_order=True)
        .select("alike", pl.col("way").fill_null("").alias("way_before"))
    )
    is_late = pl.col("is_cycle") & (pl.col("sequence") > ended) & pl.col("way_before").is_not_null()
    return parts.join(early, on="alike", how="left", maintain_order="left").with_columns(
        held_by=pl.when(is_late).then(pl.col("object") + pl.col("way_before")).otherwise("held_by")
    )


def container_of(chain: pl.Expr) -> pl.Expr:
    """Return the common part of chains that differ in indices, keys and numbers only."""
    return chain.str.replace_all(_BRACKETS, "[...]").str.replace_all(r"\d+", "#")


def container_text(chain: str) -> str:
    """Return the same of one chain, as `container_of` does of columns."""
    return re.sub(r"\d+", "#", re.sub(_BRACKETS, "[...]", chain))


@dataclasses.dataclass(frozen=True)
class Filling:
    """A container that has fewer entries than it takes."""

    held_by: str
    """The container: `main.last`."""
    entries: int
    most: int
    size_bytes: int

    @property
    def text(self) -> str:
        """As `filling, 8 of 10: 1.00 MiB held by main.last, which is no leak.`, a sentence."""
        return f"filling, {self.entries} of {self.most}: {format_bytes(self.size_bytes)} held by {self.held_by}, which is no leak."


def filling_blocks(blocks: pl.DataFrame) -> pl.Series:
    """Tell which blocks lie in a container that says how much it takes, and that does not hold more.

    Its entries can be tuples, dictionaries or objects of a few blocks each.

    Args:
        blocks: `held_by`; blocks of one container are counted in them.

    Returns:
        One boolean per block.
    """
    return _entries(blocks)["is_filling"]


def filling_containers(blocks: pl.DataFrame) -> tuple[Filling, ...]:
    """Return the containers that are not full yet, the largest first.

    Args:
        blocks: `held_by` and `size` of all that may be in one.
    """
    entries = _entries(blocks)
    found = (
        pl.concat([blocks.select("size"), entries], how="horizontal")
        .drop_nulls("container")
        .group_by("container", maintain_order=True)
        .agg(pl.col("shown", "is_filling").last(), pl.col("entries", "count", "most").max(), pl.col("size").sum())
        .with_columns(pl.max_horizontal("entries", "count").alias("entries"))
        .filter("is_filling", pl.col("entries") < pl.col("most"))
        .sort("size", descending=True)
    )
    return tuple(Filling(*row) for row in found.select("shown", "entries", "most", "size").iter_rows())


def _entries(blocks: pl.DataFrame) -> pl.DataFrame:
    """Return for each block: container, shown, entries, most, count (of the entries among these blocks), is_filling."""
    bound = rf"\[(?:[^\[\]]*{BEFORE_BOUND})?(?<entries>\d+){re.escape(BOUNDED_INDEX)}(?<most>\d+)\]"
    # Of the entry itself, or of an object that is the entry; not of objects that it holds in turn.
    itself = rf"^(?<place>[^,]*?){bound}(?<field>(?:\[[^\[\],]*\])?)(?<rest>,.*)?$"
    in_object = rf"^(?<field>\w+(?:\.\w+|\[[^\[\],]*\])), from (?<place>[^,]*){bound}$"
    chains = blocks.select(
        pl.col("held_by").str.extract_groups(itself).alias("itself"),
        pl.col("held_by").str.extract_groups(in_object).alias("in_object"),
    )
    parts = {
        name: pl.coalesce(pl.col("itself").struct.field(name), pl.col("in_object").struct.field(name))
        for name in ("place", "entries", "most", "field")
    }
    rest = pl.col("itself").struct.field("rest").fill_null("")
    named = chains.select(
        container=container_of(parts["place"] + rest),
        shown=parts["place"] + rest,
        field=parts["field"],
        **{name: parts[name].cast(pl.Int64, strict=False) for name in ("entries", "most")},
    )
    counted = named.with_columns(
        count=pl.len().over("container", "field"), fields=pl.col("field").n_unique().over("container")
    )
    # An object with more fields is a container by itself, that may grow.
    is_filling = (pl.col("count") <= pl.col("most")) & (pl.col("fields") <= _MOST_FIELDS)
    return counted.select(
        "container", "shown", "entries", "most", "count", is_filling=is_filling.fill_null(value=False)
    )


def main_holders(blocks: pl.DataFrame, holders: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    """Return the holder of most of the blocks of each group.

    Args:
        blocks: `malloc_sequence`, `size` and the columns of the key.
        holders: Of HOLDER_SCHEMA; blocks without one are passed over.
        key: Columns that tell the groups.

    Returns:
        One row per group with a known holder: the key, `held_by` and `viewed_share`. Chains that differ in indices only
        count together.
        `held_by` is the newest of those that hold the most. Its block is not small beside the others.
        `viewed_share` is the part of these blocks that tensors have; null where it is not known, or half and more.
        A variable alone holds few blocks, and a container no more than it takes. Where one is the holder of few of many,
        it says nothing of the others.
    """
    known = blocks.select(*key, "malloc_sequence", "size").join(holders, on="malloc_sequence", maintain_order="left")
    return (
        known.with_columns(alike=container_of(pl.col("held_by")))
        .join(blocks.group_by(key).agg(count=pl.len()), on=key, how="left", maintain_order="left")
        .with_columns(share=pl.len().over(*key, "alike") / pl.col("count"))
        .filter(
            (pl.col("count") < _MANY_BLOCKS)
            | (pl.col("share") >= _LEAST_OF_MANY)
            | (pl.col("held_by").str.contains("[", literal=True) & ~_is_too_small(pl.col("held_by"), pl.col("count")))
        )
        .sort("malloc_sequence")
        .group_by(*key, "alike", maintain_order=True)
        .agg(
            pl.col("size").sum(),
            pl.col("held_by").filter(2 * pl.col("size") >= pl.col("size").max()).last(),
            pl.col("viewed_bytes").sum(),
            known=pl.col("size").filter(pl.col("held_by").is_not_null()).sum(),
            of_views=pl.col("size").filter(pl.col("viewed_bytes").is_not_null()).sum(),
        )
        .sort(["size", "alike"], descending=[True, False])
        .unique(key, keep="first", maintain_order=True)
        .with_columns(
            viewed_share=pl.when(
                2 * pl.col("of_views") > pl.col("known"), 2 * pl.col("viewed_bytes") < pl.col("of_views")
            ).then(pl.col("viewed_bytes") / pl.col("of_views"))
        )
        .select(*key, "held_by", "viewed_share")
    )


def _is_too_small(chain: pl.Expr, count: pl.Expr) -> pl.Expr:
    """Whether so many blocks are more than the container of a chain can have."""
    most = chain.str.extract(rf"{BOUNDED_INDEX}(\d+)\]").cast(pl.Int64, strict=False)
    return (count > most * _MOST_FIELDS).fill_null(value=False)


def held_now_or_before(
    alive: pl.DataFrame, blocks: pl.DataFrame, holders: pl.DataFrame, key: list[str]
) -> pl.DataFrame:
    """Return the holder of most live blocks of each group; where that is not known, the holder of those before them.

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
    """Return the holder of most of some blocks: the common part of their chains; empty where none is known.

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

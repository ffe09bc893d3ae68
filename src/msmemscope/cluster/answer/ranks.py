"""Which summaries are the ranks of the job, their names, and which of them are peers.

A job can have several captures of a rank: of earlier attempts, of workers that load data. Of a rank the last restart
counts, and of its processes the one with the highest peak. Captures without a rank count by themselves where no capture
has one. Else they are of launchers and helpers, and only their findings count.

Peers do the same work on other data: they have the same role, the same stage of the pipeline and the same experts. The shards of a
tensor and the replicas of a model are meant to be alike, so that these coordinates tell nobody apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.reports.rank_text import named_ranks

if TYPE_CHECKING:
    from collections.abc import Iterable

TELLING_AXES: Final = ("pipeline", "expert")
"""Axes along which ranks do other work."""
JUDGED: Final = "is_judged"
WHO: Final = "who"
PEERS: Final = "peers"
INDEX: Final = "index"
"""Columns that `rank_rows` adds: whether it stands for its rank; its name; the key that its peers share; its row."""
MIB: Final = 1 << 20


def rank_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """Add the names of the rows, whether they are judged, and who their peers are.

    Args:
        rows: `merging.MERGED_SCHEMA`.

    Returns:
        The rows with INDEX, WHO, JUDGED and PEERS, in their order.
    """
    has_ranks = rows["rank"].null_count() < rows.height
    roles = rows["role"].drop_nulls().n_unique()
    rank = pl.format("rank {}", "rank")
    if roles > 1:
        rank = pl.when(pl.col("role").is_not_null()).then(pl.format("rank {} ({})", "rank", "role")).otherwise(rank)
    who = pl.when(pl.col("rank").is_not_null()).then(rank).otherwise(pl.format("process {}", "process_id"))
    identity = ["role", "rank"] if has_ranks else ["node", "process_id", "start_ns", "source"]
    best = (
        rows.with_row_index(INDEX)
        .filter(pl.col("peak_bytes").is_not_null() & (pl.col("rank").is_not_null() | pl.lit(not has_ranks)))
        .sort(["restart_count", "peak_bytes", INDEX], descending=[True, True, False], nulls_last=True)
        .unique(identity, keep="first", maintain_order=True)[INDEX]
    )
    telling = [_coordinate(axis) for axis in TELLING_AXES]
    kind = pl.col("device").str.split(":").list.first()
    peers = pl.concat_str("role", kind, "pool", *telling, separator=", ", ignore_nulls=True)
    return rows.with_row_index(INDEX).with_columns(
        who.alias(WHO), pl.col(INDEX).is_in(best.implode()).alias(JUDGED), peers.alias(PEERS)
    )


def _coordinate(axis: str) -> pl.Expr:
    """`pipeline 1`; null where the rank has no such coordinate."""
    return pl.format("{} {}", pl.lit(axis), coordinate(axis))


def coordinate(axis: str) -> pl.Expr:
    """The index of a rank on an axis; null where it has none."""
    element = pl.element()
    return (
        pl.col("coordinates")
        .list.eval(element.struct.field("index").filter(element.struct.field("axis") == axis))
        .list.first()
    )


def axes_of(rows: pl.DataFrame) -> list[str]:
    """Return the axes that any row has, by name."""
    axes = (
        rows.select("coordinates")
        .explode("coordinates", empty_as_null=False)
        .drop_nulls()
        .unnest("coordinates")["axis"]
    )
    return [str(axis) for axis in axes.unique().sort()]


def who_text(rows: pl.DataFrame) -> str:
    """Return some ranks in words, those that follow each other as ranges: `ranks 0-6`.

    Args:
        rows: Of `rank_rows`.
    """
    ranks = rows.filter(pl.col("rank").is_not_null())
    parts = []
    for role, names in sorted(_ranks_by_role(ranks).items()):
        parts.append(f"{named_ranks(names)}{f' ({role})' if role else ''}")
    others = rows.filter(pl.col("rank").is_null())["process_id"].sort().to_list()
    if others:
        parts.append(f"{'process' if len(others) == 1 else 'processes'} {_few(map(str, others))}")
    return ", ".join(parts)


_MOST_NAMED: Final = 4


def _few(names: Iterable[str]) -> str:
    every = [*names]
    more = len(every) - _MOST_NAMED
    return ", ".join(every[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _ranks_by_role(ranks: pl.DataFrame) -> dict[str, list[int]]:
    """Role to ranks; where every name is without its role, there is one: the empty one."""
    names_roles = ranks[WHO].str.contains("(", literal=True).any()
    found: dict[str, list[int]] = {}
    for rank, role in ranks.select("rank", "role").unique().sort("rank").iter_rows():
        numbers = found.setdefault(role or "" if names_roles else "", [])
        if not numbers or numbers[-1] != rank:
            numbers.append(rank)
    return found

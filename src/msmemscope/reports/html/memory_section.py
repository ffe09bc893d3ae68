"""Memory over time, and its parts at the peak: one section per pool of a device."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.model.devices import device_name
from msmemscope.model.events import EventKind
from msmemscope.model.owners import is_known_owner
from msmemscope.model.pools import Pool, pool_word
from msmemscope.recording.block_sets import OUTSIDE_OPERATORS
from msmemscope.recording.call_sites import STACK_COLUMNS, call_sites
from msmemscope.recording.failed_allocations import failed_attempts
from msmemscope.recording.timeline import blocks_in_use, peak_moments
from msmemscope.reports.html.memory_columns import (
    MOST_COLUMNS,
    OTHER_OWNERS,
    MemoryColumns,
    folded_owners,
    memory_columns,
)
from msmemscope.reports.html.shown_text import shown
from msmemscope.reports.html.stack_tree import MOST_NODES, stack_tree
from msmemscope.reports.html.tables import ColumnKind, ReportTable, TableColumn, table_of
from msmemscope.reports.html.time_axis import TimeAxis

if TYPE_CHECKING:
    from msmemscope.recording import Recording

_MOST_STEPS: Final = 300
"""Begins of steps that are drawn; of more, evenly spaced ones."""
_MOST_MARKS: Final = 200
_MOST_FAILURES: Final = 100
_MARK_LETTERS: Final = 80
_MOST_POOLS: Final = 24
"""Pools of a process that have a section, and of all processes together four times as many."""
_LEAST_POOLS: Final = 2
_LEAST_COLUMNS: Final = 60
_LEAST_NODES: Final = 100
_COLUMNS_OF_ALL: Final = 40_000
_NODES_OF_ALL: Final = 40_000


@dataclasses.dataclass(frozen=True)
class Room:
    """The share of a page that one process may take: the file stays small however many there are."""

    columns: int
    """Of all pictures of memory over time."""
    pools: int
    """That have a section."""
    nodes: int
    """Of all trees of call stacks of a kind."""

    @classmethod
    def among(cls, process_count: int) -> Room:
        """Return the room of one of so many processes."""
        return cls(
            _COLUMNS_OF_ALL // process_count,
            max(min(_MOST_POOLS, 4 * _MOST_POOLS // process_count), _LEAST_POOLS),
            _NODES_OF_ALL // process_count,
        )


_MOST_OWNERS: Final = 60
"""Owners that have a field of their own in the picture of the peak."""


def memory_sections(
    recording: Recording, blocks: pl.DataFrame, leaked: pl.Series, room: Room
) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Describe the memory of each pool of a process, those of frameworks first, then the fullest.

    Args:
        recording: The process.
        blocks: Its blocks, none without `owner`.
        leaked: `malloc_sequence` of those that leaked.
        room: The room that it may take.

    Returns:
        The content of each for JSON, its `tables` as they are, and the parts that were left out, one sentence each.
        Pools that never held a byte are no part of this.
    """
    axis = TimeAxis.of(recording)
    peaks = peak_moments(blocks).filter(pl.col("peak_bytes") > 0)
    ordered = peaks.sort(
        [pl.col("pool") == Pool.HAL, "peak_bytes", "device", "pool"], descending=[False, True, False, False]
    )
    pools = max(min(ordered.height, room.pools), 1)
    count = max(min(MOST_COLUMNS, room.columns // pools), _LEAST_COLUMNS)
    nodes = max(min(MOST_NODES, room.nodes // pools), _LEAST_NODES)
    parts = blocks.partition_by("device", "pool", as_dict=True, maintain_order=True)
    sections = []
    for place in ordered.head(room.pools).select("device", "pool").iter_rows():
        grouped_by, part = _grouped(recording, parts[place])
        columns = memory_columns(recording, part, axis, count)
        if columns is not None:
            section = _section(recording, part, columns, axis, (leaked, nodes))
            sections.append({**section, "grouped_by": grouped_by})
    more = ordered.height - room.pools
    return sections, (f"{more} more pools of memory have no picture here",) if more > 0 else ()


def _grouped(recording: Recording, blocks: pl.DataFrame) -> tuple[str, pl.DataFrame]:
    """Return the key that tells the blocks of a pool apart, and the blocks.

    Call sites stand for owners where none is known.

    Returns:
        `owner` or `line`, and the blocks with that in the column `owner`.
    """
    if any(map(is_known_owner, blocks["owner"].unique().drop_nulls())):
        return "owner", blocks
    sites = call_sites(recording, blocks).select(*STACK_COLUMNS, owner="site")
    return "line", blocks.drop("owner").join(sites, on=STACK_COLUMNS, how="left", maintain_order="left")


def _section(
    recording: Recording, blocks: pl.DataFrame, columns: MemoryColumns, axis: TimeAxis, trees_of: tuple[pl.Series, int]
) -> dict[str, Any]:
    device, pool = columns.device, columns.pool
    in_use = folded_owners(blocks_in_use(blocks, columns.peak_sequence))
    leaked, nodes = trees_of
    lost = blocks.filter(pl.col("malloc_sequence").is_in(leaked.implode()))
    trees = {"peak": stack_tree(recording, in_use, "in use at the peak", nodes).content()}
    if lost.height:
        trees["leaked"] = stack_tree(recording, lost, "leaked", nodes).content()
    owners = _by(in_use, "owner")
    return {
        "device": device_name(device),
        "pool": pool_word(pool, device),
        "chart": _chart(recording, columns, axis),
        "owners": _drawn(owners),
        "trees": trees,
        "tables": _tables(recording, in_use, owners),
    }


def _drawn(owners: pl.DataFrame) -> list[list[Any]]:
    """Owners as they are drawn: name, bytes and blocks; those that are too many to be seen are the last."""
    columns = ("owner", "size_bytes", "block_count")
    drawn = [[shown(name), size, count] for name, size, count in owners.head(_MOST_OWNERS).select(columns).iter_rows()]
    rest = owners.slice(_MOST_OWNERS)
    if rest.height:
        drawn.append([f"({rest.height} more owners)", int(rest["size_bytes"].sum()), int(rest["block_count"].sum())])
    return drawn


def _tables(recording: Recording, in_use: pl.DataFrame, owners: pl.DataFrame) -> list[ReportTable]:
    """The memory in use at the peak by owner, by operator and by line: the first two where one of them is known."""
    has_owners = any(map(is_known_owner, owners["owner"]))
    has_operators = in_use["name"].null_count() < in_use.height
    operators = in_use.with_columns(pl.col("name").fill_null(OUTSIDE_OPERATORS).str.strip_prefix("torch._ops."))
    sites = call_sites(recording, in_use).select(*STACK_COLUMNS, "site")
    lines = in_use.join(sites, on=STACK_COLUMNS, how="left")
    return [
        table_of(
            f"At the peak, by {word}",
            frame,
            (
                TableColumn("in use", "size_bytes", ColumnKind.BYTES),
                TableColumn("share", "share", ColumnKind.PERCENT),
                TableColumn("blocks", "block_count", ColumnKind.COUNT),
                TableColumn(word, key, kind),
            ),
        )
        for is_shown, word, key, kind, frame in (
            (has_owners, "owner", "owner", ColumnKind.TEXT, owners),
            (has_operators, "operator", "name", ColumnKind.TEXT, _by(operators, "name")),
            (True, "line", "site", ColumnKind.SITE, _by(lines, "site")),
        )
        if is_shown
    ]


def _by(blocks: pl.DataFrame, key: str) -> pl.DataFrame:
    sums = blocks.group_by(key).agg(size_bytes=pl.col("size").sum(), block_count=pl.len())
    return sums.sort(["size_bytes", key], descending=[True, False]).with_columns(
        share=pl.col("size_bytes") / pl.col("size_bytes").sum()
    )


def _chart(recording: Recording, columns: MemoryColumns, axis: TimeAxis) -> dict[str, Any]:
    """The picture of memory over time; moments are nanoseconds since its begin, or numbers of events."""
    return {
        "is_time": axis.is_time,
        "begin_ns": str(axis.begin_ns),  # more digits than numbers of scripts have
        "length": axis.length,
        "moments": columns.moments.astype(np.int64).tolist(),
        "most": columns.most_bytes.tolist(),
        "least": columns.least_bytes.tolist(),
        "reserved": None if columns.reserved_bytes is None else columns.reserved_bytes.tolist(),
        "step": None if columns.steps is None else columns.steps.tolist(),
        "owners": [
            {"name": shown(name), "bytes": values.tolist(), "is_rest": name == OTHER_OWNERS}
            for name, values in columns.owners
        ],
        "peak": {
            "bytes": columns.peak_bytes,
            "event": columns.peak_sequence,
            "column": columns.peak_column,
            "moment": int(columns.peak_moment),
        },
        "steps": _step_begins(recording, columns.device, axis),
        "marks": _marks(recording, axis),
        "failures": _failures(recording, columns.device, axis),
    }


def _step_begins(recording: Recording, device: int, axis: TimeAxis) -> dict[str, Any]:
    steps = recording.steps
    own = steps.filter(pl.col("device") == device)
    shown_steps = own if own.height and own.height < steps.height else steps
    every = -(-shown_steps.height // _MOST_STEPS) or 1
    part = shown_steps.gather_every(every)
    moments = axis.of_events(part["begin_sequence"].to_numpy())
    return {"numbers": part["number"].to_list(), "moments": moments.astype(np.int64).tolist()}


def _marks(recording: Recording, axis: TimeAxis) -> dict[str, Any]:
    names = recording.strings.select(name_id="id", name="text")
    marks = recording.events.filter(pl.col("kind") == EventKind.MARK).select("sequence", "name_id")
    part = marks.head(_MOST_MARKS).join(names, on="name_id", how="left", maintain_order="left")
    moments = axis.of_events(part["sequence"].to_numpy())
    return {
        "more": marks.height - part.height,
        "names": [shown(name or "", _MARK_LETTERS) for name in part["name"]],
        "moments": moments.astype(np.int64).tolist(),
    }


def _failures(recording: Recording, device: int, axis: TimeAxis) -> dict[str, Any]:
    attempts = failed_attempts(recording).filter((pl.col("device") == device) & ~pl.col("is_served"))
    failed = attempts.unique("call", keep="last", maintain_order=True)
    part = failed.tail(_MOST_FAILURES)
    moments = axis.of_events(part["sequence"].to_numpy())
    return {
        "more": failed.height - part.height,
        "bytes": part["size"].to_list(),
        "moments": moments.astype(np.int64).tolist(),
    }

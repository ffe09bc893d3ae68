"""Blocks by call stack or by owner, as a tree: at a moment, at the peak, leaked, in a window, or by byte-seconds."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.analysis.weights.measures import NS_PER_SECOND
from msmemscope.analysis.weights.path_tree import FOLDED
from msmemscope.errors import UsageError
from msmemscope.reports.html.shown_text import shown
from msmemscope.view.index.ordered import count_up_to
from msmemscope.view.queries.frame import Frame
from msmemscope.view.queries.python_text import allocated_text, blocks_text, leaked_text
from msmemscope.view.queries.sums import sums_by_code

if TYPE_CHECKING:
    from typing import TypeAlias

    from msmemscope.view.queries.process_view import PoolView, Window

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

MEASURES: Final = ("moment", "peak", "leaked", "churn", "byte_seconds")
TREES: Final = {
    ("stack", "program"): "program",
    ("stack", "all"): "all",
    ("owner", "program"): "owner",
    ("owner", "all"): "owner",
}
"""The grouping of blocks and the choice of frames; the name of the tree in the index."""
MOST_NODES: Final = 20_000
_LEAST_SHARE: Final = 1 / 4000
"""The least share of the whole of a node: on a screen, nobody sees a narrower one."""
NODE_SCHEMA: Final = pl.Schema(
    {
        "name": pl.String(),
        "parent": pl.UInt32(),
        "bytes": pl.Int64(),
        "blocks": pl.Int64(),
        "depth": pl.UInt32(),
        "key": pl.UInt32(),
    }
)
"""One row per node, parents before their children; see `api/tree` in ui/PROTOCOL.md."""


@dataclasses.dataclass(frozen=True, eq=False)
class Measured:
    """Blocks of a pool and the weight of each."""

    places: Numbers | slice
    weights: Numbers
    unit: str
    row: int | None
    """The moment that it is about; None of a window or of the whole run."""
    python: str


_MOST_WEIGHT: Final = float(1 << 53)
"""Byte-seconds of a block, as scripts have numbers: more has only a damaged recording."""


def measured_blocks(pool: PoolView, measure: str, window: Window, row: int | None) -> Measured:
    """Return the blocks that a measure counts.

    Args:
        pool: The pool.
        measure: One of MEASURES.
        window: The window that `churn` and `byte_seconds` are about.
        row: The row that `moment` is about.

    Raises:
        UsageError: There is no such measure, or no row where one is needed.
    """
    sizes = pool.of_blocks("sizes")
    if measure in {"moment", "peak"}:
        at = pool.facts["peak_row"] if measure == "peak" else row
        if at is None:
            message = "is needed for a moment"
            raise UsageError(message, option="row", value="", accepted=f"-1 to {pool.process.row_count - 1}")
        live = pool.intervals.live.at(at)
        return Measured(live, sizes[live], "bytes", at, blocks_text(pool, at, at))
    if measure == "leaked":
        lost = np.flatnonzero(pool.of_blocks("has_leaked"))
        return Measured(lost, sizes[lost], "bytes", None, leaked_text(pool))
    first, last = window.first_row, window.last_row
    begins = pool.intervals.begins
    behind, until = (count_up_to(begins, row) for row in (first, last))
    if measure == "churn":
        part = slice(behind, until)
        return Measured(part, sizes[part], "bytes", None, allocated_text(pool, first, last))
    if measure == "byte_seconds":
        live = np.concatenate([pool.intervals.live.at(first), np.arange(behind, until)])
        return Measured(live, _byte_seconds(pool, live, window), "byte-seconds", None, blocks_text(pool, first, last))
    message = "is no measure"
    raise UsageError(message, option="measure", value=measure, accepted=", ".join(MEASURES))


def _byte_seconds(pool: PoolView, places: Numbers, window: Window) -> Numbers:
    """Whole byte-seconds of blocks within a window; bytes times events where there are no times."""
    process = pool.process
    axis = process.axes[0]
    first, last = (process.position(row, axis) for row in (window.first_row, window.last_row))
    begin, end = (process.positions(pool.of_blocks(name)[places], axis) for name in ("begin_rows", "end_rows"))
    lasted = np.maximum(np.minimum(end, last) - np.maximum(begin, first), 0)
    seconds = lasted / NS_PER_SECOND if axis == "time" else lasted
    weights = np.round(pool.of_blocks("sizes")[places] * seconds)
    whole: Numbers = np.clip(weights, -_MOST_WEIGHT, _MOST_WEIGHT).astype(np.int64)
    return whole


def weighed_tree(pool: PoolView, measured: Measured, tree_name: str, nodes: int) -> Frame:
    """Return the tree of some blocks; `api/tree` in ui/PROTOCOL.md.

    Args:
        pool: The pool.
        measured: The blocks.
        tree_name: One of the values of TREES.
        nodes: How many it may have, about.
    """
    process = pool.process
    tree, leaves = process.tree(tree_name)
    codes = pool.codes("owner") if tree_name == "owner" else pool.of_blocks("stacks")
    members = codes[measured.places]
    counted = len(leaves)
    weights = tree.sums(leaves, sums_by_code(members, measured.weights, counted))
    blocks = tree.sums(leaves, np.bincount(members, minlength=counted))
    total = int(weights[0])
    part = tree.shown(weights, blocks, int(total * _LEAST_SHARE), nodes)
    labels = tree.labels
    names = [
        f"({count} smaller)" if node == FOLDED else shown(labels[tree.names[node]])
        for node, count in zip(part.nodes.tolist(), part.folded.tolist(), strict=True)
    ]
    table = {
        "name": names,
        "parent": part.parents,
        "bytes": part.weights,
        "blocks": part.counts,
        "depth": part.depths,
        "key": part.nodes,
    }
    info = {
        "unit": measured.unit,
        "row": measured.row,
        "total": total,
        "blocks": int(blocks[0]),
        "node_count": int((weights > 0).sum()),
        "python": measured.python,
    }
    return Frame(info, pl.DataFrame(table, NODE_SCHEMA))


def difference_of_moments(one: tuple[PoolView, int], other: tuple[PoolView, int], grouping: str, most: int) -> Frame:
    """Return the groups with more and with less at another moment, or in another process; `api/difference`.

    Args:
        one: A pool, and a row.
        other: Likewise.
        grouping: The property by which blocks are put together.
        most: Groups that are named.
    """
    sums = [_sums_at(*moment, grouping) for moment in (one, other)]
    both = (
        sums[0]
        .join(sums[1], on="name", how="full", coalesce=True, suffix="_other")
        .fill_null(0)
        .select("name", "bytes", other_bytes="bytes_other", blocks="blocks", other_blocks="blocks_other")
        .with_columns(difference=pl.col("other_bytes") - pl.col("bytes"))
        .sort([pl.col("difference").abs(), "name"], descending=[True, False])
    )
    named, rest = both.head(most), both.slice(most)
    info = {
        "more": {
            "groups": rest.height,
            "bytes": int(rest["bytes"].sum()),
            "other_bytes": int(rest["other_bytes"].sum()),
        },
        "total": {"bytes": int(both["bytes"].sum()), "other_bytes": int(both["other_bytes"].sum())},
        "python": blocks_text(one[0], one[1], one[1]),
        "other_python": blocks_text(other[0], other[1], other[1]),
    }
    return Frame(info, named)


def _sums_at(pool: PoolView, row: int, grouping: str) -> pl.DataFrame:
    live = pool.intervals.live.at(row)
    codes, sizes = pool.codes(grouping)[live], pool.of_blocks("sizes")[live]
    labels = pool.process.labels(grouping)
    blocks = np.bincount(codes, minlength=len(labels))
    used = np.flatnonzero(blocks)
    table = pl.DataFrame(
        {
            "name": [shown(name) for name in labels.gather(used)],
            "bytes": sums_by_code(codes, sizes, len(labels))[used],
            "blocks": blocks[used],
        },
        {"name": pl.String(), "bytes": pl.Int64(), "blocks": pl.Int64()},
    )
    return table.group_by("name").agg(pl.col("bytes", "blocks").sum())

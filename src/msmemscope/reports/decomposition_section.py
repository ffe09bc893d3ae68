"""The parts of memory in the summary at the end of a run: a tree of owners per pool, and the ledger."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import polars as pl
from rich.table import Table
from rich.text import Text

from msmemscope.model.devices import device_name, names_of
from msmemscope.model.labels import (
    KV_CACHE,
    MODEL_ACTIVATION,
    MODEL_GRADIENT,
    MODEL_OPTIMIZER_STATE,
    MODEL_WEIGHT,
    OPS_ATEN,
    PROGRAM,
    WORKSPACE,
)
from msmemscope.model.owners import PINNED_HOST, SEPARATOR, without_module
from msmemscope.model.pools import Pool, pool_word
from msmemscope.recording.block_sets import Ranking, Share
from msmemscope.reports.plain_text import cut_end
from msmemscope.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from msmemscope.analysis.owners.decomposition import Decomposition, PoolDecomposition

MOST_PARTS: Final = 8
"""Parts of one node that are listed by name."""
DEEPEST: Final = 6
"""Levels of the tree that are shown; deeper parts count for their node."""

_WORDS: Final = {
    MODEL_WEIGHT: "weights",
    MODEL_GRADIENT: "gradients",
    MODEL_OPTIMIZER_STATE: "optimizer state",
    MODEL_ACTIVATION: "activations",
    KV_CACHE: "KV cache",
    WORKSPACE: "workspaces of cuBLAS",
    PROGRAM: "held by the program",
}
"""End of a path to its word, where that is not its last part."""
_OPERATORS: Final = "operators"
_OPERATORS_PART: Final = OPS_ATEN.partition(SEPARATOR)[0]
_OTHER: Final = "other"
_NUMBERS_WIDTH: Final = 36
"""Columns that a line needs beside its label."""
_SHORTEST_LABEL: Final = 16
_HEADING: Final = "bold"
_QUIET: Final = "dim"


@dataclasses.dataclass(frozen=True)
class _Node:
    """One row of NODE_SCHEMA."""

    path: str
    size_bytes: int
    own_bytes: int
    block_count: int

    @property
    def parent(self) -> str | None:
        """The path of the node that it is a part of, which may be empty; None if it is part of none."""
        before, separator, _ = self.path.rpartition(SEPARATOR)
        return before if separator else None


@dataclasses.dataclass(frozen=True)
class _Line:
    """One line of a tree."""

    depth: int
    label: str
    size_bytes: int
    block_count: int


def owner_ranking(pool: PoolDecomposition) -> Ranking:
    """Return the bytes of owners in a pool at its peak, the largest first: the leaves of the tree, without branches."""
    lines = list(_Tree(pool.nodes).lines())
    leaves = [
        Share(line.label, line.size_bytes, line.block_count)
        for line, following in zip(lines, [*lines[1:], None], strict=True)
        if following is None or following.depth <= line.depth
    ]
    return Ranking(tuple(sorted(leaves, key=lambda share: (-share.size_bytes, share.label))), None)


def print_decomposition(decomposition: Decomposition, console: Console, *, with_modules: bool = False) -> None:
    """Write the section.

    Args:
        decomposition: The decomposition to write.
        console: Where to write it; labels are cut to its width.
        with_modules: Whether weights are listed by module.
    """
    for pool in decomposition.pools:
        # The ledger has the parts of the driver's memory of a device.
        if not (pool.pool == Pool.HAL and pool.device >= 0):
            _print_pool(pool, console, with_modules=with_modules)
    for device in sorted({pool.device for pool in decomposition.pools if pool.device >= 0}):
        _print_ledger(decomposition, device, console)


def _print_pool(pool: PoolDecomposition, console: Console, *, with_modules: bool) -> None:
    where = f"{device_name(pool.device)} ({pool_word(pool.pool, pool.device)})"
    console.print()
    console.print(Text(f"Owners on {where} at the peak of {format_bytes(pool.peak_bytes)}", _HEADING), soft_wrap=True)
    table = _table("by owner", "blocks")
    width = max(console.width - _NUMBERS_WIDTH, _SHORTEST_LABEL)
    for line in _Tree(pool.nodes, with_modules=with_modules).lines():
        table.add_row(
            _label(line.label, line.depth, width),
            Text(format_bytes(line.size_bytes)),
            Text(_share(line.size_bytes, pool.peak_bytes)),
            Text(format_count(line.block_count)),
        )
    console.print(table)


def _print_ledger(decomposition: Decomposition, device: int, console: Console) -> None:
    ledger = decomposition.ledger_at_peak(device)
    totals = decomposition.devices.filter((pl.col("device") == device) & pl.col("step").is_null()).row(0, named=True)
    driver = totals["driver_bytes"]
    if driver is None:
        return
    console.print()
    heading = f"Memory of the driver on {device_name(device)} at its peak of {format_bytes(driver)}"
    console.print(Text(heading, _HEADING), soft_wrap=True)
    table = _table("by use")
    width = max(console.width - _NUMBERS_WIDTH, _SHORTEST_LABEL)
    for part, word in (
        ("pool", "held by pools"),
        ("module", f"modules of {names_of(device).runtime}"),
        ("unknown", "unknown"),
    ):
        rows = ledger.filter(pl.col("part") == part).sort("size_bytes", "name", descending=[True, False])
        if rows.is_empty():
            continue
        lines = [_Line(0, word, int(rows["size_bytes"].sum()), 0)]
        if part != "unknown":
            lines += [_Line(1, name, size, 0) for name, size in rows.select("name", "size_bytes").iter_rows()]
        for line in lines:
            size = Text(format_bytes(line.size_bytes))
            table.add_row(_label(line.label, line.depth, width), size, Text(_share(line.size_bytes, driver)))
    console.print(table)
    in_use = [
        f"{format_bytes(totals[column])} by {whom}"
        for column, whom in (("process_bytes", "this process"), ("device_bytes", "all processes"))
        if totals[column] is not None
    ]
    if in_use:
        console.print(Text(f"  In use on the device then: {', '.join(in_use)}", _QUIET), soft_wrap=True)


def _table(*words: str) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    headings = [words[0], "size", "share", *words[1:]]
    for _ in headings[1:]:
        table.add_column(justify="right", no_wrap=True)
    table.add_row(Text(f"  {headings[0]}", _QUIET), *(Text(word, _QUIET) for word in headings[1:]))
    return table


class _Tree:
    """The nodes of one pool, the parts of each by its path."""

    def __init__(self, nodes: pl.DataFrame, *, with_modules: bool = False) -> None:
        self._parts: dict[str | None, list[_Node]] = {}
        columns = ("node", "size_bytes", "own_bytes", "block_count")
        for row in nodes.filter(pl.col("depth") <= DEEPEST).select(columns).iter_rows():
            node = _Node(*row)
            if not with_modules and without_module(node.path) != node.path:
                continue
            self._parts.setdefault(node.parent, []).append(node)
        for parts in self._parts.values():
            parts.sort(key=lambda node: (-node.size_bytes, node.path))

    def lines(self) -> Iterator[_Line]:
        """Yield the lines, the largest parts first, without the beginning that all owners share."""
        roots = self._parts.get(None, [])
        if len(roots) != 1:
            yield from self._lines_of(roots, 0)
            return
        trunk = roots[0]
        while (only := self._only_part(trunk)) is not None and only.path == PINNED_HOST:
            trunk = only
        if trunk.path in self._parts:
            yield from self._lines_below(trunk, 0)
        else:
            yield _Line(0, trunk.path, trunk.size_bytes, trunk.block_count)

    def _lines_of(self, nodes: list[_Node], depth: int) -> Iterator[_Line]:
        # One more line by name takes no more room than saying "(1 others)".
        listed = nodes if len(nodes) <= MOST_PARTS + 1 else nodes[:MOST_PARTS]
        for node in listed:
            word = _word(node.path)
            yield _Line(depth, word, node.size_bytes, node.block_count)
            only = self._only_part(node)
            # All operators are Aten's as long as nothing else tells of its own.
            is_aten = only is not None and word == _OPERATORS and only.path.endswith(f"{SEPARATOR}{OPS_ATEN}")
            yield from self._lines_below(only if only is not None and is_aten else node, depth + 1)
        rest = nodes[len(listed) :]
        if rest:
            sizes, counts = sum(node.size_bytes for node in rest), sum(node.block_count for node in rest)
            yield _Line(depth, f"({len(rest)} others)", sizes, counts)

    def _lines_below(self, node: _Node, depth: int) -> Iterator[_Line]:
        parts = self._parts.get(node.path)
        if not parts:
            return
        yield from self._lines_of(parts, depth)
        left = node.size_bytes - sum(part.size_bytes for part in parts)
        if left:
            blocks = node.block_count - sum(part.block_count for part in parts)
            yield _Line(depth, _OTHER, left, blocks)

    def _only_part(self, node: _Node) -> _Node | None:
        """Return the part that holds all of a node, if there is such a part."""
        parts = self._parts.get(node.path, [])
        return parts[0] if len(parts) == 1 and parts[0].size_bytes == node.size_bytes else None


def _word(path: str) -> str:
    """Return the name of a node, as MindStudio Insight has it where it has one."""
    parts = path.split(SEPARATOR)
    if parts[1:] == [_OPERATORS_PART]:
        return _OPERATORS
    if parts[1:] in ([KV_CACHE], [WORKSPACE], [PROGRAM]):
        return _WORDS[parts[-1]]
    return _WORDS.get(SEPARATOR.join(parts[-2:]), parts[-1])


def _label(text: str, depth: int, width: int) -> Text:
    indent = "  " * (depth + 2)
    return Text(f"{indent}{cut_end(text, max(width - len(indent), 1))}")


def _share(size_bytes: int, total_bytes: int) -> str:
    share = 100 * size_bytes / total_bytes if total_bytes else 0.0
    return f"{share:.1f} %"

"""Blocks by call stack, as a tree: what a flame graph is drawn from."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from msmemscope.recording.call_sites import STACK_COLUMNS, call_sites
from msmemscope.reports.html.shown_text import shown

if TYPE_CHECKING:
    from msmemscope.recording import Recording

_MOST_STACKS: Final = 20_000
"""Stacks that have a path of their own, the largest; all others are one node."""
_LEAST_SHARE: Final = 1 / 2000
"""Of the whole that a node must have: on a screen a narrower one cannot be seen."""
MOST_NODES: Final = 3000
"""Nodes of a tree; of one with more, larger ones are put together."""
_DEEPEST: Final = 100
"""Frames of a path, the innermost; those that called them are one node."""
_ROOT: Final = 0


@dataclasses.dataclass
class StackTree:
    """A tree in lists, an entry per node; a node stands behind its parent, and the first is the root."""

    names: list[str]
    parents: list[int]
    size_bytes: list[int]
    blocks: list[int]

    def content(self) -> dict[str, Any]:
        """Return what JSON has of it: nodes without lists in each other, however deep stacks are, and each name once."""
        labels = {name: number for number, name in enumerate(dict.fromkeys(self.names))}
        return {
            "labels": list(labels),
            "names": [labels[name] for name in self.names],
            "parents": self.parents,
            "size_bytes": self.size_bytes,
            "blocks": self.blocks,
        }


def stack_tree(recording: Recording, blocks: pl.DataFrame, root: str, nodes: int = MOST_NODES) -> StackTree:
    """Put blocks together by the frames of the program that led to them, and by operator below.

    Args:
        recording: Where stacks are looked up.
        blocks: STACK_COLUMNS, `size`, and `name`, the operator.
        root: What the whole is called.
        nodes: That the tree may have.
    """
    sites = call_sites(recording, blocks).select(*STACK_COLUMNS, "site_path")
    paths = (
        blocks.group_by(*STACK_COLUMNS, "name")
        .agg(pl.col("size").sum(), blocks=pl.len())
        .join(sites, on=STACK_COLUMNS, how="left")
        .group_by("site_path", "name")
        .agg(pl.col("size", "blocks").sum())
        .sort("size", "site_path", "name", descending=[True, False, False])
    )
    tree = _Tree(shown(root))
    for path, name, size, count in paths.head(_MOST_STACKS).iter_rows():
        tree.add(_frames(path, name), size, count)
    rest = paths.slice(_MOST_STACKS)
    if rest.height:
        tree.add([f"({rest.height} more stacks)"], int(rest["size"].sum()), int(rest["blocks"].sum()))
    return tree.pruned(nodes)


def _frames(path: str, operator: str | None) -> list[str]:
    """The frames of a path from the outermost on, and the operator."""
    frames = path.split("\n")
    called = [operator.removeprefix("torch._ops.")] if operator and operator != path else []
    if len(frames) > _DEEPEST:
        called_by = f"({len(frames) - _DEEPEST} frames)"
        return [called_by, *reversed(frames[:_DEEPEST]), *called]
    return [*reversed(frames), *called]


class _Tree:
    """A tree that grows path by path."""

    def __init__(self, root: str) -> None:
        self._tree = StackTree([root], [_ROOT], [0], [0])
        self._children: dict[tuple[int, str], int] = {}

    def add(self, frames: list[str], size: int, blocks: int) -> None:
        tree, node = self._tree, _ROOT
        for frame in (None, *frames):
            if frame is not None:
                node = self._child(node, frame)
            tree.size_bytes[node] += size
            tree.blocks[node] += blocks

    def _child(self, parent: int, frame: str) -> int:
        known = self._children.get((parent, frame))
        if known is not None:
            return known
        tree = self._tree
        node = self._children[parent, frame] = len(tree.names)
        tree.names.append(shown(frame))
        tree.parents.append(parent)
        tree.size_bytes.append(0)
        tree.blocks.append(0)
        return node

    def pruned(self, most: int) -> StackTree:
        """Return the tree in which the nodes of a parent that are too small to be seen are one."""
        least = self._tree.size_bytes[_ROOT] * _LEAST_SHARE
        pruned = self._with_at_least(least)
        while len(pruned.names) > most:
            least *= 2
            pruned = self._with_at_least(least)
        return pruned

    def _with_at_least(self, least: float) -> StackTree:
        tree = self._tree
        pruned = StackTree(tree.names[:1], [_ROOT], tree.size_bytes[:1], tree.blocks[:1])
        places: dict[int, int] = {_ROOT: _ROOT}
        small: dict[int, int] = {}
        counts: dict[int, int] = {}
        for node in range(1, len(tree.names)):
            parent = places.get(tree.parents[node])
            if parent is None:
                continue  # within one that is too small
            if tree.size_bytes[node] >= least:
                places[node] = _appended(pruned, tree.names[node], parent)
            elif parent not in small:
                small[parent] = _appended(pruned, "", parent)
            place = places.get(node, small.get(parent, _ROOT))
            counts[place] = counts.get(place, 0) + 1
            pruned.size_bytes[place] += tree.size_bytes[node]
            pruned.blocks[place] += tree.blocks[node]
        for place in small.values():
            pruned.names[place] = f"({counts[place]} smaller)"
        return pruned


def _appended(tree: StackTree, name: str, parent: int) -> int:
    tree.names.append(name)
    tree.parents.append(parent)
    tree.size_bytes.append(0)
    tree.blocks.append(0)
    return len(tree.names) - 1

"""Paths that begin alike, as one tree: call stacks, or the parts of owners, whose weights add up from the leaves to the root."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TypeAlias

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

ROOT: Final = 0
"""Node of all paths."""
FOLDED: Final = 0xFFFF_FFFF
"""In the place of a node: several that are shown as one."""
_LARGEST: Final = (1 << 63) - 1


def whole_numbers(values: Sequence[int]) -> Numbers:
    """Return numbers whose sums are exact: i64, or Python's own where a sum may be larger, as of a damaged recording."""
    return np.array(values, dtype=np.int64 if sum(map(abs, values)) <= _LARGEST else np.object_)


class PathTreeBuilder:
    """Grows a tree path by path."""

    def __init__(self) -> None:
        """Begin with the root alone."""
        self._labels: dict[str, int] = {"": 0}
        self._parents = [ROOT]
        self._names = [0]
        self._depths = [0]
        self._children: dict[tuple[int, int], int] = {}

    def add(self, path: Iterable[str]) -> int:
        """Add a path and return its last node.

        Args:
            path: Its parts, from the one next to the root on.
        """
        node = ROOT
        for part in path:
            label = self._labels.setdefault(part, len(self._labels))
            child = self._children.get((node, label))
            if child is None:
                child = self._children[node, label] = len(self._parents)
                self._parents.append(node)
                self._names.append(label)
                self._depths.append(self._depths[node] + 1)
            node = child
        return node

    def tree(self) -> PathTree:
        """Return the tree as it is now."""
        return PathTree(
            tuple(self._labels),
            np.array(self._names, dtype=np.uint32),
            np.array(self._parents, dtype=np.uint32),
            np.array(self._depths, dtype=np.uint32),
        )


@dataclasses.dataclass(frozen=True, eq=False)
class PathTree:
    """A tree of paths, an entry per node; a node stands behind its parent, and the root is its own."""

    labels: Sequence[str]
    """Each different part of a path once."""
    names: Numbers
    """Place in `labels` of each node."""
    parents: Numbers
    depths: Numbers
    """0 of the root."""

    def sums(self, nodes: Numbers, values: Numbers) -> Numbers:
        """Return the weight of each node, with all below it.

        Args:
            nodes: Where values belong, any number of times each.
            values: i64 or `whole_numbers`, one for each of `nodes`.
        """
        total = np.zeros(len(self.parents), dtype=values.dtype)
        np.add.at(total, nodes, values)
        order = np.argsort(self.depths, kind="stable")
        depths = self.depths[order]
        for depth in range(int(depths[-1]), 0, -1):
            level = order[np.searchsorted(depths, depth) : np.searchsorted(depths, depth, side="right")]
            np.add.at(total, self.parents[level], total[level])
        return total

    def shown(self, weights: Numbers, counts: Numbers, least: int, most: int) -> ShownTree:
        """Return the nodes that are worth a look, the small ones of each parent as one.

        Args:
            weights: By `sums`, none below 0.
            counts: By `sums`, of the same things.
            least: The least weight of a node.
            most: Nodes, about; a tree with more has a larger `least`.
        """
        is_kept = weights >= max(least, 1)
        if int(is_kept.sum()) > most:
            is_kept = weights >= max(np.partition(weights, -most)[-most], 1)
        is_kept[ROOT] = True
        kept = np.flatnonzero(is_kept)
        # Nodes that are not kept, right below a kept one, are one node for each parent.
        rest = np.flatnonzero(~is_kept & is_kept[self.parents] & (weights > 0))
        folded_parents, folded_nodes = np.unique(self.parents[rest], return_counts=True)
        folded = np.zeros((2, len(weights)), dtype=weights.dtype)
        np.add.at(folded[0], self.parents[rest], weights[rest])
        np.add.at(folded[1], self.parents[rest], counts[rest])
        nodes = np.concatenate([kept, np.full(len(folded_parents), FOLDED, dtype=np.int64)])
        above = np.concatenate([self.parents[kept], folded_parents]).astype(np.int64)
        heavy = np.concatenate([weights[kept], folded[0, folded_parents]])
        many = np.concatenate([counts[kept], folded[1, folded_parents]])
        depths = np.concatenate([self.depths[kept], self.depths[folded_parents] + 1])
        together = np.concatenate([np.zeros(len(kept), dtype=np.int64), folded_nodes])
        # Level by level; of one parent the heaviest first, and the folded ones last.
        order = np.lexsort((nodes, -heavy, nodes == FOLDED, above, depths))
        nodes, above, heavy, many = (part[order] for part in (nodes, above, heavy, many))
        places = np.zeros(len(weights), dtype=np.int64)
        is_own = nodes != FOLDED
        places[nodes[is_own]] = np.flatnonzero(is_own)
        return ShownTree(nodes, places[above], heavy, many, depths[order], together[order])


@dataclasses.dataclass(frozen=True, eq=False)
class ShownTree:
    """A part of a tree, an entry per node that is shown; parents stand before their children, the root is first."""

    nodes: Numbers
    """Of the tree; FOLDED for several."""
    parents: Numbers
    """Place of the parent in this part; 0 of the root."""
    weights: Numbers
    counts: Numbers
    depths: Numbers
    folded: Numbers
    """How many nodes one stands for that is FOLDED; 0 of others."""

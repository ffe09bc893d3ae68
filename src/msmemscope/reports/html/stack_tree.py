"""Blocks by call stack, as a tree: flame graphs are drawn from it."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.analysis.weights.path_tree import FOLDED, ROOT, PathTreeBuilder, whole_numbers
from msmemscope.recording.call_sites import STACK_COLUMNS, call_sites
from msmemscope.reports.html.shown_text import shown

if TYPE_CHECKING:
    from msmemscope.recording import Recording

_MOST_STACKS: Final = 20_000
"""Stacks that have a path of their own, the largest; all others are one node."""
_LEAST_SHARE: Final = 1 / 2000
"""The least share of the whole of a node: on a screen, nobody sees a narrower one."""
MOST_NODES: Final = 3000
"""Nodes of a tree; of one with more, larger ones are put together."""
_DEEPEST: Final = 100
"""Frames of a path, the innermost; those that called them are one node."""


@dataclasses.dataclass
class StackTree:
    """A tree in lists, an entry per node; a node stands behind its parent, and the first is the root."""

    names: list[str]
    parents: list[int]
    size_bytes: list[int]
    blocks: list[int]

    def content(self) -> dict[str, Any]:
        """Return it for JSON: nodes without lists in each other, however deep stacks are, and each name once."""
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
        root: The name of the whole.
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
    builder = PathTreeBuilder()
    leaves = [
        builder.add(_frames(path, name))
        for path, name in paths.head(_MOST_STACKS).select("site_path", "name").iter_rows()
    ]
    rest = paths.height - len(leaves)
    if rest > 0:
        leaves += [builder.add([f"({rest} more stacks)"])] * rest
    tree = builder.tree()
    weights, counts = (
        tree.sums(np.array(leaves, dtype=np.int64), whole_numbers(paths[one].to_list())) for one in ("size", "blocks")
    )
    least = math.ceil(weights[ROOT] * _LEAST_SHARE)
    part = tree.shown(weights, counts, least, len(weights))
    while len(part.nodes) > nodes:
        least *= 2
        part = tree.shown(weights, counts, least, len(weights))
    names = [
        f"({folded} smaller)" if node == FOLDED else shown(tree.labels[tree.names[node]])
        for node, folded in zip(part.nodes.tolist(), part.folded.tolist(), strict=True)
    ]
    return StackTree([shown(root), *names[1:]], part.parents.tolist(), part.weights.tolist(), part.counts.tolist())


def _frames(path: str, operator: str | None) -> list[str]:
    """The frames of a path from the outermost on, and the operator."""
    frames = path.split("\n")
    called = [operator.removeprefix("torch._ops.")] if operator and operator != path else []
    if len(frames) > _DEEPEST:
        called_by = f"({len(frames) - _DEEPEST} frames)"
        return [called_by, *reversed(frames[:_DEEPEST]), *called]
    return [*reversed(frames), *called]

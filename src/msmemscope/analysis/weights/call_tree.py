"""The call tree of bytes: the bytes of each call, from the outermost frame on, each pool by itself.

Sums are exact: the bytes of the lines below a line add up to its own. Branches that are too small to be shown are one
line with their number. A call's own allocations, beside those of its callees, are a line, too.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from msmemscope.analysis.coverage import Coverage, coverage_of
from msmemscope.analysis.weights.measures import POOL_KEY, Measure
from msmemscope.analysis.weights.path_tree import ROOT, PathTreeBuilder, whole_numbers
from msmemscope.analysis.weights.ranked_sites import SUBJECT, RankedBy, site_weights, whole_weight
from msmemscope.analysis.weights.weighted_stacks import COLUMN_OF, WEIGHT_SCHEMA, StackFrame, weighted_stacks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from msmemscope.analysis.weights.path_tree import PathTree
    from msmemscope.recording import Recording

ITSELF: Final = "(itself)"
"""Frame of a call's own allocations, where it also calls others that allocate."""
DEFAULT_LEAST_SHARE: Final = 0.01
"""Of the whole that a line must have."""
_LARGEST: Final = (1 << 63) - 1

CALL_SCHEMA: Final = pl.Schema(
    {
        "line": pl.Int64(),
        "parent": pl.Int64(),
        "depth": pl.Int64(),
        "frame": pl.String(),
        "weight": pl.Int64(),
        "share": pl.Float64(),
        "block_count": pl.Int64(),
        "folded": pl.Int64(),
    }
)
"""One row per line of a tree, each below the one that called it, the heaviest first.

line: its number from 0; parent: that of the line that it belongs to, null for the outermost frames.
depth: 1 for the outermost frames.
frame: `file(line): function`, a native frame, an operator or ITSELF; null for branches that are folded.
weight: bytes, or whole byte-seconds. share: of the pool, 0 to 1.
folded: how many branches the line stands for; 0 for a frame.
"""


@dataclasses.dataclass(frozen=True)
class PoolTree:
    """The call tree of one pool of one device."""

    device: int
    pool: int
    weight: int
    block_count: int
    calls: pl.DataFrame
    """CALL_SCHEMA."""


@dataclasses.dataclass(frozen=True)
class CallTree:
    """The call trees of a process."""

    measure: Measure
    pools: tuple[PoolTree, ...]
    """In the order of devices and pools; those without a block that counts are left out."""
    coverage: Coverage


def call_tree(
    recording: Recording,
    measure: Measure = Measure.PEAK,
    *,
    depth: int | None = None,
    least_share: float = DEFAULT_LEAST_SHARE,
    all_frames: bool = False,
) -> CallTree:
    """Make the call tree of each pool.

    Args:
        recording: Any.
        measure: The measure that weighs calls.
        depth: Frames of a path that are shown, the outermost; None for all.
        least_share: Of the pool that a branch must have to be shown, 0 to 1.
        all_frames: Whether frames of PyTorch and of Python's library are shown, too.
    """
    paths = _paths_of_stacks(recording, measure) if all_frames else _paths_of_program(recording, measure)
    builders: dict[tuple[int, int], tuple[PathTreeBuilder, list[tuple[int, int, int]]]] = {}
    for pool, frames, weight, blocks in paths:
        builder, leaves = builders.setdefault(pool, (PathTreeBuilder(), []))
        leaves.append((builder.add(frames), weight, blocks))
    trees = {
        pool: _Tree(builder.tree(), leaves)
        for pool, (builder, leaves) in sorted(builders.items(), key=lambda one: one[0])
    }
    pools = tuple(
        PoolTree(*pool, tree.weights[ROOT], tree.blocks[ROOT], tree.calls(depth, least_share))
        for pool, tree in trees.items()
    )
    return CallTree(measure, pools, coverage_of(SUBJECT, recording))


_Path = tuple[tuple[int, int], "Sequence[str]", int, int]
"""A pool, frames from the outermost on, a weight and a number of blocks."""


def _paths_of_program(recording: Recording, measure: Measure) -> Iterator[_Path]:
    """Paths through the program itself, with the operator at their end."""
    ranked_by = RankedBy(measure.value)
    sums = site_weights(recording, ranked_by).with_columns(whole_weight(ranked_by))
    columns = (*POOL_KEY, "site_path", "operator", "weight", "block_count")
    for device, pool, path, operator, weight, blocks in sums.select(columns).iter_rows():
        frames = path.split("\n")[::-1]
        if operator and operator != path:
            frames.append(operator)
        yield (device, pool), frames, weight, blocks


def _paths_of_stacks(recording: Recording, measure: Measure) -> Iterator[_Path]:
    """Whole stacks, as exports have them."""
    found = weighted_stacks(recording, by_owner=False)
    texts = [tuple(map(_text, stack)) for stack in found.stacks]
    weight = COLUMN_OF[measure]
    blocks = weight.replace("_bytes", "_blocks")
    blocks = blocks if blocks in WEIGHT_SCHEMA and blocks != weight else "allocated_blocks"
    sums = found.of_pools().filter(pl.col(blocks) > 0).select(*POOL_KEY, "stack", weight=weight, blocks=blocks)
    for device, pool, stack, weighed, count in sums.iter_rows():
        yield (device, pool), texts[stack], weighed, count


def _text(frame: StackFrame) -> str:
    if not frame.file:
        return frame.function
    return f"{frame.file}({frame.line}): {frame.function}" if frame.line else f"{frame.file}({frame.function})"


class _Tree:
    """The paths of a pool, which is the root; a leaf is its node, a weight and a number of blocks."""

    def __init__(self, tree: PathTree, leaves: Iterable[tuple[int, int, int]]) -> None:
        self._tree = tree
        nodes, *values = zip(*leaves, strict=True)
        sums = (tree.sums(np.array(nodes, dtype=np.int64), whole_numbers(one)) for one in values)
        self.weights, self.blocks = (one.tolist() for one in sums)
        self._children: dict[int, list[int]] = {}
        for node, parent in enumerate(tree.parents.tolist()):
            if node != ROOT:
                self._children.setdefault(parent, []).append(node)

    def calls(self, depth: int | None, least_share: float) -> pl.DataFrame:
        """Return CALL_SCHEMA; without recursion, because stacks are deeper than Python's may be."""
        whole = self.weights[0]
        least = whole * least_share
        rows: list[tuple[int, int | None, int, str | None, int, float, int, int]] = []
        # The next line to write is last: the line that it belongs to, its depth, and the values of its row.
        waiting: list[tuple[int | None, int, _Branch]] = []

        def put_below(line: int | None, below: int, node: int) -> None:
            branches = self._branches(node)
            shown = [one for one in branches if one.weight >= least] if depth is None or below <= depth else []
            rest = branches[len(shown) :]  # the heaviest are first
            if rest:
                sums = sum(one.weight for one in rest), sum(one.blocks for one in rest)
                waiting.append((line, below, _Branch(None, None, *sums, len(rest))))
            waiting.extend((line, below, one) for one in reversed(shown))

        put_below(None, 1, 0)
        while waiting:
            parent, level, branch = waiting.pop()
            share = branch.weight / whole if whole else 0.0
            line = len(rows)
            # Only sizes of a damaged recording add up to more than a column holds.
            weight = max(-_LARGEST, min(branch.weight, _LARGEST))
            rows.append((line, parent, level, branch.frame, weight, share, branch.blocks, branch.folded))
            if branch.node in self._children:
                put_below(line, level + 1, branch.node)
        return pl.DataFrame(rows, CALL_SCHEMA, orient="row")

    def _branches(self, node: int) -> list[_Branch]:
        """The parts of a node, the heaviest first."""
        labels, names = self._tree.labels, self._tree.names
        branches = [
            _Branch(labels[names[child]], child, self.weights[child], self.blocks[child], 0)
            for child in self._children.get(node, ())
        ]
        own_blocks = self.blocks[node] - sum(one.blocks for one in branches)
        if own_blocks:
            own_weight = self.weights[node] - sum(one.weight for one in branches)
            branches.append(_Branch(ITSELF, None, own_weight, own_blocks, 0))
        return sorted(branches, key=lambda one: (-one.weight, -one.blocks, one.frame or ""))


@dataclasses.dataclass(frozen=True)
class _Branch:
    frame: str | None
    node: int | None
    weight: int
    blocks: int
    folded: int

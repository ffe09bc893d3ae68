"""Blocks by call stack: exact sums, few nodes, whatever the stacks look like."""

from __future__ import annotations

import json

from msmemscope.reports.html.stack_tree import StackTree, stack_tree
from tests.fakes.traces import Trace


def tree_of(trace: Trace) -> StackTree:
    """All blocks of a trace as a tree."""
    recording = trace.recording()
    return stack_tree(recording, recording.blocks, "all")


def rows(tree: StackTree) -> list[tuple[str, str, int, int]]:
    """Parent, name, bytes and blocks of each node."""
    return [
        (tree.names[parent], name, size, blocks)
        for name, parent, size, blocks in zip(tree.names, tree.parents, tree.size_bytes, tree.blocks, strict=True)
    ]


def test_frames_of_the_program_stand_above_what_they_called() -> None:
    """The outermost frame first, the operator last; blocks of one path are one node."""
    trace = Trace()
    for _ in range(2):
        trace.malloc(100, "/app/make.py(3): made\n/app/run.py(1): start", operator="torch._ops.aten.mm")
    trace.malloc(50, "/app/run.py(1): start")
    assert rows(tree_of(trace)) == [
        ("all", "all", 250, 3),
        ("all", "/app/run.py(1): start", 250, 3),
        ("/app/run.py(1): start", "/app/make.py(3): made", 200, 2),
        ("/app/make.py(3): made", "aten.mm", 200, 2),
    ]


def test_nodes_that_cannot_be_seen_are_one_and_counted() -> None:
    """No byte is lost by it."""
    trace = Trace()
    trace.malloc(10_000_000, "/app/run.py(1): start")
    for line in range(30):
        trace.malloc(1, f"/app/small.py({line}): tiny")
    assert rows(tree_of(trace)) == [
        ("all", "all", 10_000_030, 31),
        ("all", "/app/run.py(1): start", 10_000_000, 1),
        ("all", "(30 smaller)", 30, 30),
    ]


def test_deep_stacks_keep_their_inner_frames() -> None:
    """And become JSON without nesting, which has a limit."""
    trace = Trace()
    trace.malloc(10, "\n".join(f"/app/run.py({line}): deeper" for line in range(1, 1001)))
    tree = tree_of(trace)
    assert tree.names[:3] == ["all", "(900 frames)", "/app/run.py(100): deeper"]
    assert tree.names[-1] == "/app/run.py(1): deeper"
    assert set(tree.size_bytes) == {10}
    assert json.loads(json.dumps(tree.content()))["parents"] == [0, *range(len(tree.names) - 1)]


def test_very_many_stacks_make_a_tree_of_bounded_size() -> None:
    """Stacks that are put together still add up."""
    trace = Trace()
    for line in range(5000):
        trace.malloc(1000, f"/app/a{line % 500}.py({line}): f\n/app/b{line % 70}.py(1): g\n/app/c{line}.py(1): h")
    tree = tree_of(trace)
    assert len(tree.names) <= 3000
    assert tree.size_bytes[0] == 5_000_000
    children = [size for size, parent in zip(tree.size_bytes[1:], tree.parents[1:], strict=True) if parent == 0]
    assert sum(children) == 5_000_000

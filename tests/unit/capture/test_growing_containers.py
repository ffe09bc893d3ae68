"""Looks at containers: what has grown is found, nothing is kept or changed, and sizes are near the truth."""

from __future__ import annotations

import array
import gc
import io
import mmap
import sys
import tracemalloc
import weakref
from collections import deque
from time import thread_time_ns
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from msmemscope import _native
from msmemscope.capture.entry_sizes import facts_of_entries, size_of_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIMIT_NS = 10**9


class Node:
    """An object of a program. It has no function: from its globals a look would go on to the whole process."""

    number: int
    text: Any


def new_node(number: int) -> Node:
    """Return an object with two attributes of its own."""
    node = Node()
    node.number = number
    node.text = f"a text of number {number}"
    return node


def linked(count: int) -> list[Node]:
    """Return objects that each refer to the one before."""
    nodes: list[Node] = []
    for number in range(count):
        node = new_node(number)
        node.text = (_strings(number), nodes[-1] if nodes else None)
        nodes.append(node)
    return nodes


@pytest.fixture(autouse=True)
def _begin_anew() -> Iterator[None]:
    _native.forget_containers()
    yield
    _native.forget_containers()


def look(root: dict[str, Any]) -> list[tuple[list[Any], int, int, int]]:
    """One look from the globals of an imagined module."""
    found, _, is_complete = _native.growing_containers([root], 1, deque, LIMIT_NS, 64)
    assert is_complete
    return list(found)


def test_a_look_ends_in_the_middle_of_a_long_list() -> None:
    """Its time is over there, or it has met as many objects as it may."""
    root = {"records": [[number] for number in range(1_000_000)]}

    def looked(limit_ns: int) -> tuple[int, bool]:
        begin = thread_time_ns()
        _, _, is_complete = _native.growing_containers([root], 1, deque, limit_ns, 64)
        return thread_time_ns() - begin, is_complete

    whole, is_complete = looked(10 * LIMIT_NS)
    assert not is_complete
    begun, is_complete = min(looked(LIMIT_NS // 1000) for _ in range(5))
    assert not is_complete
    assert begun < whole / 4


@pytest.mark.parametrize("kind", [list, set, deque, dict])
def test_what_grows_from_look_to_look_is_found(kind: type[Any]) -> None:
    """At the third look, with its path and the entries of the first; not where it stands still."""
    inner: Any = kind()
    root = {"server": [inner], "fixed": list(range(1000))}

    def grow(first: int, last: int) -> None:
        entries = range(first, last)
        if kind is dict:
            inner.update(dict.fromkeys(entries))
        elif kind is set:
            inner.update(entries)
        else:
            inner.extend(entries)

    grow(0, 100)
    assert look(root) == []
    grow(100, 200)
    assert look(root) == []
    grow(200, 300)
    ((path, entries, first_entries, _),) = look(root)
    assert path[0] is root
    assert path[-1] is inner
    assert (entries, first_entries) == (300, 100)
    del path
    assert look(root) == []


def test_few_large_entries_count_where_a_variable_of_the_program_keeps_them() -> None:
    """Checkpoints, for example. A dictionary of a library with as few entries is none."""
    checkpoints = [bytes(number) for number in range(6)]
    settings = {number: number for number in range(6)}
    roots = [{"trainer": {"checkpoints": checkpoints}}, {"library": [settings]}]
    for more in range(1, 3):
        assert _native.growing_containers(roots, 1, deque, LIMIT_NS, 64)[0] == []
        checkpoints.extend(bytes(number) for number in range(2))
        settings.update({10 * more + number: number for number in range(2)})
    ((path, entries, first_entries, _),) = _native.growing_containers(roots, 1, deque, LIMIT_NS, 64)[0]
    assert path[-1] is checkpoints
    assert (entries, first_entries) == (10, 6)


def test_what_shrinks_begins_anew() -> None:
    """A list that is cleared now and then is never found."""
    kept: list[int] = []
    root = {"kept": kept}
    for turn in range(12):
        kept.extend(range(200))
        if turn % 2:
            kept.clear()
            kept.extend(range(50))
        assert look(root) == []


def test_objects_of_a_class_are_counted() -> None:
    """Where no container has them: each refers to the next."""
    root: dict[str, Any] = {"head": None}
    for _ in range(3):
        for number in range(100):
            node = new_node(number)
            node.text, root["head"] = root["head"], node
        found = look(root)
    ((path, entries, first_entries, _),) = found
    assert type(path[-1]) is Node
    assert (entries, first_entries) == (300, 100)


def test_nothing_is_kept_and_nothing_changed() -> None:
    """Objects die when their last reference goes, and have as many references as before."""
    nodes = [new_node(number) for number in range(100)]
    root = {"nodes": nodes}
    counts = [sys.getrefcount(node) for node in nodes]
    was_enabled = gc.isenabled()
    look(root)
    assert [sys.getrefcount(node) for node in nodes] == counts
    assert gc.isenabled() == was_enabled
    one = weakref.ref(nodes[50])
    nodes.clear()
    assert one() is None


def _strings(number: int) -> str:
    return str(number).zfill(500)


@pytest.mark.parametrize(
    "make",
    [
        lambda: [_strings(number) for number in range(2000)],
        lambda: {number + 10**6: [float(number + place) for place in range(100)] for number in range(2000)},
        lambda: deque(bytes(300 + number % 7) for number in range(2000)),
        lambda: {f"text {number}" for number in range(5000)},
        lambda: [np.full(1000, number) for number in range(500)],
        lambda: [new_node(number) for number in range(3000)],
        lambda: [(number + 10**6, {"answer": _strings(number)}) for number in range(2000)],
        lambda: linked(2000),
        lambda: [[[float(number + place) for place in range(50)] for _ in range(4)] for number in range(300)],
    ],
    ids=[
        "strings",
        "lists by number",
        "bytes",
        "set",
        "arrays",
        "objects",
        "tuples with dictionaries",
        "linked",
        "nested",
    ],
)
def test_sizes_are_near_what_was_allocated(make: Callable[[], Any]) -> None:
    """The truth is the blocks that tracemalloc knows, each a multiple of 16 bytes."""
    make()
    gc.collect()
    tracemalloc.start()
    try:
        kept = make()
        blocks = [trace.size for trace in tracemalloc.take_snapshot().traces]
    finally:
        tracemalloc.stop()
    truth = sum(-(-size // 16) * 16 for size in blocks)
    assert facts_of_entries(kept).total_bytes == pytest.approx(truth, rel=0.1)


def test_objects_of_a_class_count_by_themselves() -> None:
    """The size of one of a chain is not that of those behind it: it stands for each of them."""
    last = linked(100)[-1]
    assert size_of_object(last) == pytest.approx(sys.getsizeof(_strings(0)), rel=0.5)


def test_files_in_memory_and_arrays_count_with_what_they_have() -> None:
    """The garbage collector does not know of it."""
    files = [io.BytesIO(bytearray(100_000 + number)) for number in range(20)]
    for file in files:
        file.seek(0, io.SEEK_END)
        file.write(bytes(100_000))
    assert facts_of_entries(files).total_bytes == pytest.approx(20 * 200_000, rel=0.2)
    numbers = [array.array("d", range(10_000)) for _ in range(20)]
    assert facts_of_entries(numbers).total_bytes == pytest.approx(20 * 80_000, rel=0.02)


def test_mapped_memory_counts_as_its_owner_s() -> None:
    """Once, though views refer to it as well; a closed mapping has none."""
    kept = [mmap.mmap(-1, 1 << 16) for _ in range(50)]
    with_views = [(one, memoryview(one)) for one in kept]
    kept.clear()
    assert facts_of_entries(with_views).total_bytes == pytest.approx(50 << 16, rel=0.01)
    for mapping, view in with_views:
        view.release()
        mapping.close()
    assert facts_of_entries(with_views).total_bytes < 1 << 16


def test_views_keep_their_whole_array() -> None:
    """One of them alone, and several together, whichever entries they are in."""
    arrays = [np.zeros(40_000) for _ in range(20)]
    pairs = [(array[:10], array[-10:]) for array in arrays]
    arrays.clear()
    assert facts_of_entries(pairs).total_bytes == pytest.approx(20 * 320_000, rel=0.02)
    firsts = [first for first, _ in pairs]
    pairs.clear()
    assert facts_of_entries(firsts).total_bytes == pytest.approx(20 * 320_000, rel=0.02)


class _Reply:
    """Refers to its text in two ways."""

    def __init__(self, number: int) -> None:
        self.body = f"{number:08d}" * 12_500
        self.parsed = {"raw": self.body}


def test_an_object_that_an_entry_has_twice_counts_once() -> None:
    """As a task has what its context and its coroutine have."""
    assert facts_of_entries([_Reply(number) for number in range(20)]).total_bytes == pytest.approx(2_000_000, rel=0.02)


def test_what_others_have_too_counts_nothing() -> None:
    """A text that all entries share would stay without the container."""
    text = _strings(1)
    kept = [text] * 5000
    assert facts_of_entries(kept).total_bytes < 2 * sys.getsizeof(kept)

"""How many entries a container takes, where the program says so; and what only looks like it."""

from __future__ import annotations

import collections
import functools
import queue
from typing import Any

import pytest

from msmemscope.capture.bounds import bound_of, bound_of_cache
from msmemscope.capture.reference_chains import chain_text


class Buffer:
    """Says how much it takes."""

    def __init__(self, **limits: Any) -> None:
        self.entries: list[Any] = [object(), object()]
        for name, value in limits.items():
            setattr(self, name, value)


class Cache(collections.OrderedDict):  # type: ignore[type-arg]
    """Says so by an attribute of its class."""

    capacity = 16


class Layer:
    """Like a module of torch."""

    def __init__(self) -> None:
        self._parameters: dict[str, Any] = {}
        self.capacity = 8
        self.seen: list[Any] = [object()]


def in_owner(owner: Any, container: Any) -> tuple[int, int] | None:
    """The bound of a container, reached through the attributes of its owner, and through the owner itself."""
    found = bound_of([{}, owner, vars(owner), container, object()], 3, {})
    assert bound_of([{}, owner, container, object()], 2, {}) == found
    return found


def test_containers_with_a_limit_of_their_own() -> None:
    """A deque with `maxlen`, and a list that was made with all of its places."""
    assert bound_of([{}, collections.deque([1, 2], maxlen=9), 1], 1, {}) == (2, 9)
    assert bound_of([{}, collections.deque([1, 2]), 1], 1, {}) is None
    assert bound_of([{}, [1, 2, None, None, None], 1], 1, {}) == (2, 5)


@pytest.mark.parametrize(
    "values", [[1, 2, 3], [1, None], [1, None, 2, None, None], [None, None, None], [None, 1, None, None]], ids=str
)
def test_lists_with_results_that_are_missing(values: list[Any]) -> None:
    """None among results is no empty place, nor is one at the end."""
    assert bound_of([{}, values, 1], 1, {}) is None


@pytest.mark.parametrize(
    "name", ["capacity", "maxsize", "max_size", "_maxsize", "buffer_size", "max_entries", "cache_size"]
)
def test_owners_that_say_how_much_they_take(name: str) -> None:
    """By an attribute that is called like a limit."""
    owner = Buffer(**{name: 50})
    assert in_owner(owner, owner.entries) == (2, 50)


@pytest.mark.parametrize(
    "limits", [{"max_length": 50}, {"capacity": 0}, {"capacity": True}, {"capacity": 2.5}, {"size": 9}], ids=str
)
def test_owners_that_say_something_else(limits: dict[str, Any]) -> None:
    """A length of texts, no limit at all, what is no whole number, and how much there is."""
    owner = Buffer(**limits)
    assert in_owner(owner, owner.entries) is None


def test_limits_of_classes_queues_and_caches_of_functions() -> None:
    """Bounds are read of the classes that programs use as they are, and of those that they derive."""
    assert bound_of([{}, Cache(a=1), 1], 1, {}) == (1, 16)
    waiting: queue.Queue[int] = queue.Queue(maxsize=20)
    waiting.put(1)
    assert in_owner(waiting, waiting.queue) == (1, 20)
    cached = functools.lru_cache(maxsize=4)(str)
    cached(1)
    assert bound_of_cache(cached) == (1, 4)
    assert bound_of_cache(functools.lru_cache(maxsize=None)(str)) is None


def test_a_layer_keeps_no_entries() -> None:
    """The capacity of an expert is a number of tokens."""
    layer = Layer()
    assert in_owner(layer, layer.seen) is None
    assert bound_of([{}, layer, {"more": 1}, object()], 2, {}) is None


def test_the_chain_says_how_full_it_is() -> None:
    """Behind the index; and an exception that another one came from is called as Python calls it."""
    owner = Buffer(capacity=50)
    names = {id(owner): "main.buffer"}
    assert (
        chain_text([owner, vars(owner), owner.entries, owner.entries[1]], names, {})
        == "main.buffer.entries[1; 2 of at most 50]"
    )
    first, second = ValueError("first"), KeyError("second")
    second.__context__ = first
    assert chain_text([second, first], {id(second): "sys.last_value"}, {}) == "sys.last_value.__context__"


def test_no_code_of_the_program_runs() -> None:
    """Names that a program gives to what is its own, which would say something else, or never return."""

    class Endless(collections.deque):  # type: ignore[type-arg]
        @property
        def maxlen(self) -> int:
            raise KeyboardInterrupt

    class _lru_cache_wrapper:  # noqa: N801 - as functools calls its own
        @classmethod
        def cache_info(cls, _: object) -> None:
            raise KeyboardInterrupt

    assert bound_of([{}, Endless([1, 2], 5), 1], 1, {}) == (2, 5)
    assert bound_of_cache(_lru_cache_wrapper()) is None

"""Looks at the containers of the program: lists, dictionaries, sets and deques that grow from look to look.

Where Python objects add up, the line that made them is often innocent: the fault is that something keeps them. So each
look counts the entries of all containers that variables lead to, and the objects of each class. Those that have grown
at several looks are recorded, with the chain of references to them and an estimate of their bytes.

A look comes at a sample of host memory, at the end of a block or of a step. A quarter of the run's time must have passed since the
one before. All looks together take about a hundredth of the run's time. The last one comes as the process ends, and has
the time of a search for holders. Nothing is kept alive and nothing changed. A look happens between two instructions of
the program, so no allocator is at work.
"""

from __future__ import annotations

import os
from collections import deque
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, NamedTuple

from msmemscope import _native
from msmemscope.capture.bounds import bound_of
from msmemscope.capture.entry_sizes import facts_of_entries, size_of_object
from msmemscope.capture.reference_chains import chain_text
from msmemscope.capture.search_roots import SearchRoots
from msmemscope.model.containers import OBJECTS_OF_CLASS, UP_TO

if TYPE_CHECKING:
    from collections.abc import Callable

_NANOSECONDS_PER_MS = 1_000_000
_NEXT_AFTER = 4
"""The next look comes when one in so many of the time of the run has passed since this one."""
_LEAST_PAUSE_NS = 200_000_000
_CHECK_NS = 1_000_000_000
_SHARE = 500
"""A look has one in so many of the time of the run: all of them together a hundredth, as each is a quarter later."""
_LEAST_TIME_NS = 2_000_000
_MOST_TIME_NS = 100_000_000
_MOST_GROWING = 64
"""Containers, and classes, that a look returns."""
_MOST_NAMED = 32
_MOST_CHAINS = 1024
_LEAST_BYTES = 1 << 15
"""By which a container must have grown for its chain to be looked up. Its entries may have more outside of Python."""
_FAR = 16
"""Times its entries that a bound is no bound: who sets one of ten millions wants none."""
_LEAST_SHARED_BYTES = 1 << 24
"""Of a container that a process has from its parent."""


class ContainerLooks:
    """When to look, in one process.

    Args:
        limit_ms: Asks how long the last look may take; with 0 there are no looks at all.
        is_forked: Whether the process shares memory with the one that forked it.
    """

    def __init__(self, limit_ms: Callable[[], int], *, is_forked: bool = False) -> None:
        self._limit_ms = limit_ms
        self._is_forked = is_forked
        self._follow_up: Callable[[], None] | None = None
        self._check: Callable[[], None] | None = None
        self._begin()

    def follow_up_with(self, search: Callable[[], None]) -> None:
        """Call something behind each look that time has asked for: it may never raise."""
        self._follow_up = search

    def check_every_second(self, check: Callable[[], None]) -> None:
        """Call something about once a second while the program allocates; it may never raise."""
        self._check = check
        self._await()

    def begin_anew(self) -> None:
        """Nothing was looked at yet: a process that is forked has a log of its own."""
        self._is_forked = True
        self._begin()

    def _begin(self) -> None:
        self._began_ns = monotonic_ns()
        self._is_looking = False
        self._has_ended = False
        self._chains: dict[tuple[int, str], str] = {}
        """From a variable of the program to each container that was recorded, by its id and its type."""
        _native.forget_containers()
        self._await_next()

    def step_ended(self) -> None:
        """A step has ended; never raises."""
        if monotonic_ns() >= self._next_ns:
            self.look()

    def look(self) -> None:
        """Look now; never raises."""
        elapsed_ns = monotonic_ns() - self._began_ns
        self._look(max(_LEAST_TIME_NS, min(elapsed_ns // _SHARE, _MOST_TIME_NS)), process_ends=False)
        self._await_next()

    def process_ends(self) -> None:
        """Look for the last time; never raises."""
        if self._has_ended:
            return
        self._has_ended = True
        _native.await_container_look(-1, None)
        self._look(self._limit_ms() * _NANOSECONDS_PER_MS, process_ends=True)

    def _await_next(self) -> None:
        now_ns = monotonic_ns()
        pause_ns = max((now_ns - self._began_ns) // _NEXT_AFTER, _LEAST_PAUSE_NS)
        self._next_ns = now_ns + pause_ns
        self._await()

    def _await(self) -> None:
        pause_ns = max(self._next_ns - monotonic_ns(), 0) if self._limit_ms() > 0 else None
        if self._check is not None:
            pause_ns = _CHECK_NS if pause_ns is None else min(pause_ns, _CHECK_NS)
        if pause_ns is not None and not self._has_ended:
            _native.await_container_look(pause_ns, self._time_has_passed)

    def _time_has_passed(self) -> None:
        if self._has_ended:
            return  # it was asked for before
        if self._limit_ms() > 0 and monotonic_ns() >= self._next_ns:
            self.look()
            if self._follow_up is not None and not _native.is_within_torch():
                self._follow_up()
        else:
            self._await()
        # Between two instructions of Python code that torch has called, torch may hold locks.
        if self._check is not None and not _native.is_within_torch():
            self._check()

    def _look(self, limit_ns: int, *, process_ends: bool) -> None:
        # A step may end on another thread while this one looks.
        if self._is_looking or self._limit_ms() <= 0:
            return
        self._is_looking = True
        try:
            roots = SearchRoots(process_ends=process_ends)
            every = list(roots)
            found, largest, _ = _native.growing_containers(every, roots.of_program, deque, limit_ns, _MOST_GROWING)
            of_program = {id(root) for root in every[: roots.of_program]}
            every.clear()  # a function that returns meanwhile must not keep its variables
            if self._is_forked:
                # It copies what it shares with its parent, even if it only reads. The sequence stands for no look.
                found.extend((path, entries, entries, 0) for path, entries in largest)
            del largest
            _record(found, roots, of_program, self._chains)
        except Exception as error:  # noqa: BLE001 - the program goes on, whatever its objects are like
            _native.note_fact("unobserved.containers", f"{type(error).__name__}: {error}")
        finally:
            self._is_looking = False


class _Grown(NamedTuple):
    """A container, or the objects of a class, at one look."""

    path: list[Any]
    """From a variable of the program to it."""
    type_name: str
    entry_type: str
    total_bytes: int
    entries: int
    first_entries: int
    """At the look that saw it first."""
    first_sequence: int
    """The next event then."""

    @property
    def grown_bytes(self) -> int:
        """The part of its bytes that came since."""
        return self.total_bytes * (self.entries - self.first_entries) // self.entries


def _record(
    found: list[tuple[list[Any], int, int, int]],
    roots: SearchRoots,
    of_program: set[int],
    chains: dict[tuple[int, str], str],
) -> None:
    """Record what has grown by most, in bytes.

    Args:
        found: Paths from a root to each container or object of a class, its entries, those at first, and the event then.
        roots: Of this look.
        of_program: Ids of the roots that are variables of the program.
        chains: As of earlier looks; those of this one are added.
    """
    known = []
    for path, entries, first_entries, first_sequence in found:
        if id(path[-1]) in roots.names and type(path[-1]) is dict:
            continue  # what a module defines: it fills while it is imported
        try:
            type_name, entry_type, size = _facts(path[-1], entries)
        except RuntimeError:
            continue  # another thread is just changing it
        one = _Grown(path, type_name, entry_type, size, entries, first_entries, first_sequence)
        if one.grown_bytes >= _LEAST_BYTES or (one.grown_bytes == 0 and size >= _LEAST_SHARED_BYTES):
            known.append(one)
    found.clear()
    known.sort(key=lambda one: (-one.grown_bytes, -one.total_bytes))
    filled_places: dict[int, int] = {}
    for one in known[:_MOST_NAMED]:
        # One with a bound fills up, and then grows no more: the analysis leaves it out.
        is_class = one.type_name == OBJECTS_OF_CLASS
        bound = None if is_class else bound_of(one.path, len(one.path) - 1, filled_places)
        is_bounded = bound is not None and bound[1] < _FAR * one.entries
        type_name = f"{one.type_name}{UP_TO}{bound[1]}" if bound is not None and is_bounded else one.type_name
        chain = chain_text(one.path, roots.names, filled_places)
        types, counts = (type_name, one.entry_type), (one.entries, one.first_entries, one.first_sequence)
        # The chain of a class leads to any of its objects, another one at each look.
        place = id(type(one.path[-1])) if is_class else id(one.path[-1])
        if id(one.path[0]) in of_program and len(chains) < _MOST_CHAINS:
            chains[place, one.type_name] = chain
        elif not is_class:
            # The function that had it has returned: a thread of a library may have it still.
            chain = chains.get((place, one.type_name), chain)
        _native.note_container(place, chain, *types, *counts, one.total_bytes)


def _facts(last: Any, entries: int) -> tuple[str, str, int]:
    """The type of a container, that of its entries, and their bytes."""
    if issubclass(type(last), (list, dict, set, frozenset, deque)):
        facts = facts_of_entries(last)
        return type(last).__name__, facts.type_name, facts.total_bytes
    return OBJECTS_OF_CLASS, type(last).__name__, size_of_object(last) * entries


_of_process: ContainerLooks | None = None


def begin_in_process(limit_ms: Callable[[], int], *, is_forked: bool = False) -> ContainerLooks:
    """Begin, if that was not done yet.

    Args:
        limit_ms: As `ContainerLooks` takes it.
        is_forked: Likewise.
    """
    global _of_process  # noqa: PLW0603 - there is one per process
    if _of_process is None:
        _of_process = ContainerLooks(limit_ms, is_forked=is_forked)
        os.register_at_fork(after_in_child=_of_process.begin_anew)
    return _of_process

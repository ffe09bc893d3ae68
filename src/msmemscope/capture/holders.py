"""The holders of memory: chains of references to blocks that outlive the step after their own, and to the largest ones.

A search runs at the end of step 4, then of a step twice as far, and so on. It also runs at `stop()` and at the end of
the process. It only runs if more blocks have outlived the step after their own than at the time before. A program
without steps is searched where its containers are looked at, and at its end. That is so only if blocks are left that
its second half allocated.

Each search has a limit of time, and takes as long as a collection of garbage. At the end of the process the limit is
larger: no step waits for it, and none comes later. A program with short steps, or one that
stops collection again and again, spends only a small part of its time on searches. A search keeps nothing alive and
changes nothing: blocks that are found are recorded with their chain.
"""

from __future__ import annotations

import gc
import re
import sys
from time import monotonic_ns, thread_time_ns
from typing import TYPE_CHECKING, Any

from msmemscope import _native
from msmemscope.capture.holder_search import HolderSearch, storage_address_function
from msmemscope.configuration.settings import DEFAULT_HOLDER_TIME_MS
from msmemscope.model.holders import HELD_BY_C

if TYPE_CHECKING:
    from collections.abc import Callable

_FIRST_SEARCH = 4
_WARM_UP_STEPS = 1
_LARGEST = 16
_MOST_OF_A_KIND = 32
"""Blocks that are recorded whose chains differ in numbers only."""
_MOST_AT_FAILURE = 8192
"""Blocks that are looked for where an allocation has failed: what holds them is what could be freed."""
_TIMES_AT_END = 4
"""The limit of the search at the end of the process, in limits of the others."""
_LEAST_REST = 8
"""Blocks that must be left of the second half of a program without steps."""
_PAUSE = 50
"""After a search, the next step or `stop()` that searches comes after so many times what that took."""
_MOST_WHILE_RUNNING_MS = 100
"""The limit of a search in a program without steps: a request may wait for it."""
_SMALL_VIEW = 2
"""Tensors that have less than one in so many of the bytes of a block are worth noting: the rest is of no use."""
_LEAST_UNREACHED = 1 / 16
"""Of the bytes looked for: what no variable leads to that is worth a look at all objects of the process."""
_NUMBERS = re.compile(r"\d+")


class HolderSearches:
    """Decides when to look, of one process.

    Args:
        limit_ms: Asks how long a search may take now; 0 for none at all.
    """

    def __init__(self, limit_ms: Callable[[], int]) -> None:
        self._limit_ms = limit_ms
        self.begin_anew()

    def begin_anew(self) -> None:
        """Nothing has happened yet: a process that is forked has a log and steps of its own."""
        self._is_looking = False
        self._steps = 0
        self._next = _FIRST_SEARCH
        self._after_warm_up = 0
        self._latest_ends = (0, 0)
        self._begin = _native.next_sequence()
        self._outlived = 0
        self._rests_until_ns = 0

    def step_ended(self) -> None:
        """A step has ended; never raises."""
        self._steps += 1
        end = _native.next_sequence()
        if self._steps == _WARM_UP_STEPS:
            self._after_warm_up = end
            # A search while there were no steps is no measure for those at steps, and must not put them off.
            self._outlived = self._rests_until_ns = 0
        self._latest_ends = (self._latest_ends[1], end)
        if self._steps >= self._next and monotonic_ns() >= self._rests_until_ns:
            self._next = 2 * self._steps
            self._look(self._after_warm_up, self._latest_ends[0], least=1)

    def time_has_passed(self) -> None:
        """A while of the run is over; never raises."""
        if self._steps == 0 and not _is_failing() and monotonic_ns() >= self._rests_until_ns:
            self._run_ended(process_ends=False, follows_graphs=False)

    def collection_stops(self) -> None:
        """Collection ends, and may begin again; never raises."""
        if monotonic_ns() >= self._rests_until_ns:
            self._run_ended(process_ends=False)

    def process_ends(self) -> None:
        """The process ends; never raises."""
        self._run_ended(process_ends=True)

    def _run_ended(self, *, process_ends: bool, follows_graphs: bool = True) -> None:
        if self._steps > _WARM_UP_STEPS + 1:
            self._look(self._after_warm_up, self._latest_ends[0], least=1, process_ends=process_ends)
        elif self._steps == 0:
            end = _native.next_sequence()
            middle = self._begin + (end - self._begin) // 2
            self._look(middle, end, least=_LEAST_REST, process_ends=process_ends, follows_graphs=follows_graphs)

    def _look(
        self, after: int, before: int, least: int, *, process_ends: bool = False, follows_graphs: bool = True
    ) -> None:
        """Look for what holds blocks that were allocated between two events, if they have become more."""
        limit_ms = self._limit_ms()
        # Collection may stop on another thread while this one looks.
        if self._is_looking or limit_ms <= 0 or "torch" not in sys.modules:
            return
        self._is_looking = True
        was_enabled = gc.isenabled()
        gc.disable()
        began_ns = thread_time_ns()
        try:
            blocks = _native.recorded_live_blocks()
            outlived = [block for block in blocks if after < block[2] < before]
            size = sum(block[1] for block in outlived)
            if process_ends and self._steps:
                # The blocks left before the first step has ended, and after the last: those of a phase are many.
                outside = [
                    [block for block in blocks if block[2] <= after],
                    [block for block in blocks if block[2] >= before],
                ]
                outlived += [block for phase in outside if len(phase) >= _LEAST_REST for block in phase]
            elif size <= self._outlived:
                return
            if len(outlived) < least:
                return
            self._outlived = size
            blocks.sort(key=lambda block: -block[1])
            limit_ms *= _TIMES_AT_END if process_ends else 1
            if not follows_graphs:
                limit_ms = min(limit_ms, _MOST_WHILE_RUNNING_MS)
            search = HolderSearch(limit_ms, process_ends=process_ends, follows_graphs=follows_graphs)
            _record({block[0]: block for block in (*blocks[:_LARGEST], *outlived)}, search)
        except Exception as error:  # noqa: BLE001 - the program goes on, whatever its objects are like
            _native.note_fact("unobserved.holders", f"{type(error).__name__}: {error}")
        finally:
            self._rests_until_ns = monotonic_ns() + _PAUSE * (thread_time_ns() - began_ns)
            if was_enabled:
                gc.enable()
            self._is_looking = False


def _is_failing() -> bool:
    """Whether a traceback holds what functions that have just ended had: the search at the end knows that."""
    has_failed = getattr(sys, "last_traceback", None) is not None and not hasattr(sys, "ps1")
    return has_failed or sys.exc_info()[0] is not None


def record_holders_at_failure(limit_ms: int) -> None:
    """Look for what holds the largest blocks, before the program gets the exception of an allocation that failed.

    Args:
        limit_ms: Milliseconds of processor time; 0 for no search at all.
    """
    if limit_ms <= 0 or "torch" not in sys.modules:
        return
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        blocks = sorted(_native.recorded_live_blocks(), key=lambda block: -block[1])[:_MOST_AT_FAILURE]
        _record({block[0]: block for block in blocks}, HolderSearch(limit_ms), most_of_a_kind=_MOST_AT_FAILURE)
    finally:
        if was_enabled:
            gc.enable()


def who_holds(target: Any, *, limit_ms: int = DEFAULT_HOLDER_TIME_MS) -> tuple[str, ...]:
    """Find what keeps a tensor's memory alive: chains of references from the variables of the program.

    ::

        for chain in msmemscope.who_holds(tensor):
            print(chain)                    # LossTrainer.history[412], from main.trainer

    A chain begins with a global variable (`module.name`) or a local one (`function.name`) and goes on through attributes,
    indices, closure cells and graphs of autograd. Nothing is changed and nothing kept alive; needs no collection.

    Args:
        target: A tensor, or the address of one's memory. All tensors that share its memory count.
        limit_ms: Milliseconds of processor time after which the search ends with what it has found.

    Returns:
        The chains, different ones only, the shortest first; none if nothing was found, or torch is not imported.

    Raises:
        TypeError: If the target is neither.
    """
    is_address = isinstance(target, int) and not isinstance(target, bool)
    if not is_address and not hasattr(target, "data_ptr"):
        message = f"target must be a tensor or an address, not {type(target).__name__}"
        raise TypeError(message)
    if "torch" not in sys.modules:
        return ()
    address = target if is_address else storage_address_function()(target)
    del target
    found = HolderSearch(limit_ms).chains({address: None} if address else {}, most_paths=_LARGEST)
    # Whether there is such memory, nobody knows here: what nothing of Python refers to may be free.
    return tuple(dict.fromkeys(chain for _, chain in found if chain != HELD_BY_C))


def _record(
    blocks: dict[int, tuple[int, int, int]], search: HolderSearch, most_of_a_kind: int = _MOST_OF_A_KIND
) -> None:
    """Record the chains of some blocks, by their addresses."""
    by_kind: dict[str, list[tuple[int, str]]] = {}
    least_bytes = _LEAST_UNREACHED * sum(block[1] for block in blocks.values())

    def is_worth(missing: set[int]) -> bool:
        return sum(blocks[address][1] for address in missing) > least_bytes

    # The newest first: of many that are alike, those count that the latest steps left.
    found = sorted(search.chains(blocks, most_paths=1, is_worth=is_worth), key=lambda one: -blocks[one[0]][2])
    for address, chain in found:
        alike = by_kind.setdefault(_NUMBERS.sub("#", chain), [])
        if len(alike) < most_of_a_kind:
            alike.append((address, chain))
    for alike in by_kind.values():
        for address, chain in alike:
            viewed = search.viewed_bytes.get(address, 0)
            _native.note_holder(address, chain, viewed if viewed * _SMALL_VIEW < blocks[address][1] else 0)

"""Who holds it: for blocks that outlive the step after their own, and the largest ones, the chain of references to them.

Looked for at the end of step 4, of one twice as far and so on, at `stop()` and at the end of the process, and only where more
blocks have outlived the step after their own than at the time before; in a program without steps, at its end only, and where
blocks are left that its second half allocated. Each search has a limit of time, and takes as long as a collection of garbage; a
program of short steps, or one that stops collection again and again, spends a small part of its time on them. A search keeps nothing alive and changes nothing:
blocks that are found are recorded with their chain.
"""

from __future__ import annotations

import gc
import os
import re
import sys
import threading
import types
from time import monotonic_ns, thread_time_ns
from typing import TYPE_CHECKING, Any

from msmemscope import _native
from msmemscope.capture.reference_chains import UNREACHABLE, chain_text
from msmemscope.configuration.settings import DEFAULT_HOLDER_TIME_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

GRAPH = "autograd graph"
"""What a chain ends with where a graph of torch holds the block, and a tensor the graph."""
_NANOSECONDS_PER_MS = 1_000_000
_FIRST_SEARCH = 4
_WARM_UP_STEPS = 1
_LARGEST = 16
_MOST_OF_A_KIND = 32
"""Blocks that are recorded whose chains differ in numbers only."""
_MOST_NODES = 200_000
_LEAST_REST = 8
"""Blocks that must be left of the second half of a program without steps."""
_PAUSE = 50
"""After a search, the next step or `stop()` that searches comes after so many times what that took."""
_NUMBERS = re.compile(r"\d+")
_OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - pathlib is not loaded here


class HolderSearches:
    """Decides when to look, of one process.

    Args:
        limit_ms: Asks how long a search may take now; 0 for none at all.
    """

    def __init__(self, limit_ms: Callable[[], int]) -> None:
        self._limit_ms = limit_ms
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
        self._latest_ends = (self._latest_ends[1], end)
        if self._steps >= self._next and monotonic_ns() >= self._rests_until_ns:
            self._next = 2 * self._steps
            self._look(self._after_warm_up, self._latest_ends[0], least=1)

    def collection_stops(self) -> None:
        """Collection ends, and may begin again; never raises."""
        if monotonic_ns() >= self._rests_until_ns:
            self._run_ended(process_ends=False)

    def process_ends(self) -> None:
        """The process ends; never raises."""
        self._run_ended(process_ends=True)

    def _run_ended(self, *, process_ends: bool) -> None:
        if self._steps > _WARM_UP_STEPS + 1:
            self._look(self._after_warm_up, self._latest_ends[0], least=1, process_ends=process_ends)
        elif self._steps == 0:
            end = _native.next_sequence()
            middle = self._begin + (end - self._begin) // 2
            self._look(middle, end, least=_LEAST_REST, process_ends=process_ends)

    def _look(self, after: int, before: int, least: int, *, process_ends: bool = False) -> None:
        """Look for what holds blocks that were allocated between two events, if they have become more."""
        limit_ms = self._limit_ms()
        if limit_ms <= 0 or "torch" not in sys.modules:
            return
        was_enabled = gc.isenabled()
        gc.disable()
        began_ns = thread_time_ns()
        try:
            blocks = _native.recorded_live_blocks()
            outlived = [block for block in blocks if after < block[2] < before]
            size = sum(block[1] for block in outlived)
            if len(outlived) < least or size <= self._outlived:
                return
            self._outlived = size
            blocks.sort(key=lambda block: -block[1])
            search = _Search(limit_ms, process_ends=process_ends)
            _record({block[0]: block for block in (*blocks[:_LARGEST], *outlived)}, search)
        except Exception as error:  # noqa: BLE001 - the program goes on, whatever its objects are like
            _native.note_fact("unobserved.holders", f"{type(error).__name__}: {error}")
        finally:
            self._rests_until_ns = monotonic_ns() + _PAUSE * (thread_time_ns() - began_ns)
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
    address = target if is_address else _storage_address()(target)
    del target
    found = _Search(limit_ms).chains({address: None} if address else {}, most_paths=_LARGEST)
    return tuple(dict.fromkeys(chain for _, chain in found))


def _record(blocks: dict[int, tuple[int, int, int]], search: _Search) -> None:
    """Record the chains of some blocks, by their addresses."""
    by_kind: dict[str, list[tuple[int, str]]] = {}
    # The newest first: of many that are alike, those count that the latest steps left.
    found = sorted(search.chains(blocks, most_paths=1), key=lambda one: -blocks[one[0]][2])
    for address, chain in found:
        alike = by_kind.setdefault(_NUMBERS.sub("#", chain), [])
        if len(alike) < _MOST_OF_A_KIND:
            alike.append((address, chain))
    for alike in by_kind.values():
        for address, chain in alike:
            _native.note_holder(address, chain)


class _Search:
    """One search, with its limit of time.

    Args:
        limit_ms: Milliseconds of processor time.
        process_ends: Whether an error that nobody caught has ended the functions whose variables the traceback keeps: they
            are looked at as if the functions still ran. In a program that goes on, the traceback is what holds them.
    """

    def __init__(self, limit_ms: int, *, process_ends: bool = False) -> None:
        self._until = thread_time_ns() + limit_ms * _NANOSECONDS_PER_MS
        self._process_ends = process_ends
        self._module_names: dict[int, str] = {}

    def chains(self, wanted: dict[int, Any], *, most_paths: int) -> list[tuple[int, str]]:
        """Find chains to blocks.

        Args:
            wanted: Addresses, as keys.
            most_paths: Chains to one tensor.

        Returns:
            Address and chain; several of one block only if they differ.
        """
        address_of = _storage_address()
        paths, tensors = self._references(wanted, set(), [], most_paths)
        found = [(address_of(path[-1]), chain_text(path, self._module_names)) for path in paths]
        del paths
        missing = wanted.keys() - {address for address, _ in found}
        if missing:
            by_graph = self._graphs(tensors, missing)
            del tensors
            holders = {id(tensor): addresses for tensor, addresses in by_graph}
            for path in self._references({}, set(holders), [], 1)[0] if holders else ():
                chain = f"{chain_text(path, self._module_names)} -> {GRAPH}"
                found.extend((address, chain) for address in holders[id(path[-1])])
                missing -= holders[id(path[-1])]
                del path
            del by_graph
        else:
            del tensors
        if missing and self._left_ns() > 0:
            paths = self._references(dict.fromkeys(missing), set(), gc.get_objects(), 1)[0]
            found.extend(
                (address_of(path[-1]), f"{chain_text(path, self._module_names)}: {UNREACHABLE}") for path in paths
            )
        return list(dict.fromkeys(found))

    def _left_ns(self) -> int:
        return max(self._until - thread_time_ns(), 0)

    def _references(
        self, addresses: dict[int, Any], objects: set[int], rest: list[Any], most_paths: int
    ) -> tuple[list[list[Any]], list[Any]]:
        tensor = sys.modules["torch"].Tensor
        roots = list(self._roots())
        limit = self._left_ns()
        paths, tensors, _, _ = _native.find_references(
            roots, tensor, _storage_address(), addresses, objects, rest, limit, most_paths
        )
        return paths, tensors

    def _roots(self) -> Iterator[Any]:
        """Globals of the program, local variables of its threads from the outermost frame on, globals of other modules."""
        imported: list[Any] = list(sys.modules.values())
        modules = [module for module in imported if issubclass(type(module), types.ModuleType)]
        for module in reversed(modules):
            self._module_names[id(vars(module))] = module.__name__
        main = sys.modules.get("__main__")
        if main is not None:
            self._module_names[id(vars(main))] = "__main__"
            yield vars(main)
        frames = sys._current_frames()  # noqa: SLF001 - the only way to see the other threads
        threads = [threading.main_thread().ident, threading.get_ident(), *frames]
        chains = [list(_frames_from(frames.get(thread or 0))) for thread in dict.fromkeys(threads)]
        # One of them is the frame that stands here. Frames that refer to themselves would be kept until the next garbage
        # collection, with those that they were called from, and what these held when they ended.
        frames.clear()
        for chain in chains:
            yield from reversed(chain)
        if self._process_ends:
            yield from _frames_that_failed()
        for module in modules:
            if module is not main:
                yield vars(module)

    def _graphs(self, tensors: Iterable[Any], missing: set[int]) -> list[tuple[Any, set[int]]]:
        """Tensors whose graphs of autograd have saved one of the blocks that no tensor of Python lies in."""
        torch = sys.modules["torch"]
        address_of = _storage_address()
        left = set(missing)
        seen: dict[int, Any] = {}  # keeps the nodes while this runs: their ids are theirs alone so long
        found = []
        for tensor in tensors:
            node = tensor.grad_fn if type(tensor) is torch.Tensor else None
            if node is None:
                continue
            mine = set()
            pending = [node]
            while pending and left and len(seen) < _MOST_NODES and self._left_ns():
                node = pending.pop()
                if id(node) in seen:
                    continue
                seen[id(node)] = node
                mine |= {address_of(saved) for saved in _saved_by(node, torch.Tensor)} & left
                pending.extend(after for after, _ in node.next_functions if after is not None)
            if mine:
                left -= mine
                found.append((tensor, mine))
            if not left or not self._left_ns():
                break
        return found


def _saved_by(node: Any, kind: type[Any]) -> Iterator[Any]:
    """The tensors that a node has saved, as they are: no hook of the program that would make them anew is called."""
    for name in dir(type(node)):
        if not name.startswith("_raw_saved_"):
            continue
        try:
            saved = getattr(node, name)
        except RuntimeError:
            continue  # a backward has run, and let go of it
        for one in saved if isinstance(saved, (tuple, list)) else (saved,):
            data = getattr(one, "data", None)
            if issubclass(type(data), kind):
                yield data


def _frames_from(frame: types.FrameType | None) -> Iterator[types.FrameType]:
    """Frames of the program, the innermost first."""
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_OWN_FOLDER):
            yield frame
        frame = frame.f_back


def _frames_that_failed() -> Iterator[types.FrameType]:
    """Frames of the program in the traceback of an error that nobody caught, the outermost first."""
    traceback = getattr(sys, "last_traceback", None)
    while type(traceback) is types.TracebackType:  # isinstance() would ask the program's objects for their class
        if not traceback.tb_frame.f_code.co_filename.startswith(_OWN_FOLDER):
            yield traceback.tb_frame
        traceback = traceback.tb_next


def _storage_address() -> Any:
    private = sys.modules["torch"]._C  # noqa: SLF001 - see labels._storage_address
    return getattr(private, "_data_address", None) or sys.modules["torch"].Tensor.data_ptr

"""One search for the holders of blocks, from variables of the program to tensors.

It follows references, graphs and gradients. If two holders lead to a block, the first is named, in the order of
`search_roots`.
"""

from __future__ import annotations

import gc
import sys
from time import thread_time_ns
from typing import TYPE_CHECKING, Any

from msmemscope import _native
from msmemscope.capture.reference_chains import chain_text, cycle_text, with_end
from msmemscope.capture.search_roots import SearchRoots
from msmemscope.model.holders import AUTOGRAD_GRAPH, HELD_BY_C, IN_CYCLE, OF_ITSELF

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_NANOSECONDS_PER_MS = 1_000_000
_MOST_NODES = 200_000
_BETWEEN_LOOKS_AT_CLOCK = 1024
_GRADIENT = ".grad"
_LEAST_CYCLE = 2
_SHARE_OF_WALK = 0.75
"""Of the limit, for the walk along references. The rest is for graphs, also where the walk did not come to its end."""
_SHARE_OF_NAMES = 2
"""One in so many of the limit is added for the names of what was found: an index of a list of millions takes long."""


class HolderSearch:
    """One search, with its limit of time.

    Args:
        limit_ms: Milliseconds of processor time.
        process_ends: As `SearchRoots` takes it.
        follows_graphs: Whether to look into graphs of autograd. Each node has a lock, which a backward pass holds while
            it calls Python code: nobody may wait for it between any two instructions.
    """

    def __init__(self, limit_ms: int, *, process_ends: bool = False, follows_graphs: bool = True) -> None:
        limit_ns = limit_ms * _NANOSECONDS_PER_MS
        self._until = thread_time_ns() + limit_ns
        self._named_until = self._until + limit_ns // _SHARE_OF_NAMES
        self._roots = SearchRoots(process_ends=process_ends)
        self._follows_graphs = follows_graphs
        self._filled_places: dict[int, int] = {}
        self._tensor = sys.modules["torch"].Tensor
        self._address_of = storage_address_function()
        self._memory_kinds = [(self._tensor, self._address_of)]
        self._reference_kinds = _array_bases()
        self._late_kinds = _optimizers()
        self.viewed_bytes: dict[int, int] = {}
        """After `chains`: the bytes that all tensors of variables have of a block, by its address. Blocks that a graph may
        need are left out.
        """

    def chains(
        self, wanted: dict[int, Any], *, most_paths: int, is_worth: Callable[[set[int]], bool] = bool
    ) -> list[tuple[int, str]]:
        """Find chains to blocks.

        Args:
            wanted: Addresses, as keys.
            most_paths: Chains to one tensor.
            is_worth: Whether the addresses that no variable leads to are worth a look at all objects.

        Returns:
            Address and chain; several of one block only if they differ.
        """
        roots = list(self._roots)
        paths, tensors, tree, is_complete = _native.find_references(
            roots,
            self._memory_kinds,
            self._reference_kinds,
            self._late_kinds,
            wanted,
            int(self._left_ns() * _SHARE_OF_WALK),
            most_paths,
        )
        named = [(self._address_of(path[-1]), self._text(path)) for path in paths]
        del paths
        missing = wanted.keys() - {address for address, _ in named}
        found = [(address, text) for address, text in named if text]
        if missing and self._follows_graphs:
            behind = self._behind(tensors, missing)
            for path in _native.paths_to(tree, set(behind)):
                reached = behind[id(path[-1])]
                if text := self._text(path):
                    found.extend((address, with_end(text, suffix)) for address, suffix in reached.items())
                missing -= reached.keys()
                del path
        if self._follows_graphs and is_worth(missing) and is_complete and self._left_ns() > 0:
            found.extend(self._in_cycles(roots, missing, {id(tensor) for tensor in tensors}))
        if is_complete:
            self._add_up_views(tensors, wanted)
        del tensors, tree, roots
        return list(dict.fromkeys(found))

    def _add_up_views(self, tensors: list[Any], wanted: dict[int, Any]) -> None:
        torch = sys.modules["torch"]
        viewed = dict.fromkeys(wanted, 0)
        for place, tensor in enumerate(tensors):
            if place % _BETWEEN_LOOKS_AT_CLOCK == 0 and not self._left_ns():
                return
            address = self._address_of(tensor)
            if address not in viewed:
                continue
            is_plain = type(tensor) in {self._tensor, torch.nn.Parameter} and tensor.layout is torch.strided
            if is_plain and not tensor.requires_grad:
                viewed[address] += tensor.numel() * tensor.element_size()
            else:
                del viewed[address]
        self.viewed_bytes = {address: size for address, size in viewed.items() if size}

    def _in_cycles(self, roots: list[Any], missing: set[int], reached: set[int]) -> Iterator[tuple[int, str]]:
        """Blocks that wait for the garbage collector, and those that nothing of Python refers to."""
        everything = gc.get_objects()
        kinds = _with_subclasses(self._tensor)
        unreached = [one for one in everything if type(one) in kinds and id(one) not in reached]
        behind = self._behind(unreached, missing)
        del unreached
        found, is_complete = _native.find_cycles(
            roots,
            self._memory_kinds,
            self._reference_kinds,
            self._late_kinds,
            dict.fromkeys(missing),
            set(behind),
            everything,
            self._left_ns(),
        )
        del everything
        for path, cycle in found:
            # The dictionary of an object's attributes says less than the object.
            if type(path[0]) is dict and len(cycle) > _LEAST_CYCLE:
                path.insert(0, cycle[-2])
            address = self._address_of(path[-1])
            held = behind.get(id(path[-1]), {}) | ({address: ""} if address in missing else {})
            if text := self._text(path):
                behind_it = f"{IN_CYCLE}{cycle_text(cycle)}"
                yield from ((one, f"{with_end(text, suffix)}{behind_it}") for one, suffix in held.items())
            missing -= held.keys()
        del found
        if is_complete and missing:
            found_in_graphs = self._in_own_graphs(gc.get_objects(), missing, reached)
            is_complete = self._left_ns() > 0
            missing -= found_in_graphs.keys()
            yield from found_in_graphs.items()
        if is_complete:
            yield from ((address, HELD_BY_C) for address in missing)

    def _in_own_graphs(self, everything: list[Any], missing: set[int], reached: set[int]) -> dict[int, str]:
        """Blocks of tensors whose graph refers to them. The garbage collector does not see these references.

        There are two kinds. A function of the program keeps its result in an attribute of its context. A gradient has a
        graph because of create_graph=True.
        """
        torch = sys.modules["torch"]
        nodes = torch._C._FunctionBase  # noqa: SLF001 - no public name
        kinds, plain = _with_subclasses(self._tensor), (self._tensor, torch.nn.Parameter)
        found: dict[int, str] = {}
        for place, one in enumerate(everything):
            if place % _BETWEEN_LOOKS_AT_CLOCK == 0 and not self._left_ns():
                break
            kind = type(one)
            if issubclass(kind, nodes) and not issubclass(kind, type):
                for name, value in list(vars(one).items()):
                    held = value if type(value) in {list, tuple} else (value,)
                    for tensor in held:
                        if type(tensor) in kinds and (address := self._address_of(tensor)) in missing:
                            found[address] = f"{kind.__name__}.{name}{OF_ITSELF}"
            elif kind in plain and id(one) not in reached and one.is_leaf:
                gradient = one.grad
                if gradient is not None and gradient.grad_fn is not None:
                    for tensor, name in ((one, "tensor with a gradient"), (gradient, "gradient")):
                        if (address := self._address_of(tensor)) in missing:
                            found[address] = f"{name}{OF_ITSELF}: backward(create_graph=True)"
        return found

    def _text(self, path: list[Any]) -> str:
        """The chain of a path; empty where names have taken their time."""
        if thread_time_ns() >= self._named_until:
            return ""
        return chain_text(path, self._roots.names, self._filled_places)

    def _left_ns(self) -> int:
        return max(self._until - thread_time_ns(), 0)

    def _behind(self, tensors: Iterable[Any], missing: set[int]) -> dict[int, dict[int, str]]:
        """Tensors that hold one of the blocks where no reference of Python shows it: as gradient, or in their graph.

        Returns:
            By the id of a tensor, the addresses that it holds, each with the end of its chain.
        """
        torch = sys.modules["torch"]
        left = set(missing)
        seen: dict[int, Any] = {}  # keeps the nodes while this runs: their ids are theirs alone so long
        names_of: dict[type[Any], list[str]] = {}
        plain = (self._tensor, torch.nn.Parameter)
        found: dict[int, dict[int, str]] = {}
        for tensor in tensors:
            if type(tensor) not in plain:
                continue
            if not left or not self._left_ns():
                break
            mine: dict[int, str] = {}
            node = tensor.grad_fn
            if node is None:
                gradient = tensor.grad
                address = 0 if gradient is None else self._address_of(gradient)
                del gradient
                if address in left:
                    mine[address] = _GRADIENT
            pending = [] if node is None else [node]
            while pending and len(seen) < _MOST_NODES and self._left_ns():
                node = pending.pop()
                if id(node) in seen:
                    continue
                seen[id(node)] = node
                for saved in _saved_by(node, self._tensor, names_of):
                    address = self._address_of(saved)
                    if address in left:
                        mine[address] = AUTOGRAD_GRAPH
                pending.extend(after for after, _ in node.next_functions if after is not None)
            if mine:
                left -= mine.keys()
                found[id(tensor)] = mine
        return found


def _saved_by(node: Any, kind: type[Any], names_of: dict[type[Any], list[str]]) -> Iterator[Any]:
    """The tensors that a node has saved, as they are: no hook of the program that would make them anew is called."""
    names = names_of.get(type(node))
    if names is None:
        names = names_of[type(node)] = [name for name in dir(type(node)) if name.startswith("_raw_saved_")]
    for name in names:
        try:
            saved = getattr(node, name)
        except RuntimeError:
            continue  # a backward has run, and let go of it
        for one in saved if isinstance(saved, (tuple, list)) else (saved,):
            data = getattr(one, "data", None)
            if issubclass(type(data), kind):
                yield data
    # A leaf's own node keeps the leaf.
    leaf = getattr(node, "variable", None)
    if issubclass(type(leaf), kind):
        yield leaf


def _array_bases() -> list[tuple[type[Any], Any]]:
    """Return NumPy's type of arrays and its attribute `base`, which the garbage collector does not follow."""
    numpy = sys.modules.get("numpy")
    array: type[Any] | None = getattr(numpy, "ndarray", None)
    base = None if array is None else vars(array).get("base")
    return [] if array is None or base is None else [(array, base)]


def _optimizers() -> tuple[type[Any], ...]:
    """They refer to weights, which are the model's."""
    optimizer = getattr(sys.modules.get("torch.optim"), "Optimizer", None)
    return () if optimizer is None else (optimizer,)


def _with_subclasses(kind: type[Any]) -> set[type[Any]]:
    found, pending = {kind}, [kind]
    while pending:
        for one in type.__subclasses__(pending.pop()):
            if one not in found:
                found.add(one)
                pending.append(one)
    return found


def storage_address_function() -> Any:
    """Return the function of C that says where a tensor's memory begins."""
    private = sys.modules["torch"]._C  # noqa: SLF001 - see labels._storage_address
    return getattr(private, "_data_address", None) or sys.modules["torch"].Tensor.data_ptr

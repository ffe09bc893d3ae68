"""How a program says what its tensors are at a moment.

A moment is an allocation of a size that nothing else has; what is alive then and not named is memory of operators.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from . import DEVICE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from typing_extensions import Self

MOMENT_BYTES = 7 << 20
"""Size of the first moment's allocation; each further one is a page larger."""
PAGE_BYTES = 4096

_moments = 0


def storages(tensors: Iterable[Any]) -> list[int]:
    """Addresses of the storages of tensors on the device, each once."""
    found: dict[int, None] = {}
    for tensor in tensors:
        for each in _with_storage(tensor):
            if each.device.type == DEVICE and each.untyped_storage().nbytes():
                found[each.untyped_storage().data_ptr()] = None
    return list(found)


def _with_storage(tensor: Any) -> list[torch.Tensor]:
    """The tensors that hold what a tensor is made of: itself, but of nested tensors and the like their parts."""
    if not isinstance(tensor, torch.Tensor):
        return []
    if not is_traceable_wrapper_subclass(tensor):
        return [tensor]
    names, _ = tensor.__tensor_flatten__()
    return [part for name in names for part in _with_storage(getattr(tensor, name))]


def moment(name: str, *, marks: bool = True, **owned: Iterable[Any]) -> None:
    """Say what lives at this moment: owner to tensors, or addresses. Of an address under several owners the first counts.

    Args:
        name: Of the moment.
        marks: Whether an allocation marks it; otherwise the first failed allocation does.
        **owned: Owner to its tensors.
    """
    global _moments  # noqa: PLW0603 - one process, one count
    addresses: dict[str, list[int]] = {}
    seen: set[int] = set()
    for owner, things in owned.items():
        tensors = list(things)
        found = [each for each in tensors if isinstance(each, int)] + storages(tensors)
        addresses[owner] = [each for each in found if each not in seen]
        seen.update(found)
    size = 0
    if marks:
        size = MOMENT_BYTES + _moments * PAGE_BYTES
        _moments += 1
    line = json.dumps({"name": name, "size": size, "addresses": addresses})
    sys.stdout.write(f"moment={line}\n")
    sys.stdout.flush()
    if marks:
        torch.empty(size, dtype=torch.uint8, device=DEVICE)


class Noted:
    """Addresses of storages, as long as they live; nothing is kept alive."""

    def __init__(self) -> None:
        self._storages: dict[int, StorageWeakRef] = {}

    def note(self, *tensors: Any) -> None:
        """Take tensors in."""
        for tensor in tensors:
            for part in _with_storage(tensor):
                for address in storages([part]):
                    self._storages[address] = StorageWeakRef(part.untyped_storage())

    def __iter__(self) -> Iterator[int]:
        """Those that live."""
        return iter([address for address, storage in self._storages.items() if not storage.expired()])


class Saved(Noted):
    """The tensors that autograd saves while this is entered, by hooks that change nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._save, lambda tensor: tensor)

    def _save(self, tensor: torch.Tensor) -> torch.Tensor:
        self.note(tensor)
        return tensor

    def __enter__(self) -> Self:
        """Begin."""
        self._hooks.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        """End."""
        self._hooks.__exit__(*error)


def weights_of(*models: torch.nn.Module) -> list[torch.Tensor]:
    """Parameters and buffers."""
    return [tensor for model in models for tensor in (*model.parameters(), *model.buffers())]


def gradients_of(model: torch.nn.Module) -> list[torch.Tensor]:
    """Gradients of parameters."""
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


def states_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Tensors of the state of an optimizer."""
    return [value for state in optimizer.state.values() for value in state.values() if isinstance(value, torch.Tensor)]


def parts_of(model: torch.nn.Module, optimizer: torch.optim.Optimizer | None = None) -> dict[str, Any]:
    """The known parts of a model, for `moment`."""
    states = states_of(optimizer) if optimizer is not None else []
    return {"weight": weights_of(model), "gradient": gradients_of(model), "optimizer_state": states}


def saved_by_graph(result: torch.Tensor) -> list[torch.Tensor]:
    """The tensors that the graph of a result has saved, read from its nodes."""
    found: list[torch.Tensor] = []
    remaining, seen = [result.grad_fn], set()
    while remaining:
        node = remaining.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        names = [name for name in dir(node) if name.startswith("_saved_")]
        values = [getattr(node, name) for name in names]
        values += [*getattr(node, "saved_tensors", ()), *getattr(node, "_tensors_no_vc_check", ())]
        found += [value for value in values if isinstance(value, torch.Tensor)]
        remaining += [following for following, _ in node.next_functions]
    return found

"""Weights, gradients and optimizer state, labelled after each step of an optimizer, and what modules hold.

An optimizer knows its parameters, their gradients, and the tensors of its state; modules know parameters that no optimizer
has. Each block is labelled once, because the native core remembers the label.

Optimizers that are not torch's may keep state in attributes of their own, and take the gradients of parameters away: their
attributes are looked through as `state` is, and gradients are labelled before a step too.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from msmemscope import _native
from msmemscope.capture.import_hook import when_imported
from msmemscope.capture.labels import storage_addresses
from msmemscope.capture.module_labels import GRADIENT_TEXT, WEIGHT_TEXT, label_storages, module_labels, tensors_in
from msmemscope.model.labels import MODEL_OPTIMIZER_STATE, LabelLevel, encode_labels

if TYPE_CHECKING:
    from collections.abc import Iterator

_STATE_TEXT: Final = encode_labels([(MODEL_OPTIMIZER_STATE, LabelLevel.DETAIL_1)])


class OptimizerLabels:
    """Labels what optimizers of torch work on while it is on."""

    def __init__(self) -> None:
        self._is_wanted = False
        self._is_waiting = False
        self._hooks: list[Any] = []

    def enable_with_torch(self) -> None:
        """Begin now if the program has torch already, else as soon as it imports it."""
        self._is_wanted = True
        if hasattr(sys.modules.get("torch"), "__version__"):
            self._enable()
            if module_labels.is_on:
                module_labels.find_all()
        elif not self._is_waiting:
            self._is_waiting = True
            when_imported("torch", self._enable)

    def look(self) -> None:
        """Label what modules hold now, if that costs little beside the time since it was done last."""
        module_labels.look_if_due()

    def disable(self) -> None:
        """Label no more."""
        self._is_wanted = False
        while self._hooks:
            self._hooks.pop().remove()
        module_labels.disable()

    def _enable(self) -> None:
        """Never raises: it may run in the middle of the program's imports."""
        self._is_waiting = False
        if not self._is_wanted or self._hooks:
            return
        try:
            from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

            self._hooks.append(register_optimizer_step_pre_hook(_label_before_step))
            self._hooks.append(register_optimizer_step_post_hook(_label_after_step))
        except Exception as error:  # noqa: BLE001 - the program goes on, whatever this torch is like
            _native.warn(
                f"weights, gradients and optimizer state are not distinguished: {type(error).__name__}: {error}"
            )
            _native.note_fact("unobserved.optimizer", str(error))
        try:
            module_labels.enable()
        except Exception as error:  # noqa: BLE001 - as above
            _native.note_fact("unobserved.modules", f"{type(error).__name__}: {error}")


_has_failed = False


def _label_before_step(optimizer: Any, _args: Any, _kwargs: Any) -> None:
    try:
        if not _is_of_torch(optimizer):
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        label_storages(parameter.grad, GRADIENT_TEXT)
    except Exception as error:  # noqa: BLE001 - the program goes on
        _warn_once(optimizer, error)


def _label_after_step(optimizer: Any, _args: Any, _kwargs: Any) -> None:
    try:
        module_labels.look_if_due()
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                label_storages(parameter, module_labels.text_of(parameter))
                if parameter.grad is not None:
                    label_storages(parameter.grad, GRADIENT_TEXT)
        for state in optimizer.state.values():
            for tensor in tensors_in(state):
                label_storages(tensor, _STATE_TEXT)
        if not _is_of_torch(optimizer):
            _label_attributes(optimizer)
    except Exception as error:  # noqa: BLE001 - the step of the program was done, and must be seen as done
        _warn_once(optimizer, error)


def _is_of_torch(optimizer: Any) -> bool:
    return type(optimizer).__module__.startswith("torch.")


def _warn_once(optimizer: Any, error: Exception) -> None:
    global _has_failed  # noqa: PLW0603 - one line says it for all optimizers
    if not _has_failed:
        _has_failed = True
        _native.warn(
            f"an optimizer's memory is not distinguished ({type(optimizer).__name__}): {type(error).__name__}: {error}"
        )


_KNOWN_ATTRIBUTES: Final = frozenset({"state", "param_groups", "defaults", "step", "profile_hook_step"})
_DEEPEST: Final = 6
_MOST_HELD: Final = 20_000
"""Objects of an optimizer that are looked at."""
_PLAIN: Final = (str, bytes, int, float, bool, type(None), type)


def _label_attributes(optimizer: Any) -> None:
    """Label tensors that an optimizer has outside of its `state`, in attributes of the program's class."""
    tensor_class, parameter_class = sys.modules["torch"].Tensor, sys.modules["torch"].nn.Parameter
    own = [value for name, value in vars(optimizer).items() if name not in _KNOWN_ATTRIBUTES and name[-6:] != "_hooks"]
    found: list[Any] = []
    others: list[Any] = [optimizer]
    for value in _held(own):
        kinds = type(value).__mro__
        if tensor_class not in kinds:
            others.append(value)
        elif parameter_class not in kinds:
            found.append(value)
    if not found:
        return
    theirs: set[int] = set()
    for one in others:
        for group in one.param_groups:
            for parameter in group["params"]:
                theirs.update(storage_addresses(parameter))
                if parameter.grad is not None:
                    theirs.update(storage_addresses(parameter.grad))
    for tensor in found:
        if theirs.isdisjoint(storage_addresses(tensor)):
            # What a backward pass would add to is a weight: a copy in another precision.
            label_storages(tensor, WEIGHT_TEXT if tensor.is_leaf and tensor.requires_grad else _STATE_TEXT)
            if tensor.is_leaf and tensor.grad is not None:
                label_storages(tensor.grad, GRADIENT_TEXT)


def _held(values: list[Any]) -> Iterator[Any]:
    """The tensors and optimizers that some objects lead to, by containers and attributes; not by what has modules."""
    torch = sys.modules["torch"]
    seen: dict[int, Any] = {}
    pending = [(value, 0) for value in values]
    while pending and len(seen) < _MOST_HELD:
        value, depth = pending.pop()
        kind = type(value)
        if kind in _PLAIN or id(value) in seen:
            continue
        kinds = kind.__mro__
        if torch.Tensor in kinds or torch.optim.Optimizer in kinds:
            seen[id(value)] = value
            yield value
        elif depth < _DEEPEST and torch.nn.Module not in kinds:
            below = _parts(value, kinds)
            # A trainer, say: what it has is not the optimizer's.
            if below and not any(torch.nn.Module in type(one).__mro__ for one in below):
                seen[id(value)] = value
                pending.extend((one, depth + 1) for one in below)


def _parts(value: Any, kinds: tuple[type, ...]) -> list[Any]:
    """What an object is made of, without a call of the program's code."""
    if dict in kinds:
        return list(dict.values(value))
    for container in (list, tuple, set, deque):
        if container in kinds:
            return list(container.__iter__(value))
    if type(value).__flags__ & _HEAP_TYPE == 0:
        return []
    try:
        return list(object.__getattribute__(value, "__dict__").values())
    except AttributeError:
        return []


_HEAP_TYPE: Final = 1 << 9
"""Flag of a class that was made by Python code."""

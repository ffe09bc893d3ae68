"""Weights, gradients and optimizer state, labelled after each step of an optimizer.

An optimizer knows them all: its parameters, their gradients, and the tensors of its state. Each block is labelled once,
because the native core remembers the label.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from msmemscope import _native
from msmemscope.capture.import_hook import when_imported
from msmemscope.capture.labels import label_tensor
from msmemscope.model.labels import MODEL_GRADIENT, MODEL_OPTIMIZER_STATE, MODEL_WEIGHT, LabelLevel

if TYPE_CHECKING:
    from collections.abc import Iterator

_WEIGHT = [(MODEL_WEIGHT, LabelLevel.DETAIL_1)]
_GRADIENT = [(MODEL_GRADIENT, LabelLevel.DETAIL_1)]
_STATE = [(MODEL_OPTIMIZER_STATE, LabelLevel.DETAIL_1)]


class OptimizerLabels:
    """Labels what optimizers of torch work on while it is on."""

    def __init__(self) -> None:
        self._is_wanted = False
        self._is_waiting = False
        self._hook: Any = None

    def enable_with_torch(self) -> None:
        """Begin now if the program has torch already, else as soon as it imports it."""
        self._is_wanted = True
        if hasattr(sys.modules.get("torch"), "__version__"):
            self._enable()
        elif not self._is_waiting:
            self._is_waiting = True
            when_imported("torch", self._enable)

    def disable(self) -> None:
        """Label no more."""
        self._is_wanted = False
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def _enable(self) -> None:
        """Never raises: it may run in the middle of the program's imports."""
        self._is_waiting = False
        if not self._is_wanted or self._hook is not None:
            return
        try:
            from torch.optim.optimizer import register_optimizer_step_post_hook

            self._hook = register_optimizer_step_post_hook(_label_after_step)
        except Exception as error:  # noqa: BLE001 - the program goes on, whatever this torch is like
            _native.say(
                f"weights, gradients and optimizer state are not distinguished: {type(error).__name__}: {error}"
            )
            _native.note_fact("unobserved.optimizer", str(error))


_has_failed = False


def _label_after_step(optimizer: Any, _args: Any, _kwargs: Any) -> None:
    global _has_failed  # noqa: PLW0603 - one line says it for all optimizers
    try:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                label_tensor(parameter, _WEIGHT)
                if parameter.grad is not None:
                    label_tensor(parameter.grad, _GRADIENT)
        for state in optimizer.state.values():
            for tensor in _tensors(state):
                label_tensor(tensor, _STATE)
    except Exception as error:  # noqa: BLE001 - the step of the program was done, and must be seen as done
        if not _has_failed:
            _has_failed = True
            _native.say(
                f"an optimizer's memory is not distinguished ({type(optimizer).__name__}): {type(error).__name__}: {error}"
            )


def _tensors(value: Any, depth: int = 0) -> Iterator[Any]:
    """The tensors in what an optimizer keeps for a parameter: a dict, with lists in some optimizers."""
    if hasattr(value, "data_ptr"):
        yield value
    elif depth < _DEEPEST_STATE and isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item, depth + 1)
    elif depth < _DEEPEST_STATE and isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item, depth + 1)


_DEEPEST_STATE = 4

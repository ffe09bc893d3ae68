"""Labels for weights, gradients and optimizer state after each step of an optimizer, and for tensors that modules hold.

An optimizer knows its parameters, their gradients, and the tensors of its state; modules know parameters that no
optimizer has. Each block is labelled once, because the native core remembers the label.

Optimizers that are not torch's may keep state in attributes of their own. So their attributes are looked through as
`state` is. They may also take the gradients of parameters away. So gradients are labelled before a step too.
"""

from __future__ import annotations

import sys
from typing import Any

from msmemscope import _native
from msmemscope.capture.import_hook import when_imported
from msmemscope.capture.module_labels import GRADIENT_TEXT, label_storages, module_labels, tensors_in
from msmemscope.capture.own_optimizers import STATE_TEXT, label_attributes, own_optimizers


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
        """Label what modules and optimizers of the program hold where a step ends, if that costs little."""
        module_labels.step_ends()
        own_optimizers.look_if_due()

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
        module_labels.step_ends()
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                label_storages(parameter, module_labels.text_of(parameter))
                if parameter.grad is not None:
                    label_storages(parameter.grad, GRADIENT_TEXT)
        for state in optimizer.state.values():
            for tensor in tensors_in(state):
                label_storages(tensor, STATE_TEXT)
        if not _is_of_torch(optimizer):
            label_attributes(optimizer)
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

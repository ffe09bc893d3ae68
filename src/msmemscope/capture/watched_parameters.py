"""Which watched tensors an optimizer is meant to write: the parameters that it has, and no others of the same memory.

Whether a tensor asks for gradients says too little. A teacher that was given the weights of its student has parameters
of its own, and the student's optimizer writes their memory.
"""

from __future__ import annotations

from typing import Any, Final

from msmemscope import _native
from msmemscope.model.watching import OPTIMIZERS_FACT, TRAINED_FACT

_awaited: Final[dict[int, int]] = {}
"""By the id of a tensor, the number of its watch. Whoever watches a tensor is told when its memory is freed."""
_MOST_AWAITED: Final = 4096
_seen: Final[dict[int, int]] = {}
"""By the id of an optimizer, how many parameters it had when they were gone through."""
_hooks: Final[list[Any]] = []


def await_optimizer(tensor: Any, number: int) -> None:
    """Note it once an optimizer steps that has a tensor among its parameters.

    Args:
        tensor: A parameter that is watched.
        number: Of its watch.
    """
    if len(_awaited) < _MOST_AWAITED:
        _awaited[id(tensor)] = number
    _seen.clear()
    if not _hooks:
        try:
            from torch.optim.optimizer import register_optimizer_step_pre_hook

            _hooks.append(register_optimizer_step_pre_hook(_step_begins))
        except Exception as error:  # noqa: BLE001 - the program goes on, whatever this torch is like
            _native.note_fact("unobserved.watched_parameters", f"{type(error).__name__}: {error}")
        else:
            _native.note_fact(OPTIMIZERS_FACT, "")


def _step_begins(optimizer: Any, _args: Any, _kwargs: Any) -> None:
    if not _awaited:
        return
    try:
        groups = [group["params"] for group in optimizer.param_groups]
        count = sum(map(len, groups))
        if _seen.get(id(optimizer)) == count:
            return
        _seen[id(optimizer)] = count
        for parameter in (one for group in groups for one in group):
            number = _awaited.pop(id(parameter), None)
            if number is not None:
                _native.note_fact(TRAINED_FACT, str(number))
    except Exception as error:  # noqa: BLE001 - the step of the program goes on
        _awaited.clear()
        _native.note_fact("unobserved.watched_parameters", f"{type(error).__name__}: {error}")


_native.hide_code((_step_begins.__code__,))

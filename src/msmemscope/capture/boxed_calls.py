"""How torch hands operators over to dispatch modes: shown to the native code in calls that are made for it.

Importing this module needs torch to be imported already.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from msmemscope import _native


class _Lesson(TorchDispatchMode):
    """Runs no operator: each has the same result."""

    def __init__(self, result: torch.Tensor) -> None:
        super().__init__()
        self._result = result

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # torch would import its compiler to leave us alone

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del func, types, args, kwargs
        return self._result


def learn_boxed_calls() -> bool:
    """Let the native code find out how operators lie on the dispatcher's stack. False if it cannot.

    How tensors lie in memory must be known (`tensor_layout`). No memory of a device is allocated.
    """
    private = torch._C  # noqa: SLF001 - no public names
    if private._len_torch_dispatch_stack() or private._functorch.maybe_current_level() is not None:  # noqa: SLF001
        return False
    if private._get_tracing_state() is not None:  # noqa: SLF001 - the program's graph would have the operators
        return False
    with private.DisableTorchFunction():
        first, second = (torch.empty(1, device="meta") for _ in range(2))
        with _Lesson(first) as mode:
            try:
                _teach(mode, first, second)
            finally:
                is_known: bool = _native.end_boxed_lessons()
    return is_known


def _teach(mode: _Lesson, first: torch.Tensor, second: torch.Tensor) -> None:
    aten = torch.ops.aten
    places = (first._cdata, second._cdata)  # noqa: SLF001 - no public names
    any_value, nothing, device = True, None, places[:1]
    if _native.teach_boxed_call(mode, "aten::cat", "", (places, any_value)):
        aten.cat.default([first, second], 0)
    if _native.teach_boxed_call(mode, "aten::add", "Tensor", (*places, any_value)):
        aten.add.Tensor(first, second)
    expected = (any_value, nothing, nothing, device, nothing, nothing)
    if _native.teach_boxed_call(mode, "aten::empty", "memory_format", expected):
        aten.empty.memory_format([2], device=first.device)
    if _native.teach_boxed_call(mode, "aten::stack", "", (places[::-1], any_value)):
        aten.stack.default([second, first], 0)

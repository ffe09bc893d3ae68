"""Which NPU a thread of the program works on."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# The first does not begin to use a device, as the second one does.
_QUESTIONS = ("_npu_getDeviceWithoutSet", "_npu_getDevice")


def current_npu() -> int:
    """The program's number of the calling thread's current NPU; -1 if it uses none. Begins to use none by itself."""
    extension = getattr(sys.modules.get("torch_npu"), "_C", None)
    for name in _QUESTIONS:
        ask: Callable[[], int] | None = getattr(extension, name, None)
        if ask is not None:
            try:
                return ask()
            except RuntimeError:
                return -1
    return -1

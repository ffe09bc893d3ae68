"""Which accelerator a thread of the program works on, and the driver's numbers for those of the program."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from msmemscope import _native
from msmemscope.model.devices import DEVICE_NONE

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


def current_device() -> int:
    """The calling thread's accelerator as events have it; `DEVICE_NONE` if it uses none. Begins to use none by itself."""
    npu = current_npu()
    if npu >= 0:
        return device_of("npu", npu)
    torch: Any = sys.modules.get("torch")
    ask: Callable[[], int] | None = getattr(getattr(torch, "_C", None), "_cuda_getDevice", None)
    if ask is None or not torch.cuda.is_initialized():
        return DEVICE_NONE
    return device_of("cuda", ask())


def device_of(kind: str, number: int) -> int:
    """Return a device as events have it.

    Args:
        kind: `npu` or `cuda`.
        number: As the program counts devices of the kind.

    Returns:
        `DEVICE_NONE` if there is no such device.
    """
    found: int = _native.physical_device(number) if kind == "npu" else _native.cuda_device(number)
    return found

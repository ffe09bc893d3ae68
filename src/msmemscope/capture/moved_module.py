"""The memory that a module needs yet where it does not fit while it is being moved to a device."""

from __future__ import annotations

import sys
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from msmemscope import _native
from msmemscope.model.moved_module import TO_COME_FACT

if TYPE_CHECKING:
    from types import FrameType

_MOVES: Final = "_apply"
"""The method of modules that `to`, `cuda`, `npu`, `half` and so on are made of; it calls itself for each submodule."""
_ITS_FILE: Final = "/torch/nn/modules/module.py"


def note_bytes_to_come(number: int, kind: str) -> None:
    """Note the parameters and buffers that are not on the device yet, if a module of this thread is being moved.

    Args:
        number: Of the device, as events have it.
        kind: Its kind, as torch writes it: `npu`.
    """
    found = _outermost_move(sys._getframe(1))  # noqa: SLF001 - documented, and the only way to the caller
    if found is None:
        return
    values = dict(_native.frame_locals(found))
    bytes_to_come = _bytes_elsewhere(values.get("self"), kind, _dtype_of(values.get("fn")))
    if bytes_to_come:
        _native.note_fact(TO_COME_FACT, f"{_native.next_sequence()} {number} {bytes_to_come}")


def _outermost_move(frame: FrameType | None) -> FrameType | None:
    found = None
    while frame is not None:
        if frame.f_code.co_name == _MOVES and frame.f_code.co_filename.endswith(_ITS_FILE):
            found = frame
        frame = frame.f_back
    return found


def _dtype_of(convert: Any) -> Any:
    """The type that tensors of floating point are converted to, if they are: a variable of the function in `to`."""
    if type(convert) is not FunctionType or "dtype" not in convert.__code__.co_freevars:
        return None
    return (convert.__closure__ or ())[convert.__code__.co_freevars.index("dtype")].cell_contents


def _bytes_elsewhere(module: Any, kind: str, dtype: Any) -> int:
    """The bytes of all tensors below a module that are not on a device of a kind, each once; asks no code of the program."""
    import torch

    plain = (torch.Tensor, torch.nn.Parameter)
    seen: dict[int, int] = {}
    waiting, met = [module], set()
    while waiting:
        one = waiting.pop()
        if id(one) in met or not issubclass(type(one), torch.nn.Module):
            continue
        met.add(id(one))
        own = object.__getattribute__(one, "__dict__")
        for tensor in (*own.get("_parameters", {}).values(), *own.get("_buffers", {}).values()):
            if type(tensor) in plain and tensor.device.type != kind:
                is_converted = dtype is not None and (tensor.is_floating_point() or tensor.is_complex())
                seen[id(tensor)] = tensor.numel() * (dtype.itemsize if is_converted else tensor.element_size())
        waiting.extend(own.get("_modules", {}).values())
    return sum(seen.values())

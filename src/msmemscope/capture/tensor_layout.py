"""The layout of torch's tensors in memory: shown to the native code on tensors that are made for that.

Importing this module needs torch to be imported already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch

from msmemscope import _native

if TYPE_CHECKING:
    from collections.abc import Iterator

_BUFFER_BYTES: Final = 4096
_SHAPES: Final = (
    ((), (), 3),
    ((7,), (2,), 5),
    ((3, 5), (11, 2), 9),
    ((2, 3, 4), (17, 5, 1), 21),
    ((2, 1, 3, 2), (31, 13, 7, 2), 33),
    ((2, 1, 2, 1, 2), (37, 29, 11, 5, 3), 41),
    ((0, 4), (4, 1), 13),
    ((2, 1, 1, 2, 1, 2), (19, 17, 13, 11, 7, 3), 43),
    ((1, 2, 1, 1, 2, 1, 1, 2), (31, 29, 23, 19, 17, 13, 11, 5), 47),
)
"""Shape, strides and offset of samples, in elements."""
_DTYPES: Final = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.complex64,
)


def learn_tensor_layout() -> bool:
    """Let the native code find out how to read tensors. False if it leaves that to Python.

    The samples lie in memory of Python, or have none: no allocation of torch is made.
    """
    _native.forget_tensor_layout()
    private = torch._C  # noqa: SLF001 - no public names
    # Modes and transforms of the program would see how samples are made.
    if private._len_torch_dispatch_stack() or private._functorch.maybe_current_level() is not None:  # noqa: SLF001
        return False
    if private._get_tracing_state() is not None:  # noqa: SLF001
        return False
    if not hasattr(private, "_data_address") or not hasattr(private.DispatchKeySet, "raw_repr"):
        return False
    with private.DisableTorchFunction():
        samples = tuple(_samples())
        is_known: bool = _native.learn_tensor_layout(
            (torch.Tensor, torch.nn.Parameter), tuple(map(_describe, samples)), _own_dispatch_key()
        )
        # Torch makes tensors of numbers that are computed with, and Python gets them as numbers: it never sees those dtypes.
        _native.learn_type_texts(samples)
    return is_known


def _own_dispatch_key() -> int:
    key: int = torch._C.DispatchKeySet(torch._C.DispatchKey.Python).raw_repr()  # noqa: SLF001 - no public names
    return key


def _samples() -> Iterator[torch.Tensor]:
    for dtype in _DTYPES:
        flat = torch.frombuffer(bytearray(_BUFFER_BYTES), dtype=dtype)
        for shape, strides, offset in _SHAPES:
            yield flat.as_strided(shape, strides, offset)
    for shape, strides, _ in _SHAPES:
        yield torch.empty_strided(shape, strides, device="meta")


def _describe(tensor: torch.Tensor) -> tuple[Any, ...]:
    return (
        tensor,
        tensor._cdata,  # noqa: SLF001 - no public name
        tensor.untyped_storage()._cdata,  # noqa: SLF001
        torch._C._data_address(tensor),  # noqa: SLF001
        tensor.storage_offset(),
        tensor.numel(),
        tensor.element_size(),
        tuple(tensor.shape),
        tensor.stride(),
        _DTYPES.index(tensor.dtype),
        ("cpu", "meta").index(tensor.device.type),
        -1 if tensor.device.index is None else tensor.device.index,
        torch._C._dispatch_keys(tensor).raw_repr(),  # noqa: SLF001
    )

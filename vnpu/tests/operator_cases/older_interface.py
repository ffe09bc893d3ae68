"""Operators that torch_npu asks for by name (aclop) once it is to compile operators, and `npu_pad`, which is one always."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from .case import OperatorCase, normal

if TYPE_CHECKING:
    from collections.abc import Callable


def compiled(call: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Make a call while torch_npu compiles operators, and therefore knows them by name."""

    def inside(*inputs: Any) -> torch.Tensor:
        torch.npu.set_compile_mode(jit_compile=True)
        try:
            return call(*inputs)
        finally:
            torch.npu.set_compile_mode(jit_compile=False)

    return inside


def padded(x: torch.Tensor) -> torch.Tensor:
    """Pad: npu_pad begins with the first dimension, where torch begins with the last."""
    if x.device.type == "npu":
        import torch_npu

        result: torch.Tensor = torch_npu.npu_pad(x, (1, 2, 0, 3))
        return result
    return functional.pad(x, (0, 3, 1, 2))


PAIR = normal((3, 4), (3, 4))
CASES = [
    OperatorCase("compiled sum of two", compiled(lambda a, b: a + b), PAIR, backward=False),
    OperatorCase("compiled difference", compiled(lambda a, b: a - b), PAIR, backward=False),
    OperatorCase("compiled difference to a number", compiled(lambda a: a - 1.5), normal((3, 4)), backward=False),
    OperatorCase("compiled product", compiled(lambda a, b: a * b), PAIR, backward=False),
    OperatorCase("compiled quotient", compiled(lambda a, b: a / b), PAIR, backward=False, relative=2e-2),
    OperatorCase("compiled relu", compiled(torch.relu), normal((3, 4)), backward=False),
    OperatorCase("compiled sum along a dimension", compiled(lambda a: a.sum(1, keepdim=True)), normal((3, 4)),
                 types=("float32",), backward=False),
    OperatorCase("compiled mm of a transposed matrix", compiled(lambda a, b: torch.mm(a, b.t())), PAIR,
                 types=("float32",), backward=False),
    OperatorCase("npu_pad", padded, normal((2, 3)), types=("float32", "float16"), backward=False),
]  # fmt: skip

"""Operator cases: one call, made on the CPU and on the virtual NPU, whose results must agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

FLOATING = ("float32", "bfloat16")


@dataclass(frozen=True)
class OperatorCase:
    """One operator with one set of arguments.

    Attributes:
        name: A name in words, unique within its family: ``"add with alpha"``.
        call: Gets the inputs, all on one device, and returns a tensor or a tuple of tensors.
        inputs: Gets a seeded CPU ``torch.Generator`` and returns the inputs. Float32 tensors are cast to each type of
            ``types``, and differentiated. Other tensors and plain values are passed as they are.
        types: The floating point types in which the case runs. Operators without bfloat16 on the CPU have
            ``("float32",)``.
        backward: Whether gradients of all floating point inputs are compared too.
        relative: Relative tolerance by type. The defaults are 1e-5 for float32 and 2e-2 for bfloat16.
        absolute: Absolute tolerance by type. The defaults are 1e-6 for float32 and 1e-2 for bfloat16.
        check: Replaces the comparison with the CPU, for operators that draw random numbers. It gets the NPU's results
            on the CPU and asserts what must hold.
    """

    name: str
    call: Callable[..., Any]
    inputs: Callable[[Any], tuple[Any, ...]]
    types: tuple[str, ...] = FLOATING
    backward: bool = True
    relative: float | None = None
    absolute: float | None = None
    check: Callable[..., None] | None = None


def normal(*shapes: tuple[int, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """Inputs: one normally distributed tensor for each shape."""
    return lambda generator: tuple(torch.randn(shape, generator=generator) for shape in shapes)


def distinct(*shape: int) -> Callable[[Any], tuple[Any, ...]]:
    """Inputs: one tensor without equal elements, exact in bfloat16, so that its order is defined in both types."""
    count = torch.Size(shape).numel()
    return lambda generator: (((torch.randperm(count, generator=generator) - count // 2) / 4).reshape(shape),)


def integers(*shape: int, low: int = -5, high: int = 6) -> Callable[[Any], tuple[Any, ...]]:
    """Inputs: one tensor of int64."""
    return lambda generator: (torch.randint(low, high, shape, generator=generator),)


def fixed(*values: Any) -> Callable[[Any], tuple[Any, ...]]:
    """Inputs: these, in every run."""
    return lambda _generator: values


def with_values(inputs: Callable[[Any], tuple[Any, ...]], *values: Any) -> Callable[[Any], tuple[Any, ...]]:
    """Inputs, and behind them the same values in every run."""
    return lambda generator: (*inputs(generator), *values)


def whole(name: str, call: Callable[..., Any], inputs: Callable[[Any], tuple[Any, ...]]) -> OperatorCase:
    """A case of whole numbers or truth values: without gradient, and in one floating point type only."""
    return OperatorCase(name, call, inputs, types=("float32",), backward=False)

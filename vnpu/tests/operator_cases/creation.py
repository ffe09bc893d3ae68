"""Tensors made from numbers, and their printed form."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch

from .case import OperatorCase

FLOAT32 = ("float32",)


def like(generator: Any) -> tuple[torch.Tensor]:
    """A tensor that says on which device a case runs."""
    return (torch.randn(3, 5, generator=generator),)


def made(name: str, call: Callable[..., Any], types: tuple[str, ...] = FLOAT32) -> OperatorCase:
    """A case that makes a tensor; ``call`` gets one of the device and data type."""
    return OperatorCase(name, call, like, types=types, backward=False)


def closed_range(a: torch.Tensor) -> torch.Tensor:
    """The old range, which has its end and warns that it is old."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.range(1, 4, 0.5, device=a.device)


def written(name: str, data_type: torch.dtype) -> OperatorCase:
    """The printed form of a tensor, less its device."""

    def call(a: torch.Tensor) -> torch.Tensor:
        texts = [repr((part * 7).to(data_type)).replace("device='npu:0'", "") for part in (a, a[0, 0], a[:0], a.t())]
        letters = "".join(character for character in "".join(texts) if character not in " ,\n)")
        return torch.tensor(list(letters.encode()))

    return made(f"text of a tensor of {name}", call)


BOTH = ("float32", "bfloat16")

CASES = [
    made("zeros", lambda a: torch.zeros(2, 3, device=a.device, dtype=a.dtype), BOTH),
    made("ones", lambda a: torch.ones(2, 3, device=a.device, dtype=a.dtype), BOTH),
    made("ones of integers", lambda a: torch.ones(2, 3, device=a.device, dtype=torch.int64)),
    made("full", lambda a: torch.full((2, 3), 1.5, device=a.device, dtype=a.dtype), BOTH),
    made("full of bools", lambda a: torch.full((2, 3), True, device=a.device)),
    made(
        "alike",
        lambda a: (torch.zeros_like(a), torch.ones_like(a.t()), torch.full_like(a, 2), torch.empty_like(a).zero_()),
        BOTH,
    ),
    made("new", lambda a: (a.new_zeros(2), a.new_ones(2), a.new_full((2,), 3), a.new_tensor([1, 2])), BOTH),
    made("fill with a number", lambda a: a.clone().fill_(2.5), BOTH),
    made("fill with a tensor", lambda a: a.clone().fill_(torch.tensor(2.5, device=a.device)), BOTH),
    made("fill a view", lambda a: (a.clone().t()[1:3].fill_(7), a.clone()[:, ::2].zero_()), BOTH),
    made("fill a diagonal", lambda a: (a.clone().fill_diagonal_(9), a.t().clone().fill_diagonal_(9, wrap=True)), BOTH),
    made("scalar", lambda a: (torch.tensor(2.5, device=a.device), torch.scalar_tensor(3, device=a.device))),
    made("from a list", lambda a: torch.tensor([[1, 2], [3, 4]], device=a.device)),
    made("range of integers", lambda a: torch.arange(7, device=a.device)),
    made("range with a step", lambda a: torch.arange(3, 17, 4, device=a.device)),
    made("range downwards", lambda a: torch.arange(9, -3, -2, device=a.device, dtype=torch.int32)),
    made("range of fractions", lambda a: torch.arange(0, 1, 0.1, device=a.device)),
    made("range of another type", lambda a: torch.arange(5, device=a.device, dtype=a.dtype), BOTH),
    made("range without elements", lambda a: torch.arange(0, device=a.device)),
    made("range with its end", closed_range),
    made("evenly spaced", lambda a: torch.linspace(-1, 2, 7, device=a.device)),
    made("evenly spaced integers", lambda a: torch.linspace(0, 10, 5, device=a.device, dtype=torch.int64)),
    made("one evenly spaced number", lambda a: torch.linspace(3, 10, 1, device=a.device)),
    made("logarithmically spaced", lambda a: torch.logspace(-1, 2, 5, device=a.device)),
    made("logarithmically spaced with a base", lambda a: torch.logspace(0, 8, 9, base=2, device=a.device)),
    made(
        "identity",
        lambda a: (torch.eye(3, device=a.device, dtype=a.dtype), torch.eye(2, 4, device=a.device, dtype=a.dtype)),
        BOTH,
    ),
    made("identity of integers", lambda a: torch.eye(3, device=a.device, dtype=torch.int64)),
    made("indices of triangles", lambda a: torch.tril_indices(3, 4, device=a.device).float() + a.new_zeros(1)),
    made("a window", lambda a: torch.hann_window(8, device=a.device, dtype=torch.float32)),
    made("a grid", lambda a: torch.meshgrid(a[0], a[:, 0], indexing="ij"), BOTH),
    *(
        written(name, data_type)
        for name, data_type in {
            "floats": torch.float32,
            "halves": torch.float16,
            "bfloat16": torch.bfloat16,
            "integers": torch.int64,
            "short integers": torch.int32,
            "bytes": torch.int8,
            "bools": torch.bool,
        }.items()
    ),
]

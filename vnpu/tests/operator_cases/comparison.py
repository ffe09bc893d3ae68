"""Comparisons, logic and bits."""

from __future__ import annotations

from typing import Any

import torch

from .case import OperatorCase

FLOAT32 = ("float32",)
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def rounded_pair(generator: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Two tensors of shape (4, 6) of few values, so that many elements are equal."""
    return torch.randn(4, 6, generator=generator).round(), torch.randn(4, 6, generator=generator).round()


def whole(generator: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Two tensors of shape (4, 6) of integers between 0 and 5."""
    first = torch.randint(0, 6, (4, 6), generator=generator)
    return first, torch.randint(0, 6, (4, 6), generator=generator)


def compared(name: str) -> list[OperatorCase]:
    """The cases of one comparison: with tensors, with a number, in place, of integers and bools."""
    function = getattr(torch, name)
    return [
        OperatorCase(
            name,
            lambda a, b: (function(a, b), function(a.t(), b.t()), function(a, b[:1])),
            rounded_pair,
            backward=False,
        ),
        OperatorCase(
            f"{name} with a number", lambda a, _b: (function(a, 1.0), function(a, 0)), rounded_pair, backward=False
        ),
        OperatorCase(
            f"{name} with a tensor without dimensions",
            lambda a, b: (
                function(a, b[0, 0]),
                function(a, torch.tensor(1.0)),
                function(torch.tensor(1.0), a),
                function(a[0, 0], b),
            ),
            rounded_pair,
            backward=False,
        ),
        OperatorCase(
            f"{name} in place",
            lambda a, b: (getattr(a.clone(), f"{name}_")(b), getattr(a.clone(), f"{name}_")(1)),
            rounded_pair,
            backward=False,
        ),
        OperatorCase(
            f"{name} of integers and bools",
            lambda a, b: (function(a, b), function(a.int(), 3), function(a, 2.5), function(a > 2, b > 2)),
            whole,
            types=FLOAT32,
            backward=False,
        ),
    ]


def logic(name: str) -> list[OperatorCase]:
    """The cases of one logical function."""
    function = getattr(torch, name)
    return [
        OperatorCase(name, lambda a, b: (function(a, b), function(a > 0, b > 0)), rounded_pair, backward=False),
        OperatorCase(
            f"{name} in place",
            lambda a, b: (getattr(a.clone(), f"{name}_")(b), getattr(a > 0, f"{name}_")(b > 0)),
            rounded_pair,
            backward=False,
        ),
    ]


def of_bits(name: str, call: Any) -> OperatorCase:
    """A case on integers."""
    return OperatorCase(name, call, whole, types=FLOAT32, backward=False)


CASES = [
    *(case for name in COMPARISONS for case in compared(name)),
    *(case for name in ("logical_and", "logical_or", "logical_xor") for case in logic(name)),
    OperatorCase(
        "equal as a whole",
        lambda a, b: torch.tensor([torch.equal(a, b), torch.equal(a, a.clone()), torch.equal(a, b[:1])]),
        rounded_pair,
        backward=False,
    ),
    OperatorCase(
        "is close",
        lambda a, b: (torch.isclose(a, a + 1e-7), torch.isclose(a, b, rtol=0.5, atol=0.1)),
        rounded_pair,
        backward=False,
    ),
    OperatorCase(
        "is close with NaN",
        lambda a, b: torch.isclose(a / 0 * 0, b / 0 * 0, equal_nan=True),
        rounded_pair,
        types=FLOAT32,
        backward=False,
    ),
    OperatorCase(
        "all close",
        lambda a, b: torch.tensor([torch.allclose(a, a + 1e-7), torch.allclose(a, b)]),
        rounded_pair,
        backward=False,
    ),
    of_bits("is in a list of values", lambda a, b: torch.isin(a, b[0, :2])),
    of_bits("is the number", lambda a, _b: torch.isin(a, 3)),
    of_bits("is the number in", lambda a, _b: torch.isin(3, a)),
    of_bits("is not in", lambda a, _b: torch.isin(a, 3, invert=True)),
    of_bits("bitwise and", lambda a, b: (a & b, a & 5, (a > 2) & (b > 2), a.int() & b.int())),
    of_bits("bitwise or", lambda a, b: (a | b, a | 5, (a > 2) | (b > 2))),
    of_bits("bitwise xor", lambda a, b: (a ^ b, a ^ 5, (a > 2) ^ (b > 2))),
    of_bits("bitwise and in place", lambda a, b: (a.clone().bitwise_and_(b), a.clone().bitwise_and_(5))),
    of_bits("bitwise or in place", lambda a, b: (a.clone().bitwise_or_(b), a.clone().bitwise_or_(5))),
    of_bits("bitwise xor in place", lambda a, b: (a.clone().bitwise_xor_(b), a.clone().bitwise_xor_(5))),
    of_bits("bitwise functions of a number and a tensor", lambda a, _b: (5 & a, 5 | a, 5 ^ a)),
    of_bits("shift left", lambda a, b: (a << b, a << 2)),
    of_bits("shift right", lambda a, b: ((a * 64) >> b, (a * 64) >> 2)),
    of_bits("shift in place", lambda a, b: (a.clone().__ilshift__(b), (a * 64).__irshift__(2))),
]

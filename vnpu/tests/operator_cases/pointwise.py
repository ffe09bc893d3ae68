"""Operators of two or three operands that work element by element."""

from __future__ import annotations

from typing import Any

import torch

from .case import OperatorCase

FLOAT32 = ("float32",)


def pair(generator: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Two tensors of shape (3, 5)."""
    return torch.randn(3, 5, generator=generator), torch.randn(3, 5, generator=generator)


def one(generator: Any) -> tuple[torch.Tensor]:
    """One tensor of shape (3, 5)."""
    return (torch.randn(3, 5, generator=generator),)


def broadcast(generator: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Shapes (2, 1, 5) and (3, 1)."""
    return torch.randn(2, 1, 5, generator=generator), torch.randn(3, 1, generator=generator)


def positive_pair(generator: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Two tensors of shape (3, 5), all elements between 0.5 and 1.5."""
    return torch.rand(3, 5, generator=generator) + 0.5, torch.rand(3, 5, generator=generator) + 0.5


def positive(generator: Any) -> tuple[torch.Tensor]:
    """One tensor of shape (3, 5), all elements between 0.5 and 1.5."""
    return (torch.rand(3, 5, generator=generator) + 0.5,)


def zero_dimensions(generator: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """A tensor of shape (3, 5) and one without dimensions."""
    return torch.randn(3, 5, generator=generator), torch.randn((), generator=generator) + 2


def empty_pair(generator: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Two tensors without elements."""
    return torch.empty(0, 5), torch.empty(0, 5)


def triple(generator: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Three tensors of shape (3, 5); the last is away from zero."""
    first, second = pair(generator)
    return first, second, torch.rand(3, 5, generator=generator) + 0.5


def whole(generator: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Two tensors of shape (3, 5) of 64-bit integers; the second is positive."""
    first = torch.randint(-20, 20, (3, 5), generator=generator)
    return first, torch.randint(1, 7, (3, 5), generator=generator)


def condition_and_pair(generator: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A tensor of bools and two of shape (3, 5)."""
    return (torch.rand(3, 5, generator=generator) > 0.5, *pair(generator))


def masked_scale(mask: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``torch._masked_scale``, which the CPU does not have."""
    return (a * mask * 2.5 if a.device.type == "cpu" else torch._masked_scale(a, mask.to(torch.uint8), 2.5)) + b


def integers(name: str, call: Any) -> OperatorCase:
    """A case on two tensors of integers."""
    return OperatorCase(f"{name} of integers", call, whole, types=FLOAT32, backward=False)


def in_place(name: str, method: str, inputs: Any = pair, *arguments: Any) -> OperatorCase:
    """A case that changes its first operand; it runs on a copy, so that the change can be differentiated."""
    return OperatorCase(
        f"{name} in place", lambda first, *rest: getattr(first.clone(), method)(*rest, *arguments), inputs
    )


CASES = [
    OperatorCase("add", lambda a, b: a + b, pair),
    OperatorCase("add with alpha", lambda a, b: torch.add(a, b, alpha=2.5), pair),
    OperatorCase("add with broadcasting", lambda a, b: a + b, broadcast),
    OperatorCase("add of a transposed tensor", lambda a, b: a.t() + b.t(), pair),
    OperatorCase("add of every second column", lambda a, b: a[:, ::2] + b[:, 1::2].sum(1, keepdim=True), pair),
    OperatorCase("add of a tensor without dimensions", lambda a, b: a + b, zero_dimensions),
    OperatorCase("add to a tensor without dimensions", lambda a, b: b + a, zero_dimensions),
    OperatorCase("add of empty tensors", lambda a, b: a + b, empty_pair),
    OperatorCase("add of a number", lambda a: a + 1.5, one),
    OperatorCase("add to a number", lambda a: 1.5 + a, one),
    OperatorCase("add of a number with alpha", lambda a: torch.add(a, 3, alpha=0.5), one),
    OperatorCase("add of a tensor on the host", lambda a: a + torch.tensor(0.25), one),
    OperatorCase("add to a tensor on the host", lambda a: torch.tensor(0.25) + a, one),
    in_place("add", "add_"),
    in_place("add of a number", "add_", one, 1.5),
    OperatorCase("add in place to a view", lambda a, b: a.clone().t().add_(b.t(), alpha=2), pair),
    OperatorCase("add into an output", lambda a, b: torch.add(a, b, out=torch.empty_like(a)), pair, backward=False),
    integers("add", lambda a, b: a + b),
    integers("add of a fraction", lambda a, _b: a + 0.5),
    integers("add of 32 bits", lambda a, b: a.int() + b.int()),
    integers("add of 8 bits", lambda a, b: a.to(torch.int8) + b.to(torch.int8)),
    integers("add of bool", lambda a, b: (a > 0) + (b > 3)),
    OperatorCase("add of float and integer", lambda a, b: a + b.long(), pair, backward=False),
    OperatorCase("add of two floating point types", lambda a, b: a.float() + b.bfloat16(), pair),
    OperatorCase("add then relu", torch._VF._add_relu, pair, types=FLOAT32, backward=False),
    OperatorCase(
        "add then relu in place",
        lambda a, b: torch._VF._add_relu_(a.clone(), b),
        pair,
        types=FLOAT32,
        backward=False,
    ),
    OperatorCase("subtract", lambda a, b: a - b, pair),
    OperatorCase("subtract with alpha", lambda a, b: torch.sub(a, b, alpha=3), broadcast),
    OperatorCase("subtract a number", lambda a: a - 1.5, one),
    OperatorCase("subtract from a number", lambda a: 1.5 - a, one),
    OperatorCase("reversed subtract", lambda a, b: torch.rsub(a, b, alpha=2), pair),
    in_place("subtract", "sub_"),
    in_place("subtract a number", "sub_", one, 0.5),
    integers("subtract", lambda a, b: a - b),
    OperatorCase("multiply", lambda a, b: a * b, pair),
    OperatorCase("multiply with broadcasting", lambda a, b: a * b, broadcast),
    OperatorCase("multiply by a tensor without dimensions", lambda a, b: a * b, zero_dimensions),
    OperatorCase("multiply by a number", lambda a: a * 2.5, one),
    in_place("multiply", "mul_"),
    in_place("multiply by a number", "mul_", one, 3),
    integers("multiply", lambda a, b: a * b),
    integers("multiply with bool", lambda a, b: a * (b > 3)),
    OperatorCase("divide", lambda a, b: a / (b.abs() + 0.5), pair),
    OperatorCase("divide by a number", lambda a: a / 3, one),
    OperatorCase("divide a number", lambda a: 2 / a, positive),
    in_place("divide", "div_", positive_pair),
    in_place("divide by a number", "div_", one, 4),
    integers("divide", lambda a, b: a / b),
    OperatorCase("divide rounding down", lambda a, b: torch.div(a, b, rounding_mode="floor"), positive_pair),
    OperatorCase("divide rounding to zero", lambda a, b: torch.div(a, b, rounding_mode="trunc"), positive_pair),
    OperatorCase("divide by a number rounding down", lambda a: torch.div(a, 0.7, rounding_mode="floor"), one),
    OperatorCase("divide by a number rounding to zero", lambda a: torch.div(a, 0.7, rounding_mode="trunc"), one),
    OperatorCase(
        "divide in place rounding",
        lambda a, b: (a.clone().div_(b, rounding_mode="floor"), a.clone().div_(0.3, rounding_mode="trunc")),
        positive_pair,
        backward=False,
    ),
    integers("divide rounding down", lambda a, b: torch.div(a, b, rounding_mode="floor")),
    integers("divide rounding to zero", lambda a, b: torch.div(a, b, rounding_mode="trunc")),
    OperatorCase("floor divide", lambda a, b: a // b, positive_pair, backward=False),
    OperatorCase("floor divide by a number", lambda a: a // 0.7, one, backward=False),
    OperatorCase(
        "floor divide in place",
        lambda a, b: (a.clone().floor_divide_(b), a.clone().floor_divide_(2)),
        positive_pair,
        backward=False,
    ),
    integers("floor divide", lambda a, b: a // b),
    OperatorCase("remainder", torch.remainder, positive_pair),
    OperatorCase("remainder of a number", lambda a: torch.remainder(a, 0.7), one),
    OperatorCase("remainder of a number by a tensor", lambda a: torch.remainder(2.5, a), positive, backward=False),
    in_place("remainder", "remainder_", positive_pair),
    in_place("remainder of a number", "remainder_", one, 0.7),
    integers("remainder", lambda a, b: a % b),
    integers("remainder of a number", lambda a, _b: a % 3),
    OperatorCase("fmod", torch.fmod, positive_pair),
    OperatorCase("fmod of a number", lambda a: torch.fmod(a, 0.7), one),
    in_place("fmod", "fmod_", positive_pair),
    in_place("fmod of a number", "fmod_", one, 0.7),
    integers("fmod", torch.fmod),
    integers("greatest common divisor", torch.gcd),
    OperatorCase("power", lambda a, b: a**b, positive_pair),
    OperatorCase("power of a number", lambda a: a**3, one),
    OperatorCase("square", torch.square, one),
    OperatorCase("power with exponent one half", lambda a: a**0.5, positive),
    OperatorCase("power with a number as base", lambda a: 2.5**a, one),
    in_place("power", "pow_", positive_pair),
    in_place("power of a number", "pow_", one, 2),
    integers("power", lambda a, b: a**b),
    OperatorCase("x log y", torch.xlogy, positive_pair),
    OperatorCase("x log y of a number", lambda a: torch.xlogy(a, 2.5), positive),
    OperatorCase("x log y by a number", lambda a: torch.xlogy(2.5, a), positive),
    OperatorCase(
        "x log y in place", lambda a, b: (a.clone().xlogy_(b), a.clone().xlogy_(2.0)), positive_pair, backward=False
    ),
    OperatorCase("logarithm of added exponentials", torch.logaddexp, pair, types=FLOAT32),
    OperatorCase("binary logarithm of added powers", torch.logaddexp2, pair, types=FLOAT32),
    OperatorCase("angle of two coordinates", torch.atan2, pair),
    in_place("angle of two coordinates", "atan2_"),
    OperatorCase("hypotenuse", torch.hypot, pair, types=FLOAT32),
    OperatorCase("copy of a sign", torch.copysign, pair),
    OperatorCase(
        "complex from parts",
        lambda a, b: torch.view_as_real(torch.complex(a, b)),
        pair,
        types=FLOAT32,
        backward=False,
    ),
    OperatorCase(
        "complex from polar coordinates",
        lambda a, b: torch.view_as_real(torch.polar(a, b)),
        pair,
        types=FLOAT32,
        backward=False,
    ),
    OperatorCase("maximum", torch.maximum, pair),
    OperatorCase("maximum with broadcasting", torch.maximum, broadcast),
    OperatorCase("minimum", torch.minimum, pair),
    OperatorCase("larger of two by max", torch.max, pair),
    OperatorCase("smaller of two by min", torch.min, pair),
    OperatorCase("fmax and fmin", lambda a, b: (torch.fmax(a, b), torch.fmin(a, b)), pair),
    integers("maximum", torch.maximum),
    OperatorCase("clamp", lambda a: torch.clamp(a, -0.5, 0.75), one),
    OperatorCase("clamp from below", lambda a: torch.clamp(a, min=0.1), one),
    OperatorCase("clamp from above", lambda a: torch.clamp(a, max=0.1), one),
    OperatorCase("clamp by clamp_min", lambda a: torch.clamp_min(a, 0.2), one),
    OperatorCase("clamp by clamp_max", lambda a: torch.clamp_max(a, 0.2), one),
    OperatorCase("clamp between tensors", lambda a, b: torch.clamp(a, b - 0.5, b + 0.5), pair),
    OperatorCase("clamp by a tensor from below", lambda a, b: torch.clamp(a, min=b), pair),
    OperatorCase("clamp by clamp_min of a tensor", torch.clamp_min, pair),
    OperatorCase("clamp by clamp_max of a tensor", torch.clamp_max, pair),
    in_place("clamp", "clamp_", one, -0.5, 0.5),
    in_place("clamp from below", "clamp_min_", one, 0.1),
    in_place("clamp from above", "clamp_max_", one, 0.1),
    in_place("clamp from below by a tensor", "clamp_min_"),
    in_place("clamp from above by a tensor", "clamp_max_"),
    integers("clamp", lambda a, _b: torch.clamp(a, -3, 4)),
    OperatorCase("where", torch.where, condition_and_pair),
    OperatorCase("where with a number", lambda c, a, b: torch.where(c, a * b, 0.0), condition_and_pair),
    OperatorCase("where with broadcasting", lambda c, a, b: torch.where(c[:1], a, b[:, :1]), condition_and_pair),
    OperatorCase(
        "scale under a mask",
        masked_scale,
        condition_and_pair,
        backward=False,
    ),
    OperatorCase("interpolate by a number", lambda a, b: torch.lerp(a, b, 0.3), pair),
    OperatorCase("interpolate by a tensor", torch.lerp, triple),
    in_place("interpolate by a number", "lerp_", pair, 0.7),
    in_place("interpolate by a tensor", "lerp_", triple),
    OperatorCase("addcmul", lambda a, b, c: torch.addcmul(a, b, c, value=0.5), triple),
    OperatorCase("addcmul with broadcasting", lambda a, b, c: torch.addcmul(a, b[:1], c[:, :1]), triple),
    OperatorCase("addcdiv", lambda a, b, c: torch.addcdiv(a, b, c, value=0.5), triple),
    in_place("addcmul", "addcmul_", triple),
    in_place("addcdiv", "addcdiv_", triple),
]

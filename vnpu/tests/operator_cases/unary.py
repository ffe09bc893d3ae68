"""Mathematics of one operand, copies and conversions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .case import OperatorCase

FLOAT32 = ("float32",)

# The values that make an inverse function or a logarithm defined, by the name of the distribution.
DOMAINS: dict[str, Callable[[Any], torch.Tensor]] = {
    "all": lambda generator: torch.randn(3, 5, generator=generator),
    "positive": lambda generator: torch.rand(3, 5, generator=generator) + 0.25,
    "unit": lambda generator: torch.rand(3, 5, generator=generator) * 1.5 - 0.75,
    "above one": lambda generator: torch.rand(3, 5, generator=generator) + 1.25,
}

# Functions of torch that exist in place too ("sin_"), and where they are defined.
FUNCTIONS = {
    "floor": "all",
    "ceil": "all",
    "frac": "all",
    "sqrt": "positive",
    "rsqrt": "positive",
    "reciprocal": "positive",
    "exp": "all",
    "exp2": "all",
    "expm1": "all",
    "log": "positive",
    "log2": "positive",
    "log10": "positive",
    "log1p": "positive",
    "erf": "all",
    "erfc": "all",
    "erfinv": "unit",
    "sin": "all",
    "cos": "all",
    "tan": "unit",
    "asin": "unit",
    "acos": "unit",
    "atan": "all",
    "sinh": "all",
    "cosh": "all",
    "tanh": "all",
    "asinh": "all",
    "acosh": "above one",
    "atanh": "unit",
    "sinc": "positive",
    "abs": "all",
    "neg": "all",
    "sign": "all",
    "trunc": "all",
    "round": "all",
}


# torch has no derivative of these.
NOT_DIFFERENTIABLE_IN_PLACE = ("asinh", "acosh", "atanh")


def inputs_of(domain: str) -> Callable[[Any], tuple[torch.Tensor]]:
    """The inputs of a function defined in a domain."""
    return lambda generator: (DOMAINS[domain](generator),)


def plain(name: str, domain: str) -> OperatorCase:
    """The function on a tensor, on a transposed one and on one without dimensions."""
    function = getattr(torch, name)
    return OperatorCase(
        name, lambda a: (function(a), function(a.t()), function(a[1, 2]), function(a[:, ::2])), inputs_of(domain)
    )


def in_place(name: str, domain: str) -> OperatorCase:
    """The function that changes its operand, here a copy, also through a view of every second column."""
    return OperatorCase(
        f"{name} in place",
        lambda a: (getattr(a.clone(), f"{name}_")(), getattr(a.clone()[:, ::2], f"{name}_")()),
        inputs_of(domain),
        backward=name not in NOT_DIFFERENTIABLE_IN_PLACE,
    )


def special(generator: Any) -> tuple[torch.Tensor]:
    """Numbers, infinities and NaN."""
    return (torch.tensor([1.5, float("inf"), -float("inf"), float("nan"), 0.0, -0.0]),)


def whole(generator: Any) -> tuple[torch.Tensor]:
    """Integers of 64 bits."""
    return (torch.randint(-9, 9, (3, 5), generator=generator),)


def of_integers(name: str, call: Any) -> OperatorCase:
    """A case on a tensor of integers."""
    return OperatorCase(f"{name} of integers", call, whole, types=FLOAT32, backward=False)


def of_special(name: str, call: Any) -> OperatorCase:
    """A case on infinities and NaN."""
    return OperatorCase(name, call, special, backward=False)


def conversions(a: torch.Tensor) -> list[torch.Tensor]:
    """A tensor in every type that the device has; 64-bit floating point numbers become 32-bit ones there."""
    types = (torch.float16, torch.bfloat16, torch.float32, torch.int8, torch.int16, torch.int32)
    return [(a * 10).to(data_type) for data_type in (*types, torch.int64, torch.bool)]


def converted(a: torch.Tensor) -> torch.Tensor:
    """A conversion by ``npu_dtype_cast``, which has no counterpart on the CPU but ``to``."""
    return torch.ops.npu.npu_dtype_cast(a * 10, torch.int32) if a.device.type == "npu" else (a * 10).to(torch.int32)


CASES = [
    *(plain(name, domain) for name, domain in FUNCTIONS.items()),
    *(in_place(name, domain) for name, domain in FUNCTIONS.items()),
    OperatorCase("round to decimals", lambda a: torch.round(a * 10, decimals=1), inputs_of("all"), types=FLOAT32),
    OperatorCase("round to decimals in place", lambda a: (a * 10).round_(decimals=2), inputs_of("all"), types=FLOAT32),
    OperatorCase("signbit", torch.signbit, inputs_of("all"), backward=False),
    OperatorCase("sgn", torch.sgn, inputs_of("all")),
    OperatorCase("angle", torch.angle, inputs_of("all"), types=FLOAT32, backward=False),
    OperatorCase("positive and negative", lambda a: (+a, -a), inputs_of("all")),
    OperatorCase("inverse of a sigmoid", lambda a: torch.logit(a, eps=1e-3), inputs_of("positive"), types=FLOAT32),
    OperatorCase("degrees and radians", lambda a: (torch.rad2deg(a), torch.deg2rad(a)), inputs_of("all")),
    of_special("is finite", torch.isfinite),
    of_special("is infinite", torch.isinf),
    of_special("is not a number", torch.isnan),
    of_special("is positive infinity", torch.isposinf),
    of_special("is negative infinity", torch.isneginf),
    of_special("is real", torch.isreal),
    of_special("nan to num", torch.nan_to_num),
    of_special("nan to chosen numbers", lambda a: torch.nan_to_num(a, nan=3.0, posinf=7.0, neginf=-7.0)),
    of_special("nan to num in place", lambda a: a.clone().nan_to_num_(nan=2.0, posinf=1.0, neginf=-1.0)),
    of_special("square root outside its domain", torch.sqrt),
    of_special("logarithm outside its domain", torch.log),
    of_integers("abs", torch.abs),
    of_integers("neg", torch.neg),
    of_integers("sign", torch.sign),
    of_integers("square root", lambda a: torch.sqrt(a.abs())),
    of_integers("sine", torch.sin),
    of_integers("exponential", torch.exp),
    of_integers("bitwise not", lambda a: (~a, ~a.int(), ~(a > 0))),
    of_integers("is finite", torch.isfinite),
    OperatorCase("logical not", lambda a: torch.logical_not(a > 0), inputs_of("all"), backward=False),
    OperatorCase("logical not of numbers", lambda a: torch.logical_not(a.floor()), inputs_of("all"), backward=False),
    OperatorCase("logical not in place", lambda a: a.floor().logical_not_(), inputs_of("all"), backward=False),
    OperatorCase("conversions of data types", conversions, inputs_of("all"), backward=False),
    OperatorCase("conversion by the function of torch_npu", converted, inputs_of("all"), backward=False),
    OperatorCase("conversion and back", lambda a: a.half().float() * a.bfloat16().float(), inputs_of("all")),
    OperatorCase("clone", lambda a: (a.clone(), a.t().clone()), inputs_of("all")),
    OperatorCase("contiguous copy of a transposed tensor", lambda a: a.t().contiguous(), inputs_of("all")),
    OperatorCase(
        "copy into a view", lambda a: torch.zeros_like(a).t().copy_(a[:1].t()), inputs_of("all"), backward=False
    ),
    OperatorCase(
        "copy with conversion",
        lambda a: torch.zeros_like(a, dtype=torch.int32).copy_(a * 9),
        inputs_of("all"),
        backward=False,
    ),
    OperatorCase("copy of an empty tensor", lambda a: a[:0].clone(), inputs_of("all"), backward=False),
    OperatorCase(
        "real and imaginary part",
        lambda a: (
            torch.view_as_complex(a[:, :4].contiguous().view(3, 2, 2)).real,
            torch.view_as_complex(a[:, :2].contiguous()).imag,
        ),
        inputs_of("all"),
        types=FLOAT32,
        backward=False,
    ),
]

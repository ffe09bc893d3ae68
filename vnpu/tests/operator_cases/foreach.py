"""Functions on lists of tensors (``torch._foreach_*``). Each list has tensors of different shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .case import OperatorCase

FLOAT32 = ("float32",)
SHAPES = ((3, 4), (5,), (), (2, 1, 3))
COUNT = len(SHAPES)

UNARY = {
    "abs": "all",
    "acos": "unit",
    "asin": "unit",
    "atan": "all",
    "ceil": "all",
    "cos": "all",
    "cosh": "all",
    "erf": "all",
    "erfc": "all",
    "exp": "all",
    "expm1": "all",
    "floor": "all",
    "frac": "all",
    "lgamma": "positive",
    "log": "positive",
    "log10": "positive",
    "log1p": "positive",
    "log2": "positive",
    "neg": "all",
    "reciprocal": "positive",
    "round": "all",
    "rsqrt": "positive",
    "sigmoid": "all",
    "sign": "all",
    "sin": "all",
    "sinh": "all",
    "sqrt": "positive",
    "tan": "unit",
    "tanh": "all",
    "trunc": "all",
}
BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "clamp_max", "clamp_min")


def numbers(domain: str, lists: int = 1) -> Callable[[Any], tuple[torch.Tensor, ...]]:
    """The tensors of one list after those of the other; a case gets them as separate inputs."""

    def draw(generator: Any) -> tuple[torch.Tensor, ...]:
        drawn = [torch.rand(shape, generator=generator) for _ in range(lists) for shape in SHAPES]
        if domain == "positive":
            return tuple(tensor + 0.5 for tensor in drawn)
        spread = 1.5 if domain == "unit" else 6.0
        return tuple((tensor - 0.5) * spread for tensor in drawn)

    return draw


def lists_of(tensors: tuple[torch.Tensor, ...]) -> list[list[torch.Tensor]]:
    """The inputs of a case as lists again."""
    return [list(tensors[start : start + COUNT]) for start in range(0, len(tensors), COUNT)]


def copies(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """A list that may be changed in place."""
    return [tensor.clone() for tensor in tensors]


def on_lists(
    name: str, function: str, inputs: Callable[[Any], tuple[torch.Tensor, ...]], *arguments: Any, **named: Any
) -> list[OperatorCase]:
    """The cases of a function: as it is, and in place. The arguments follow the lists."""

    def call(*tensors: torch.Tensor) -> Any:
        return getattr(torch, f"_foreach_{function}")(*lists_of(tensors), *arguments, **named)

    def call_in_place(*tensors: torch.Tensor) -> Any:
        first, *others = lists_of(tensors)
        changed = copies(first)
        getattr(torch, f"_foreach_{function}_")(changed, *others, *arguments, **named)
        return changed

    return [
        OperatorCase(name, call, inputs, backward=False),
        OperatorCase(f"{name} in place", call_in_place, inputs, backward=False),
    ]


def with_tensors_of_scalars(function: str) -> Callable[..., Any]:
    """A call of addcmul or addcdiv with one tensor that has a factor for each tensor of the lists."""

    def call(*tensors: torch.Tensor) -> Any:
        return getattr(torch, f"_foreach_{function}")(*lists_of(tensors), torch.tensor([0.5, 1.0, -2.0, 3.0]))

    return call


def copied(*tensors: torch.Tensor) -> Any:
    """``_foreach_copy_``."""
    target, source = lists_of(tensors)
    target = copies(target)
    torch._foreach_copy_(target, source)
    return target


def zeroed(*tensors: torch.Tensor) -> Any:
    """``_foreach_zero_``."""
    target = copies(list(tensors))
    torch._foreach_zero_(target)
    return target


def many(*tensors: torch.Tensor) -> Any:
    """Lists longer than what the caller passes to one function; it splits them."""
    first, second = lists_of(tensors)
    changed = copies(first * 20)
    torch._foreach_add_(changed, second * 20, alpha=2)
    torch._foreach_mul_(changed, 0.5)
    torch._foreach_lerp_(changed, second * 20, 0.25)
    return changed


def integers(*tensors: torch.Tensor) -> Any:
    """Sums and products of lists of integers."""
    first, second = lists_of(tensors)
    first, second = [tensor.int() for tensor in first], [tensor.int() for tensor in second]
    return [
        *torch._foreach_add(first, second),
        *torch._foreach_mul(first, 3),
        *torch._foreach_sub(first, 2),
        *torch._foreach_maximum(first, second),
    ]


CASES = [
    *(case for name, domain in UNARY.items() for case in on_lists(name, name, numbers(domain))),
    *(case for name in BINARY for case in on_lists(f"{name} of two lists", name, numbers("positive", 2))),
    *(case for name in BINARY for case in on_lists(f"{name} of a list and a number", name, numbers("all"), 1.5)),
    *(
        case
        for name in BINARY
        for case in on_lists(f"{name} of a list and numbers", name, numbers("all"), [0.5, 1.0, -2.0, 3.0])
    ),
    *on_lists("add of two lists with alpha", "add", numbers("all", 2), alpha=0.5),
    *on_lists("subtract of two lists with alpha", "sub", numbers("all", 2), alpha=0.5),
    *on_lists("power of two lists", "pow", numbers("positive", 2)),
    *on_lists("power of a list and a number", "pow", numbers("positive"), 2.5),
    *on_lists("power of a list and numbers", "pow", numbers("positive"), [0.5, 1.0, 2.0, 3.0]),
    OperatorCase(
        "power of a number and a list",
        lambda *tensors: torch._foreach_pow(2.5, list(tensors)),
        numbers("unit"),
        backward=False,
    ),
    *on_lists("addcmul", "addcmul", numbers("all", 3), 0.5),
    *on_lists("addcmul with numbers", "addcmul", numbers("all", 3), [0.5, 1.0, -2.0, 3.0]),
    OperatorCase(
        "addcmul with a tensor of factors",
        with_tensors_of_scalars("addcmul"),
        numbers("all", 3),
        types=FLOAT32,
        backward=False,
    ),
    *on_lists("addcdiv", "addcdiv", numbers("positive", 3), 0.5),
    *on_lists("addcdiv with numbers", "addcdiv", numbers("positive", 3), [0.5, 1.0, -2.0, 3.0]),
    OperatorCase(
        "addcdiv with a tensor of factors",
        with_tensors_of_scalars("addcdiv"),
        numbers("positive", 3),
        types=FLOAT32,
        backward=False,
    ),
    *on_lists("interpolate by a number", "lerp", numbers("all", 2), 0.3),
    *on_lists("interpolate by a list", "lerp", numbers("all", 3)),
    OperatorCase("norm", lambda *tensors: torch._foreach_norm(list(tensors)), numbers("all"), backward=False),
    OperatorCase(
        "norm of order 1", lambda *tensors: torch._foreach_norm(list(tensors), 1), numbers("all"), backward=False
    ),
    OperatorCase("largest element", lambda *tensors: torch._foreach_max(list(tensors)), numbers("all"), backward=False),
    OperatorCase("copy", copied, numbers("all", 2), backward=False),
    OperatorCase("zero", zeroed, numbers("all"), backward=False),
    OperatorCase("many tensors", many, numbers("all", 2), backward=False),
    OperatorCase("integers", integers, numbers("all", 2), types=FLOAT32, backward=False),
]

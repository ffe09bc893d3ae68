"""Activation functions, softmax, and gated units."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from .case import OperatorCase


def one(generator: Any) -> tuple[torch.Tensor]:
    """A tensor of shape (3, 8) around zero."""
    return (torch.randn(3, 8, generator=generator) * 2,)


def image(generator: Any) -> tuple[torch.Tensor]:
    """A tensor of shape (2, 3, 4, 5)."""
    return (torch.randn(2, 3, 4, 5, generator=generator),)


def with_slopes(generator: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """An image and a slope for each channel."""
    return (*image(generator), torch.rand(3, generator=generator))


def with_one_slope(generator: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """A matrix and one slope."""
    return (*one(generator), torch.rand(1, generator=generator))


def nothing(_generator: Any) -> tuple[torch.Tensor]:
    """A tensor without elements."""
    return (torch.randn(0, 4),)


def zero_dimensional(generator: Any) -> tuple[torch.Tensor]:
    """A tensor without dimensions."""
    return (torch.randn((), generator=generator),)


def with_mask(generator: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores of attention, of a size that the device's kernel takes, and what to mask."""
    return torch.randn(2, 2, 32, 32, generator=generator), torch.rand(2, 2, 32, 32, generator=generator) < 0.3


def in_place(function: Any) -> Any:
    """The in-place ``function`` on something that may be overwritten, used afterwards."""
    return lambda x: function(x * 1.5)


def rrelu_is_right(result: torch.Tensor, given: torch.Tensor) -> None:
    """Slopes are within the bounds and differ, and the gradient has the same slopes."""
    assert ((result >= 0) == (given >= 0)).all()
    slopes = (result.double() / given.double())[given < 0]
    rounding = torch.finfo(result.dtype).eps
    assert ((slopes > 0.1 * (1 - rounding)) & (slopes < 0.9 * (1 + rounding))).all()
    assert slopes.numel() > 3
    assert slopes.std() > 0.05


def swiglu(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Silu of the first half times the second."""
    if x.device.type == "npu":
        return torch.ops.npu.npu_swiglu(x, dim)
    gate, value = x.chunk(2, dim)
    return functional.silu(gate) * value


def geglu(x: torch.Tensor, approximate: int, *, activate_left: bool) -> torch.Tensor:
    """Gelu of one half times the other."""
    if x.device.type == "npu":
        return torch.ops.npu.npu_geglu(x, -1, approximate, activate_left)[0]
    gate, value = x.chunk(2, -1) if activate_left else reversed(x.chunk(2, -1))
    return functional.gelu(gate, approximate="tanh" if approximate else "none") * value


def fast_gelu(x: torch.Tensor) -> torch.Tensor:
    """The input times sigmoid(1.702 * input)."""
    return torch.ops.npu.npu_fast_gelu(x) if x.device.type == "npu" else x * torch.sigmoid(1.702 * x)


def npu_gelu(x: torch.Tensor, approximate: str) -> torch.Tensor:
    """Gelu through torch_npu's own name."""
    if x.device.type == "npu":
        return torch.ops.npu.npu_gelu(x, approximate=approximate)
    return functional.gelu(x, approximate=approximate)


def gelu_mul(x: torch.Tensor) -> torch.Tensor:
    """Gelu of the first half times the second."""
    if x.device.type == "npu":
        return torch.ops.npu.npu_gelu_mul(x, approximate="none")
    gate, value = x.chunk(2, -1)
    return functional.gelu(gate) * value


CASES = [
    OperatorCase("relu", functional.relu, one),
    OperatorCase("relu of a transposed view", lambda x: functional.relu(x.transpose(1, 3)), image),
    OperatorCase("relu of nothing", functional.relu, nothing),
    OperatorCase("relu without dimensions", functional.relu, zero_dimensional),
    OperatorCase("relu in place", in_place(torch.relu_), one),
    OperatorCase("relu of integers", torch.relu, lambda _: (torch.arange(-3, 3),), ("float32",), False),
    OperatorCase("relu6", functional.relu6, one),
    OperatorCase("leaky_relu", lambda x: functional.leaky_relu(x, 0.2), one),
    OperatorCase("leaky_relu in place", in_place(lambda x: functional.leaky_relu(x, 0.2, inplace=True)), one),
    OperatorCase("prelu with a slope for each channel", functional.prelu, with_slopes),
    OperatorCase("prelu with one slope", functional.prelu, with_one_slope),
    OperatorCase("rrelu evaluated", lambda x: functional.rrelu(x, 0.1, 0.3, training=False), one),
    OperatorCase(
        "rrelu in training", lambda x: (functional.rrelu(x, 0.1, 0.9, training=True), x * 1), one, check=rrelu_is_right
    ),
    OperatorCase(
        "rrelu in place", in_place(lambda x: functional.rrelu(x, 0.1, 0.3, training=False, inplace=True)), one
    ),
    OperatorCase("threshold", lambda x: functional.threshold(x, 0.3, -2.0), one),
    OperatorCase("threshold in place", in_place(lambda x: functional.threshold(x, 0.3, -2.0, inplace=True)), one),
    OperatorCase("hardtanh", lambda x: functional.hardtanh(x, -0.5, 1.5), one),
    OperatorCase("hardtanh in place", in_place(lambda x: functional.hardtanh(x, -0.5, 1.5, inplace=True)), one),
    OperatorCase("hardshrink", lambda x: functional.hardshrink(x, 0.7), one),
    OperatorCase("softshrink", lambda x: functional.softshrink(x, 0.7), one),
    OperatorCase("tanhshrink", functional.tanhshrink, one),
    OperatorCase("sigmoid", torch.sigmoid, one),
    OperatorCase("sigmoid in place", in_place(torch.sigmoid_), one),
    OperatorCase("logsigmoid", functional.logsigmoid, one),
    OperatorCase("logsigmoid of a strided view", lambda x: functional.logsigmoid(x[:, ::2]), one),
    OperatorCase("hardsigmoid", functional.hardsigmoid, one),
    OperatorCase("hardsigmoid in place", in_place(lambda x: functional.hardsigmoid(x, inplace=True)), one),
    OperatorCase("tanh", torch.tanh, one),
    OperatorCase("softsign", functional.softsign, one),
    OperatorCase("softplus", functional.softplus, one),
    OperatorCase("softplus with beta and threshold", lambda x: functional.softplus(x, 2.0, 1.0), one),
    OperatorCase("elu", lambda x: functional.elu(x, 1.3), one),
    OperatorCase("elu in place", in_place(lambda x: functional.elu(x, 1.3, inplace=True)), one),
    OperatorCase("selu", functional.selu, one),
    OperatorCase("selu in place", in_place(torch.selu_), one),
    OperatorCase("celu", lambda x: functional.celu(x, 0.8), one),
    OperatorCase("celu in place", in_place(lambda x: torch.celu_(x, 0.8)), one),
    OperatorCase("gelu", functional.gelu, one),
    OperatorCase("gelu of a transposed view", lambda x: functional.gelu(x.t()), one),
    # torch_npu ignores the approximation, forward and backward, unless its "compatible" mode is on.
    OperatorCase("gelu with tanh", lambda x: functional.gelu(x, approximate="tanh"), one, absolute=5e-3),
    OperatorCase("npu_gelu", lambda x: npu_gelu(x, "none"), one),
    OperatorCase("npu_gelu with tanh", lambda x: npu_gelu(x, "tanh"), one),
    OperatorCase("npu_fast_gelu", fast_gelu, one),
    OperatorCase("npu_gelu_mul", gelu_mul, one, backward=False),
    OperatorCase("silu", functional.silu, one),
    OperatorCase("silu in place", in_place(lambda x: functional.silu(x, inplace=True)), one),
    OperatorCase("hardswish", functional.hardswish, one),
    OperatorCase("hardswish in place", in_place(lambda x: functional.hardswish(x, inplace=True)), one),
    OperatorCase("mish", functional.mish, one),
    OperatorCase("mish in place", in_place(lambda x: functional.mish(x, inplace=True)), one),
    OperatorCase("softmax", lambda x: functional.softmax(x, -1), one),
    OperatorCase("softmax along the channels", lambda x: functional.softmax(x, 1), image),
    OperatorCase("softmax of a transposed view", lambda x: functional.softmax(x.transpose(0, 2), -1), image),
    OperatorCase("softmax of nothing", lambda x: functional.softmax(x, -1), nothing),
    OperatorCase("softmax to float32", lambda x: functional.softmax(x, -1, dtype=torch.float32), one),
    OperatorCase("softmax2d", torch.nn.Softmax2d(), image),
    OperatorCase("softmin", lambda x: functional.softmin(x, -1), one),
    OperatorCase("log_softmax", lambda x: functional.log_softmax(x, -1), one),
    OperatorCase("log_softmax along the channels", lambda x: functional.log_softmax(x, 1), image),
    OperatorCase("log_softmax to float32", lambda x: functional.log_softmax(x, -1, dtype=torch.float32), one),
    OperatorCase("_masked_softmax", lambda x, mask: torch._masked_softmax(x, mask, 3, 2), with_mask, backward=False),
    OperatorCase("glu", lambda x: functional.glu(x, -1), one),
    OperatorCase("glu along another dimension", lambda x: functional.glu(x, 2), image),
    OperatorCase("npu_swiglu", lambda x: swiglu(x, -1), one),
    OperatorCase("npu_swiglu along another dimension", lambda x: swiglu(x, 2), image),
    OperatorCase("npu_geglu", lambda x: geglu(x, 0, activate_left=False), one),
    OperatorCase("npu_geglu with tanh and the other half", lambda x: geglu(x, 1, activate_left=True), one),
]

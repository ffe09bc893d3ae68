"""Numbers as small whole numbers, with scales and zero points."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .case import OperatorCase, normal

if TYPE_CHECKING:
    from collections.abc import Callable

FLOAT32 = ("float32",)
LOWEST_HIGHEST = {torch.qint8: (-128, 127), torch.quint8: (0, 255), torch.qint32: (-(2**31), 2**31 - 1)}


def quantized(kind: torch.dtype, scales: list[float], zero_points: list[int], dim: int) -> Callable[..., torch.Tensor]:
    """Quantize with torch_npu's function; on the CPU by what its documentation says."""

    def call(x: torch.Tensor) -> torch.Tensor:
        x = x.detach()
        scale = torch.tensor(scales, device=x.device)
        zero_point = torch.tensor(zero_points, dtype=torch.int32, device=x.device)
        if x.device.type == "npu":
            import torch_npu

            result: torch.Tensor = torch_npu.npu_quantize(x, scale, zero_point, kind, dim)
            return result
        shape = [1] * x.dim()
        shape[dim] = len(scales)
        steps = torch.round(x / scale.reshape(shape)) + zero_point.reshape(shape)
        whole = {torch.qint8: torch.int8, torch.quint8: torch.uint8, torch.qint32: torch.int32}[kind]
        return steps.clamp(*LOWEST_HIGHEST[kind]).to(whole)

    return call


def quantized_by_factor(dim: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Quantize by multiplication, with a factor and an offset for each position of a dimension."""

    def call(x: torch.Tensor) -> torch.Tensor:
        x = x.detach()
        factors = torch.linspace(5, 60, x.shape[dim]).to(x.device)
        offsets = torch.linspace(-4, 9, x.shape[dim]).to(x.device)
        if x.device.type == "npu":
            import torch_npu

            result: torch.Tensor = torch_npu.npu_quantize(x, factors, offsets, torch.qint8, dim, div_mode=False)
            return result
        shape = [-1 if place == dim % x.dim() else 1 for place in range(x.dim())]
        return (x * factors.reshape(shape) + offsets.reshape(shape)).round().clamp(-128, 127).to(torch.int8)

    return call


CASES = [
    OperatorCase(
        f"npu_quantize by factors along dimension {dim}",
        quantized_by_factor(dim),
        normal((4, 3, 5)),
        types=FLOAT32,
        backward=False,
    )
    for dim in (-1, -2)
] + [
    OperatorCase(
        f"npu_quantize to {name} {what}",
        quantized(kind, scales, zero_points, 1),
        normal((4, 3, 5)),
        types=FLOAT32,
        backward=False,
    )
    for name, kind in (("int8", torch.qint8), ("uint8", torch.quint8), ("int32", torch.qint32))
    for what, scales, zero_points in (("by one scale", [0.02], [3]), ("by three scales", [0.1, 0.01, 0.5], [0, 5, 100]))
]

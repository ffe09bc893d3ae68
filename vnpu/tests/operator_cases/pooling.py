"""Pooling: maximum, average, adaptive, and unpooling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812

from .case import OperatorCase

if TYPE_CHECKING:
    from collections.abc import Callable

SEQUENCE = (2, 4, 9)
IMAGE = (2, 4, 7, 8)
VOLUME = (2, 3, 5, 6, 7)


def shaped(*shape: int) -> Callable[[Any], tuple[torch.Tensor]]:
    """One input of this shape."""
    return lambda generator: (torch.randn(shape, generator=generator),)


def with_ties(generator: Any) -> tuple[torch.Tensor]:
    """An image with few values, so that most windows hold their maximum more than once."""
    return (torch.randint(0, 3, IMAGE, generator=generator).float(),)


def precise(pool: Callable[..., torch.Tensor], **arguments: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    """A pool that the CPU computes in float32, because it has no bfloat16 there."""
    return lambda x: pool(x.float(), **arguments).to(x.dtype) if x.device.type == "cpu" else pool(x, **arguments)


def with_indices(pool: Callable[..., Any], *arguments: Any, **options: Any) -> Callable[..., tuple[torch.Tensor, ...]]:
    """A pool that returns indices; the device has them in 32 bits for volumes."""

    def call(values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        result, indices = pool(values, *arguments, return_indices=True, **options)
        return result, indices.long()

    return call


def for_unpooling(pool: Callable[..., Any], *shape: int) -> Callable[[Any], tuple[torch.Tensor, ...]]:
    """Values, and the indices that a pool of windows of two would have left."""

    def inputs(generator: Any) -> tuple[torch.Tensor, ...]:
        _, indices = pool(torch.randn(shape, generator=generator), 2, return_indices=True)
        return torch.randn(indices.shape, generator=generator), indices

    return inputs


CASES = [
    OperatorCase("max pool 1d", lambda x: F.max_pool1d(x, 3, 2, 1), shaped(*SEQUENCE)),
    OperatorCase("max pool 2d", lambda x: F.max_pool2d(x, 2), shaped(*IMAGE)),
    OperatorCase("max pool 2d of single elements", lambda x: F.max_pool2d(x, 1), shaped(*IMAGE)),
    OperatorCase("max pool 2d with overlap and padding", lambda x: F.max_pool2d(x, 3, 2, 1), shaped(*IMAGE)),
    OperatorCase("max pool 2d rounding sizes up", lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), shaped(*IMAGE)),
    OperatorCase("max pool 2d dilated", lambda x: F.max_pool2d(x, 2, 1, 0, dilation=2), shaped(*IMAGE)),
    OperatorCase("max pool 2d of rectangles", lambda x: F.max_pool2d(x, (3, 2), (1, 2), (1, 0)), shaped(*IMAGE)),
    OperatorCase("max pool 2d of one image", lambda x: F.max_pool2d(x, 2), shaped(*IMAGE[1:])),
    OperatorCase("max pool 2d with ties", lambda x: F.max_pool2d(x, 3, 2, 1), with_ties),
    OperatorCase(
        "max pool 2d with channels last in memory", lambda x: F.max_pool2d(x.permute(0, 3, 1, 2), 2), shaped(2, 7, 8, 4)
    ),
    # The indices of the device are a mask in a layout of its own; only the values compare.
    OperatorCase(
        "max pool 2d with indices", lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True)[0], shaped(*IMAGE)
    ),
    OperatorCase("max pool 3d", lambda x: F.max_pool3d(x, 2), shaped(*VOLUME)),
    OperatorCase("max pool 3d with indices", with_indices(F.max_pool3d, 3, 2, 1, ceil_mode=True), shaped(*VOLUME)),
    OperatorCase("average pool 1d", lambda x: F.avg_pool1d(x, 3, 2, 1), shaped(*SEQUENCE)),
    OperatorCase("average pool 2d", lambda x: F.avg_pool2d(x, 2), shaped(*IMAGE)),
    OperatorCase(
        "average pool 2d without padding in the count",
        lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
        shaped(*IMAGE),
    ),
    OperatorCase(
        "average pool 2d with a divisor", lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=5), shaped(*IMAGE)
    ),
    OperatorCase(
        "average pool 2d with channels last in memory",
        lambda x: F.avg_pool2d(x.permute(0, 3, 1, 2), (2, 3)),
        shaped(2, 7, 8, 4),
    ),
    OperatorCase("average pool 3d", precise(F.avg_pool3d, kernel_size=2), shaped(*VOLUME)),
    OperatorCase(
        "average pool 3d without padding in the count",
        precise(F.avg_pool3d, kernel_size=3, stride=2, padding=1, count_include_pad=False),
        shaped(*VOLUME),
    ),
    OperatorCase("adaptive average pool 1d", lambda x: F.adaptive_avg_pool1d(x, 4), shaped(*SEQUENCE)),
    OperatorCase("adaptive average pool 2d", lambda x: F.adaptive_avg_pool2d(x, (3, 5)), shaped(*IMAGE)),
    OperatorCase("adaptive average pool 2d to one", lambda x: F.adaptive_avg_pool2d(x, 1), shaped(*IMAGE)),
    OperatorCase("adaptive average pool 2d in width", lambda x: F.adaptive_avg_pool2d(x, (None, 3)), shaped(*IMAGE)),
    OperatorCase("adaptive average pool 3d", lambda x: F.adaptive_avg_pool3d(x, (2, 3, 4)), shaped(*VOLUME)),
    OperatorCase("adaptive average pool 3d to one", lambda x: F.adaptive_avg_pool3d(x, 1), shaped(*VOLUME)),
    OperatorCase("adaptive max pool 1d", lambda x: F.adaptive_max_pool1d(x, 4), shaped(*SEQUENCE)),
    OperatorCase("adaptive max pool 2d", lambda x: F.adaptive_max_pool2d(x, (3, 4)), shaped(*IMAGE)),
    OperatorCase("adaptive max pool 2d with indices", with_indices(F.adaptive_max_pool2d, (3, 4)), shaped(*IMAGE)),
    OperatorCase("adaptive max pool 3d", with_indices(F.adaptive_max_pool3d, (2, 3, 4)), shaped(*VOLUME)),
    OperatorCase(
        "max unpool 1d",
        lambda x, i: F.max_unpool1d(x, i, 2, output_size=(9,)),
        for_unpooling(F.max_pool1d, *SEQUENCE),
    ),
    OperatorCase(
        "max unpool 2d",
        lambda x, i: F.max_unpool2d(x, i, 2, output_size=(7, 8)),
        for_unpooling(F.max_pool2d, *IMAGE),
    ),
    OperatorCase(
        "max unpool 3d",
        lambda x, i: F.max_unpool3d(x, i, 2, output_size=(5, 6, 7)),
        for_unpooling(F.max_pool3d, *VOLUME),
    ),
    OperatorCase("power average pool 2d", lambda x: F.lp_pool2d(x.square() + 1, 2, 2), shaped(*IMAGE)),
]

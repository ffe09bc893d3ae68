"""Convolutions, and the small networks made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812

from .case import OperatorCase

if TYPE_CHECKING:
    from collections.abc import Callable

SEQUENCE = (2, 4, 9)
IMAGE = (2, 4, 7, 8)
VOLUME = (2, 4, 4, 5, 6)


def tensors(*shapes: tuple[int, ...]) -> Callable[[Any], tuple[torch.Tensor, ...]]:
    """Inputs of these shapes."""
    return lambda generator: tuple(torch.randn(shape, generator=generator) for shape in shapes)


def residual_block(image: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
    """A block of ResNet: two convolutions with batch norms, and a shortcut that halves the image."""
    first, second, shortcut, scale, shift = weights

    def normalized(values: torch.Tensor) -> torch.Tensor:
        return F.batch_norm(values, None, None, scale, shift, training=True)

    hidden = F.relu(normalized(F.conv2d(image, first, stride=2, padding=1)))
    hidden = normalized(F.conv2d(hidden, second, padding=1))
    return F.relu(hidden + normalized(F.conv2d(image, shortcut, stride=2)))


def training_steps(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Three steps of SGD with momentum on a small convolutional classifier; returns the losses and the parameters."""
    images, targets, *parameters = (value.detach().clone() for value in inputs)
    for parameter in parameters:
        parameter.requires_grad_(True)
    kernel, bias, scale, shift, weight, offset = parameters
    running_mean, running_variance = torch.zeros_like(scale), torch.ones_like(scale)
    optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
    losses = []
    for _ in range(3):
        with torch.enable_grad():
            hidden = F.conv2d(images, kernel, bias, padding=1)
            hidden = F.batch_norm(hidden, running_mean, running_variance, scale, shift, training=True)
            hidden = F.max_pool2d(F.relu(hidden), 2)
            features = F.adaptive_avg_pool2d(hidden, (2, 2)).flatten(1)
            loss = F.cross_entropy(F.linear(features, weight, offset), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return (torch.stack(losses), *(parameter.detach() for parameter in parameters), running_mean, running_variance)


def depthwise(image: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """The operator for one group for each channel, which only devices have."""
    if image.device.type == "cpu":
        return F.conv2d(image, weight, bias, padding=1, groups=4)
    return torch._C._nn._conv_depthwise2d(image, weight, (3, 3), bias, (1, 1), (1, 1), (1, 1))


CASES = [
    OperatorCase("conv1d", F.conv1d, tensors(SEQUENCE, (6, 4, 3), (6,))),
    OperatorCase(
        "conv1d dilated without bias",
        lambda x, w: F.conv1d(x, w, padding=2, dilation=2, stride=2),
        tensors(SEQUENCE, (6, 4, 3)),
    ),
    OperatorCase("conv2d", F.conv2d, tensors(IMAGE, (6, 4, 3, 3), (6,))),
    OperatorCase("conv2d one by one", F.conv2d, tensors(IMAGE, (6, 4, 1, 1), (6,))),
    OperatorCase(
        "conv2d with stride and groups",
        lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=(1, 2), groups=2),
        tensors(IMAGE, (6, 2, 3, 3), (6,)),
    ),
    OperatorCase(
        "conv2d dilated", lambda x, w, b: F.conv2d(x, w, b, padding=2, dilation=2), tensors(IMAGE, (6, 4, 3, 3), (6,))
    ),
    OperatorCase(
        "conv2d with a group for each channel",
        lambda x, w, b: F.conv2d(x, w, b, padding=1, groups=4),
        tensors(IMAGE, (8, 1, 3, 3), (8,)),
    ),
    OperatorCase(
        "conv2d padded to the same size",
        lambda x, w, b: F.conv2d(x, w, b, padding="same"),
        tensors(IMAGE, (4, 4, 3, 3), (4,)),
    ),
    OperatorCase("conv2d of one image", F.conv2d, tensors(IMAGE[1:], (6, 4, 3, 3), (6,))),
    OperatorCase(
        "conv2d with channels last in memory",
        lambda x, w: F.conv2d(x.permute(0, 3, 1, 2), w),
        tensors((2, 7, 8, 4), (6, 4, 3, 3)),
    ),
    OperatorCase("conv2d of a slice", lambda x, w: F.conv2d(x[:, 1:5, ::2], w), tensors((2, 6, 14, 8), (6, 4, 3, 3))),
    OperatorCase("conv3d", F.conv3d, tensors(VOLUME, (6, 4, 3, 3, 3), (6,))),
    OperatorCase(
        "conv3d with stride and groups",
        lambda x, w: F.conv3d(x, w, stride=(1, 2, 2), padding=1, groups=2),
        tensors(VOLUME, (4, 2, 3, 3, 3)),
    ),
    OperatorCase(
        "transposed conv1d", lambda x, w, b: F.conv_transpose1d(x, w, b, stride=2), tensors(SEQUENCE, (4, 6, 3), (6,))
    ),
    OperatorCase(
        "transposed conv2d",
        lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1),
        tensors(IMAGE, (4, 6, 3, 3), (6,)),
    ),
    OperatorCase(
        "transposed conv2d with groups and dilation",
        lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, groups=2, dilation=2),
        tensors(IMAGE, (4, 3, 3, 3)),
    ),
    OperatorCase(
        "transposed conv3d",
        lambda x, w, b: F.conv_transpose3d(x, w, b, stride=2),
        tensors(VOLUME, (4, 3, 2, 2, 2), (3,)),
    ),
    OperatorCase(
        "conv in the order time batch channel",
        lambda x, w, b: torch.conv_tbc(x, w, b, 1),
        tensors((9, 2, 4), (3, 4, 6), (6,)),
    ),
    # torch_npu's backward of this operator names one group, which does not fit the weights.
    OperatorCase("depthwise conv2d", depthwise, tensors(IMAGE, (4, 1, 3, 3), (4,)), backward=False),
    OperatorCase(
        "residual block",
        residual_block,
        tensors(IMAGE, (6, 4, 3, 3), (6, 6, 3, 3), (6, 4, 1, 1), (6,), (6,)),
        # There are seven roundings to bfloat16 in a row. The two devices make some of them in another order.
        types=("float32",),
        absolute=1e-5,
    ),
    OperatorCase(
        "training steps of a convolutional network",
        training_steps,
        lambda generator: (
            torch.randn(4, 3, 8, 8, generator=generator),
            torch.randint(0, 5, (4,), generator=generator),
            *tensors((6, 3, 3, 3), (6,), (6,), (6,), (5, 24), (5,))(generator),
        ),
        types=("float32",),
        backward=False,
        absolute=1e-5,
    ),
]

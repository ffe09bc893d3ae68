"""Normalisation: batch, layer, group, instance and root-mean-square norms, plain and as torch_npu's fused operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812

from .case import OperatorCase

if TYPE_CHECKING:
    from collections.abc import Callable

IMAGE = (2, 4, 7, 8)
CHANNELS = (4,)


def tensors(*shapes: tuple[int, ...]) -> Callable[[Any], tuple[torch.Tensor, ...]]:
    """Inputs of these shapes."""
    return lambda generator: tuple(torch.randn(shape, generator=generator) for shape in shapes)


def precise(call: Callable[..., Any]) -> Callable[..., Any]:
    """A call that the CPU makes in float32.

    In bfloat16 the CPU sums gradients of weights in bfloat16 too. Its error is larger than the rounding of the result.
    The device sums in float32.
    """

    def chosen(*inputs: torch.Tensor) -> Any:
        if inputs[0].device.type != "cpu" or inputs[0].dtype == torch.float32:
            return call(*inputs)
        results = call(*(value.float() for value in inputs))
        if isinstance(results, torch.Tensor):
            return results.to(inputs[0].dtype)
        return tuple(result.to(inputs[0].dtype) for result in results)

    return chosen


def batch_norm(*, training: bool, momentum: float = 0.1) -> Callable[..., tuple[torch.Tensor, ...]]:
    """A batch norm whose running statistics are results too."""

    def call(values: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, ...]:
        mean = torch.full((values.shape[1],), 0.25, device=values.device, dtype=values.dtype)
        variance = torch.full((values.shape[1],), 1.5, device=values.device, dtype=values.dtype)
        result = F.batch_norm(values, mean, variance, weight, bias, training, momentum)
        return result, mean, variance

    return call


def batch_norm_module(*, training: bool, **options: Any) -> Callable[[torch.Tensor], tuple[torch.Tensor, ...]]:
    """Two passes of a batch norm module, and its buffers."""

    def call(values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        module = torch.nn.BatchNorm2d(4, device=values.device, dtype=values.dtype, **options).train(training)
        first = module(values)
        return first, module(first * 2 + 1), *(buffer.clone() for buffer in module.buffers())

    return call


def synchronized(
    values: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, gradient: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """The pieces of SyncBatchNorm, with the statistics of two processes. One process sees its values shifted by one.

    The CPU does not have them, so there the results are worked out by formula.
    """
    on_device = values.device.type != "cpu"
    count = values.numel() // values.shape[1]
    dimensions = [0, 2, 3]
    running_mean = torch.zeros(4, device=values.device)
    running_variance = torch.ones(4, device=values.device)
    if on_device:
        mean, deviation = torch.batch_norm_stats(values, 1e-5)
        counts = torch.tensor([float(count), float(count)], device=values.device)
        all_mean, all_deviation = torch.batch_norm_gather_stats_with_counts(
            values,
            torch.stack([mean, mean + 1]),
            torch.stack([deviation, deviation]),
            running_mean,
            running_variance,
            0.1,
            1e-5,
            counts,
        )
        result = torch.batch_norm_elemt(values, weight, bias, all_mean, all_deviation, 1e-5)
        total, product, of_weight, of_bias = torch.batch_norm_backward_reduce(
            gradient, values, all_mean, all_deviation, weight, True, True, True
        )
        of_values = torch.batch_norm_backward_elemt(
            gradient, values, all_mean, all_deviation, weight, total, product, counts.int()
        )
    else:
        wide, incoming = values.float(), gradient.float()

        def spread(channels: torch.Tensor) -> torch.Tensor:
            return channels.float().view(1, -1, 1, 1)

        mean = wide.mean(dimensions)
        deviation = (wide.var(dimensions, unbiased=False) + 1e-5).rsqrt()
        all_mean, all_variance = mean + 0.5, wide.var(dimensions, unbiased=False) + 0.25
        all_deviation = (all_variance + 1e-5).rsqrt()
        running_mean.copy_(0.1 * all_mean)
        running_variance.copy_(0.9 + 0.1 * all_variance * 2 * count / (2 * count - 1))
        centered = wide - spread(all_mean)
        result = (centered * spread(all_deviation) * spread(weight) + spread(bias)).to(values.dtype)
        total, product = incoming.sum(dimensions), (incoming * centered).sum(dimensions)
        of_weight, of_bias = product * all_deviation, total
        of_values = incoming - spread(total) / (2 * count)
        of_values = of_values - centered * spread(all_deviation) ** 2 * spread(product) / (2 * count)
        of_values = (of_values * spread(all_deviation) * spread(weight)).to(values.dtype)
    return (
        *(mean, deviation, all_mean, all_deviation, running_mean, running_variance),
        *(result, total, product, of_weight.float(), of_bias.float(), of_values),
    )


def synchronized_sums(values: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """torch_npu's own pieces of SyncBatchNorm, which pass sums instead of means."""
    count, dimensions = values.numel() // values.shape[1], [0, 2, 3]
    running_mean = torch.zeros(4, device=values.device)
    running_variance = torch.ones(4, device=values.device)
    if values.device.type == "cpu":
        total, squares = values.sum(dimensions), values.square().sum(dimensions)
        mean = total / count
        variance = squares / count - mean.square()
        running_mean.copy_(0.1 * mean)
        running_variance.copy_(0.9 + 0.1 * variance * 2 * count / (2 * count - 1))
        return total, squares, mean, (variance + 1e-5).rsqrt(), running_mean, running_variance
    import torch_npu

    total, squares = torch_npu.batch_norm_reduce(values, 1e-5)
    mean, deviation = torch_npu.batch_norm_gather_stats_update(
        values,
        torch.stack([total, total]),
        torch.stack([squares, squares]),
        running_mean,
        running_variance,
        0.1,
        1e-5,
        torch.tensor([count, count], device=values.device, dtype=torch.int32),
    )
    return total, squares, mean, deviation, running_mean, running_variance


def rms_norm(values: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """torch_npu's root-mean-square norm, or its formula in float32."""
    if values.device.type == "cpu":
        wide = values.float()
        scaled = wide * (wide.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * weight.float()
        return scaled.to(values.dtype)
    import torch_npu

    return torch_npu.npu_rms_norm(values, weight, 1e-6)[0]


def gemma_rms_norm(values: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The root-mean-square norm whose weights are added to one."""
    if values.device.type == "cpu":
        return rms_norm(values, weight + 1)
    import torch_npu

    return torch_npu.npu_gemma_rms_norm(values, weight, 1e-6)[0]


def add_rms_norm(first: torch.Tensor, second: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The norm of a sum, and the sum."""
    if first.device.type == "cpu":
        total = first.float() + second.float()
        return rms_norm(total, weight.float()).to(first.dtype), total.to(first.dtype)
    import torch_npu

    result, _, total = torch_npu.npu_add_rms_norm(first, second, weight, 1e-6)
    return result, total


def add_rms_norm_in_place(first: torch.Tensor, second: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The same in the memory of the addends."""
    if first.device.type == "cpu":
        return add_rms_norm(first, second, weight)
    import torch_npu

    first, second = first.clone(), second.clone()
    torch_npu.npu_add_rms_norm_v2(first, second, weight, epsilon=1e-6)
    return first, second


def add_rms_norm_cast(first: torch.Tensor, second: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The same, with the norm in float32 as well."""
    result, total = add_rms_norm(first, second, weight)
    if first.device.type == "cpu":
        return rms_norm(first.float() + second.float(), weight.float()), result, total
    import torch_npu

    wide, result, _, total = torch_npu.npu_add_rms_norm_cast(first, second, weight, 1e-6)
    return wide, result, total


def add_layer_norm(
    first: torch.Tensor, second: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """The layer norm of a sum, and the sum."""
    if first.device.type == "cpu":
        return F.layer_norm(first + second, weight.shape, weight, bias), first + second
    import torch_npu

    result, _, _, total = torch_npu.npu_add_layer_norm(first, second, weight, bias, 1e-5, True)
    return result, total


def deep_norm(residual: torch.Tensor, branch: torch.Tensor, bias: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The layer norm of DeepNet, which weighs the residual stream."""
    if residual.device.type == "cpu":
        return F.layer_norm(residual * 0.3 + branch, weight.shape, weight, bias, 1e-6)
    import torch_npu

    return torch_npu.npu_deep_norm(residual, branch, bias, weight, 0.3, 1e-6)[2]


def group_norm_silu(values: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Group norm and SiLU at once."""
    if values.device.type == "cpu":
        return F.silu(F.group_norm(values, 2, weight, bias))
    import torch_npu

    return torch_npu.npu_group_norm_silu(values, weight, bias, 2)[0]


def group_norm_swish(values: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Group norm and SiLU with a scale at once."""
    if values.device.type == "cpu":
        normalized = F.group_norm(values, 2, weight, bias)
        return normalized * torch.sigmoid(normalized * 1.5)
    import torch_npu

    return torch_npu.npu_group_norm_swish(values, 2, weight, bias, eps=1e-5, swish_scale=1.5)[0]


CASES = [
    OperatorCase("batch norm in training", precise(batch_norm(training=True)), tensors(IMAGE, CHANNELS, CHANNELS)),
    OperatorCase("batch norm in evaluation", precise(batch_norm(training=False)), tensors(IMAGE, CHANNELS, CHANNELS)),
    OperatorCase(
        "batch norm with a momentum",
        precise(batch_norm(training=True, momentum=0.5)),
        tensors(IMAGE, CHANNELS, CHANNELS),
    ),
    OperatorCase("batch norm of vectors", precise(batch_norm(training=True)), tensors((6, 4), CHANNELS, CHANNELS)),
    OperatorCase("batch norm of sequences", precise(batch_norm(training=True)), tensors((2, 4, 9), CHANNELS, CHANNELS)),
    OperatorCase(
        "batch norm of volumes", precise(batch_norm(training=True)), tensors((2, 4, 2, 3, 4), CHANNELS, CHANNELS)
    ),
    OperatorCase(
        "batch norm with channels last in memory",
        precise(lambda x, w, b: batch_norm(training=True)(x.permute(0, 3, 1, 2), w, b)),
        tensors((2, 7, 8, 4), CHANNELS, CHANNELS),
    ),
    OperatorCase(
        "batch norm without anything",
        lambda x: F.batch_norm(x, None, None, training=True),
        tensors(IMAGE),
    ),
    OperatorCase(
        "batch norm module", batch_norm_module(training=True), tensors(IMAGE), types=("float32",), absolute=1e-5
    ),
    OperatorCase(
        "batch norm module in evaluation",
        batch_norm_module(training=False),
        tensors(IMAGE),
        types=("float32",),
        absolute=1e-5,
    ),
    OperatorCase(
        "batch norm module without running statistics",
        batch_norm_module(training=True, track_running_stats=False),
        tensors(IMAGE),
        types=("float32",),
        absolute=1e-5,
    ),
    OperatorCase(
        "batch norm module in evaluation without running statistics",
        batch_norm_module(training=False, track_running_stats=False),
        tensors(IMAGE),
        types=("float32",),
        absolute=1e-5,
    ),
    OperatorCase(
        "batch norm module with a cumulative average",
        batch_norm_module(training=True, momentum=None, affine=False),
        tensors(IMAGE),
        types=("float32",),
        absolute=1e-5,
    ),
    OperatorCase(
        "synchronized batch norm",
        synchronized,
        tensors(IMAGE, CHANNELS, CHANNELS, IMAGE),
        backward=False,
    ),
    OperatorCase(
        "synchronized batch norm by sums", synchronized_sums, tensors(IMAGE), types=("float32",), backward=False
    ),
    OperatorCase(
        "instance norm",
        precise(lambda x, w, b: F.instance_norm(x, weight=w, bias=b)),
        tensors(IMAGE, CHANNELS, CHANNELS),
    ),
    OperatorCase("instance norm of sequences without weights", F.instance_norm, tensors((2, 4, 9))),
    OperatorCase(
        "instance norm with running statistics",
        lambda x: F.instance_norm(
            x, torch.zeros(4, device=x.device), torch.ones(4, device=x.device), use_input_stats=False
        ),
        tensors(IMAGE),
        types=("float32",),
    ),
    OperatorCase("layer norm", precise(lambda x, w, b: F.layer_norm(x, (8,), w, b)), tensors(IMAGE, (8,), (8,))),
    OperatorCase(
        "layer norm over two dimensions",
        precise(lambda x, w, b: F.layer_norm(x, (7, 8), w, b)),
        tensors(IMAGE, (7, 8), (7, 8)),
    ),
    OperatorCase("layer norm without weights", lambda x: F.layer_norm(x, (8,)), tensors(IMAGE)),
    OperatorCase("layer norm without bias", precise(lambda x, w: F.layer_norm(x, (8,), w)), tensors(IMAGE, (8,))),
    OperatorCase(
        "layer norm of a transposed tensor",
        precise(lambda x, w, b: F.layer_norm(x.transpose(1, 3), (4,), w, b)),
        tensors(IMAGE, CHANNELS, CHANNELS),
    ),
    OperatorCase("layer norm of nothing", lambda x, w, b: F.layer_norm(x, (4,), w, b), tensors((0, 4), (4,), (4,))),
    OperatorCase("group norm", precise(lambda x, w, b: F.group_norm(x, 2, w, b)), tensors(IMAGE, CHANNELS, CHANNELS)),
    OperatorCase("group norm of sequences without weights", lambda x: F.group_norm(x, 4), tensors((2, 4, 9))),
    OperatorCase(
        "group norm of vectors", precise(lambda x, w, b: F.group_norm(x, 2, w, b)), tensors((3, 4), (4,), (4,))
    ),
    OperatorCase(
        "group norm with channels last in memory",
        precise(lambda x, w, b: F.group_norm(x.permute(0, 3, 1, 2), 2, w, b)),
        tensors((2, 7, 8, 4), CHANNELS, CHANNELS),
    ),
    OperatorCase("group norm and silu", precise(group_norm_silu), tensors(IMAGE, CHANNELS, CHANNELS), backward=False),
    OperatorCase("group norm and swish", precise(group_norm_swish), tensors(IMAGE, CHANNELS, CHANNELS)),
    OperatorCase("root mean square norm", precise(lambda x, w: F.rms_norm(x, (8,), w)), tensors(IMAGE, (8,))),
    OperatorCase("root mean square norm without weights", precise(lambda x: F.rms_norm(x, (8,))), tensors(IMAGE)),
    OperatorCase("fused root mean square norm", rms_norm, tensors(IMAGE, (8,))),
    OperatorCase("root mean square norm of gemma", gemma_rms_norm, tensors(IMAGE, (8,)), backward=False),
    OperatorCase("addition and root mean square norm", add_rms_norm, tensors(IMAGE, IMAGE, (8,)), backward=False),
    OperatorCase(
        "addition and root mean square norm in place",
        add_rms_norm_in_place,
        tensors(IMAGE, IMAGE, (8,)),
        backward=False,
    ),
    OperatorCase(
        "addition and root mean square norm in two types",
        add_rms_norm_cast,
        tensors(IMAGE, IMAGE, (8,)),
        types=("bfloat16",),
        backward=False,
    ),
    OperatorCase("addition and layer norm", precise(add_layer_norm), tensors(IMAGE, IMAGE, (8,), (8,))),
    OperatorCase("deep norm", precise(deep_norm), tensors(IMAGE, IMAGE, (8,), (8,))),
    OperatorCase("local response norm", precise(lambda x: F.local_response_norm(x, 2)), tensors(IMAGE)),
    OperatorCase("normalize", lambda x: F.normalize(x, dim=1), tensors(IMAGE)),
    OperatorCase("weight norm", lambda v, g: torch._weight_norm(v, g, 0), tensors((6, 4), (6, 1))),
]

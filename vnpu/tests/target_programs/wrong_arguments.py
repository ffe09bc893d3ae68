"""Calls with wrong arguments, of every family of operators: on the CPU, on the NPU, and a right call after each.

Prints a JSON object: by name of a call the errors on the CPU and on the NPU, null for none, and what came after.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

INT64 = torch.int64


def ones(device: str, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Ones on a device."""
    return torch.ones(shape, dtype=dtype, device=device)


# By family and what is wrong: the call, which gets a device. None of them depends on data.
CALLS: dict[str, Callable[[str], Any]] = {
    "activations: glu of an odd size": lambda d: functional.glu(ones(d, 2, 3)),
    "activations: prelu with too many weights": lambda d: functional.prelu(ones(d, 2, 3), ones(d, 2)),
    "activations: softmax over a missing dimension": lambda d: functional.softmax(ones(d, 2, 3), 4),
    "activations: gelu of whole numbers": lambda d: functional.gelu(ones(d, 2, 3, dtype=INT64)),
    "attention: different head sizes": lambda d: functional.scaled_dot_product_attention(
        ones(d, 2, 4, 8, 16), ones(d, 2, 4, 8, 24), ones(d, 2, 4, 8, 24)
    ),
    "attention: different batches": lambda d: functional.scaled_dot_product_attention(
        ones(d, 2, 4, 8, 16), ones(d, 3, 4, 8, 16), ones(d, 3, 4, 8, 16)
    ),
    "comparison: shapes that do not fit": lambda d: ones(d, 2, 3) < ones(d, 2, 4),
    "comparison: equal into floats of another shape": lambda d: torch.where(
        ones(d, 2, 3) > 0, ones(d, 2, 4), ones(d, 2, 3)
    ),
    "convolution: wrong channels": lambda d: functional.conv2d(ones(d, 1, 3, 8, 8), ones(d, 4, 2, 3, 3)),
    "convolution: kernel larger than the input": lambda d: functional.conv2d(ones(d, 1, 3, 2, 2), ones(d, 4, 3, 5, 5)),
    "convolution: wrong bias": lambda d: functional.conv2d(ones(d, 1, 3, 8, 8), ones(d, 4, 3, 3, 3), ones(d, 5)),
    "creation: a step away from the end": lambda d: torch.arange(5, 1, 1, device=d),
    "creation: negative size": lambda d: torch.eye(-2, device=d),
    "embedding: positions in floats": lambda d: functional.embedding(ones(d, 3), ones(d, 5, 4)),
    "embedding: a table of no dimension": lambda d: functional.embedding(ones(d, 3, dtype=INT64), ones(d)),
    "foreach: lists of different lengths": lambda d: torch._foreach_add([ones(d, 2)], [ones(d, 2), ones(d, 2)]),
    "foreach: shapes that do not fit": lambda d: torch._foreach_mul([ones(d, 2), ones(d, 3)], [ones(d, 2), ones(d, 4)]),
    "foreach: too few numbers": lambda d: torch._foreach_mul([ones(d, 2), ones(d, 2)], [1.0]),
    "indexing: gather with floats": lambda d: torch.gather(ones(d, 2, 3), 1, ones(d, 2, 3)),
    "indexing: gather with too many dimensions": lambda d: torch.gather(
        ones(d, 2, 3), 1, ones(d, 2, 3, 1, dtype=INT64)
    ),
    "indexing: scatter of a larger index": lambda d: ones(d, 2, 3).scatter(
        1, ones(d, 4, 3, dtype=INT64), ones(d, 2, 3)
    ),
    "indexing: select by a matrix": lambda d: torch.index_select(ones(d, 2, 3), 0, ones(d, 2, 2, dtype=INT64)),
    "indexing: a mask of another shape": lambda d: ones(d, 2, 3).masked_fill(ones(d, 2, 4) > 0, 1.0),
    "indexing: positions that do not fit": lambda d: ones(d, 4, 4)[ones(d, 2, dtype=INT64), ones(d, 3, dtype=INT64)],
    "linear algebra: matmul of wrong sizes": lambda d: ones(d, 2, 3) @ ones(d, 4, 5),
    "linear algebra: addmm with a wrong bias": lambda d: torch.addmm(ones(d, 7), ones(d, 2, 3), ones(d, 3, 5)),
    "linear algebra: bmm of different batches": lambda d: torch.bmm(ones(d, 2, 3, 4), ones(d, 3, 4, 5)),
    "linear algebra: matmul of two data types": lambda d: ones(d, 2, 3) @ ones(d, 3, 5, dtype=torch.bfloat16),
    "linear algebra: trace of three dimensions": lambda d: torch.trace(ones(d, 2, 2, 2)),
    "linear algebra: inverse of no square": lambda d: torch.linalg.inv(ones(d, 2, 3)),
    "losses: targets of another batch": lambda d: functional.cross_entropy(ones(d, 4, 5), ones(d, 3, dtype=INT64)),
    "losses: mse of wrong shapes": lambda d: functional.mse_loss(ones(d, 4, 5), ones(d, 3, 5)),
    "losses: nll with wrong weights": lambda d: functional.nll_loss(
        ones(d, 4, 5), ones(d, 4, dtype=INT64), weight=ones(d, 3)
    ),
    "losses: binary cross entropy of wrong shapes": lambda d: functional.binary_cross_entropy(ones(d, 4), ones(d, 3)),
    "normalization: layer norm of another shape": lambda d: functional.layer_norm(ones(d, 2, 3), (4,), ones(d, 4)),
    "normalization: batch norm with wrong weights": lambda d: functional.batch_norm(
        ones(d, 2, 3, 4), ones(d, 3), ones(d, 3), ones(d, 5), ones(d, 3)
    ),
    "normalization: group norm of odd channels": lambda d: functional.group_norm(ones(d, 2, 5, 4), 2),
    "optimizers: a gradient of another shape": lambda d: ones(d, 2, 3).addcdiv_(ones(d, 2, 4), ones(d, 2, 4)),
    "optimizers: moments of another shape": lambda d: ones(d, 2, 3).lerp_(ones(d, 3, 3), 0.1),
    "pointwise: shapes that do not fit": lambda d: ones(d, 2, 3) + ones(d, 2, 4),
    "pointwise: in place into a smaller one": lambda d: ones(d, 3).add_(ones(d, 2, 3)),
    "pointwise: in place into whole numbers": lambda d: ones(d, 3, dtype=INT64).mul_(1.5),
    "pointwise: negative power of whole numbers": lambda d: ones(d, 3, dtype=INT64).pow(-1),
    "pointwise: difference of truth values": lambda d: (ones(d, 3) > 0) - (ones(d, 3) > 0),
    "pooling: kernel larger than the input": lambda d: functional.max_pool2d(ones(d, 1, 1, 2, 2), 5),
    "pooling: too much padding": lambda d: functional.avg_pool2d(ones(d, 1, 1, 8, 8), 2, padding=3),
    "pooling: adaptive of one dimension": lambda d: functional.adaptive_avg_pool2d(ones(d, 4), (2, 2)),
    "random numbers: a probability above 1": lambda d: ones(d, 4).bernoulli_(1.5),
    "random numbers: negative deviation": lambda d: ones(d, 4).normal_(0.0, -1.0),
    "random numbers: too many samples": lambda d: torch.multinomial(ones(d, 4), 5),
    "recurrent: wrong input size": lambda d: torch.nn.LSTM(3, 4).to(d)(ones(d, 5, 2, 7)),
    "recurrent: wrong state": lambda d: torch.nn.GRU(3, 4).to(d)(ones(d, 5, 2, 3), ones(d, 1, 3, 4)),
    "recurrent: wrong size of both layers": lambda d: torch.nn.GRU(3, 4, 2).to(d)(ones(d, 5, 2, 4)),
    "reductions: sum over a missing dimension": lambda d: ones(d, 2, 3).sum(5),
    "reductions: sum twice over a dimension": lambda d: ones(d, 2, 3).sum((1, 1)),
    "reductions: mean of whole numbers": lambda d: ones(d, 2, 3, dtype=INT64).mean(),
    "reductions: largest of nothing": lambda d: ones(d, 0).max(),
    "reductions: median over a missing dimension": lambda d: ones(d, 2, 3).median(2),
    "resampling: no output": lambda d: functional.interpolate(ones(d, 1, 1, 4, 4), size=(0, 0)),
    "resampling: a grid of another batch": lambda d: functional.grid_sample(
        ones(d, 2, 1, 4, 4), ones(d, 3, 4, 4, 2), align_corners=False
    ),
    "shapes: flip twice over a dimension": lambda d: torch.flip(ones(d, 2, 3), (1, 1)),
    "shapes: cat of wrong sizes": lambda d: torch.cat([ones(d, 2, 3), ones(d, 2, 4)], 0),
    "shapes: stack of wrong sizes": lambda d: torch.stack([ones(d, 2, 3), ones(d, 2, 4)]),
    "shapes: roll of too few dimensions": lambda d: torch.roll(ones(d, 2, 3), (1, 1), (0,)),
    "shapes: reflection larger than the input": lambda d: functional.pad(ones(d, 1, 2, 3), (4, 4), "reflect"),
    "shapes: copy of another shape": lambda d: ones(d, 2, 3).copy_(ones(d, 2, 4)),
    "shapes: repeat of too few dimensions": lambda d: ones(d, 2, 3).repeat(2),
    "sorting: topk of more than there are": lambda d: torch.topk(ones(d, 2, 3), 5),
    "sorting: sort over a missing dimension": lambda d: torch.sort(ones(d, 2, 3), 3),
    "sorting: kth of more than there are": lambda d: torch.kthvalue(ones(d, 2, 3), 9),
    "unary: negative of truth values": lambda d: -(ones(d, 3) > 0),
    "unary: exponential into whole numbers": lambda d: ones(d, 3, dtype=INT64).exp_(),
    "unary: triangle of one dimension": lambda d: torch.tril(ones(d, 3)),
}


def error_of(call: Callable[[str], Any], device: str) -> str | None:
    """The error that the call raises, without waiting for the device."""
    try:
        call(device)
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def main() -> None:
    """Make all calls."""
    outcomes = {}
    for number, (name, call) in enumerate(CALLS.items()):
        on_cpu, on_npu = error_of(call, "cpu"), error_of(call, "npu")
        try:
            after: Any = (ones("npu", 2, 3) * number).sum().item() / 6
        except RuntimeError as error:
            after = str(error)
        outcomes[name] = {"cpu": on_cpu, "npu": on_npu, "after": after, "expected": number}
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main()

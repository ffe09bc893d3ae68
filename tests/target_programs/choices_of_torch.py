"""Torch decides by whether a mode is active how it computes these; prints what memory each took and gave back.

Arguments: the file to write to; the device, `cpu` or `npu`; `mode` or `calls`, if wanted. With `mode` the program has a
mode of its own; with `calls` it begins recording by a call.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode

DEVICE = sys.argv[2]


class OwnMode(TorchDispatchMode):
    """A mode of the program, which changes nothing."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call it."""
        return func(*args, **(kwargs or {}))


def tensor(*shape: int) -> torch.Tensor:
    """Return the same numbers for the same shape."""
    return torch.linspace(-1.0, 1.0, torch.Size(shape).numel(), device=DEVICE).reshape(shape).requires_grad_()


def summed_gradients() -> None:
    """A tensor that several operators read: its gradients are summed."""
    value = tensor(64, 256)
    (value.sin() + value.cos() + value.exp()).sum().backward()


def accumulated_gradients() -> None:
    """Gradients of several passes are summed in a parameter."""
    layer = torch.nn.Linear(128, 128, device=DEVICE)
    for _ in range(3):
        layer(tensor(32, 128)).square().sum().backward()


def reshaped_copies() -> None:
    """A view where that is possible, a copy where not."""
    value = tensor(32, 64)
    (value.reshape(64, 32) * value.t().reshape(64, 32)).sum().backward()


def pooled() -> None:
    """Pooling without gradients needs no indices."""
    with torch.no_grad():
        functional.max_pool1d(tensor(4, 8, 128), 2)


def multiplied_with_bias() -> None:
    """A product of three dimensions with a bias."""
    functional.linear(tensor(4, 16, 64), tensor(32, 64), tensor(32)).sum().backward()


def cross_entropy_of_probabilities() -> None:
    """Targets that are probabilities, and smoothed ones."""
    functional.cross_entropy(
        tensor(32, 64), torch.full((32, 64), 1 / 64, device=DEVICE), label_smoothing=0.1
    ).backward()
    functional.cross_entropy(tensor(32, 64), torch.arange(32, device=DEVICE), label_smoothing=0.1).backward()


def attention() -> None:
    """Attention with a mask, by its definition."""
    query, key, value = tensor(2, 4, 32, 16), tensor(2, 4, 32, 16), tensor(2, 4, 32, 16)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        functional.scaled_dot_product_attention(query, key, value, is_causal=True).sum().backward()


def losses() -> None:
    """Losses that are written in place where that is possible."""
    left, right, sign = tensor(1024), tensor(1024) * 0.5, torch.ones(1024)
    functional.margin_ranking_loss(left, right, sign, margin=0.1).backward()
    functional.hinge_embedding_loss(tensor(1024), sign).backward()
    logits = tensor(32, 4, 8).log_softmax(2)
    functional.ctc_loss(
        logits, torch.ones(4, 5, dtype=torch.long), torch.full((4,), 32), torch.full((4,), 5)
    ).backward()


def products_and_indices() -> None:
    """Backward passes that fill a tensor of zeros in place."""
    tensor(32, 32).cumprod(0).sum().backward()
    tensor(32, 32).cummax(0).values.sum().backward()
    index = torch.zeros(32, 32, dtype=torch.long)
    tensor(32, 32).gather(0, index).sum().backward()
    value = tensor(32, 32)
    value[:, :].masked_select(value.detach() > 0).sum().backward()
    value.index_select(0, index[0]).sum().backward()
    value.trace().backward()
    torch.dist(tensor(256), tensor(256) * 2, 2).backward()
    functional.embedding_bag(torch.arange(16), tensor(16, 8), torch.tensor([0, 4])).sum().backward()


def isolated_values() -> None:
    """Values compared, and the eigenvalues of a matrix."""
    value = tensor(32, 32).detach()
    torch.isclose(value, value + 1)
    torch.addr(value, value[0], value[1])
    torch.linalg.eigvalsh(value)
    torch.linalg.svdvals(value)


ON_EVERY_DEVICE = (
    summed_gradients,
    accumulated_gradients,
    reshaped_copies,
    multiplied_with_bias,
    cross_entropy_of_probabilities,
    attention,
)
CASES = {"cpu": (*ON_EVERY_DEVICE, pooled, losses, products_and_indices, isolated_values), "npu": ON_EVERY_DEVICE}[
    DEVICE
]


def memory_on_the_cpu(case: Callable[[], None]) -> list[int]:
    """Return the bytes of each allocation, negative ones of each free, in their order."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        case()
    result = profiler.profiler.kineto_results  # type: ignore[union-attr]
    return [event.nbytes() for event in result.events() if event.name() == "[memory]"]


def memory_on_the_npu(case: Callable[[], None]) -> list[int]:
    """Return the bytes of whatever the caching allocator did, as it tells it itself; negative ones where it gave back."""
    memory: Any = torch.npu.memory  # type: ignore[attr-defined]
    memory._record_memory_history(None)
    memory._record_memory_history(max_entries=1_000_000, stacks="python", context=None)
    case()
    torch.npu.synchronize()  # type: ignore[attr-defined]
    entries = memory._snapshot()["device_traces"][0]
    gives_back = ("free_requested", "free_completed", "segment_free", "segment_unmap")
    return [-entry["size"] if entry["action"] in gives_back else entry["size"] for entry in entries]


def main() -> None:
    """Run each case twice: the first time, torch prepares what stays."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    if "calls" in sys.argv[3:]:
        import msmemscope

        msmemscope.config(output=str(Path(sys.argv[1]).parent / "output"))
        msmemscope.start()
    memory_of = memory_on_the_cpu if DEVICE == "cpu" else memory_on_the_npu
    with OwnMode() if "mode" in sys.argv[3:] else contextlib.nullcontext():
        for case in CASES:
            case()
        found = {case.__name__: memory_of(case) for case in CASES}
    Path(sys.argv[1]).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()

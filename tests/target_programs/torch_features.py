"""Uses one feature of PyTorch that has to do with dispatch, modes, subclasses or threads, and prints its result.

Usage: torch_features.py FEATURE. Each prints its numbers in full, so that two runs can be compared to the bit.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)

FEATURES: dict[str, Callable[[], Any]] = {}


def feature(function: Callable[[], Any]) -> Callable[[], Any]:
    """List a function under its name."""
    FEATURES[function.__name__] = function
    return function


@feature
def vmap_and_grad() -> Any:
    """Transforms of torch.func."""
    weights = torch.randn(4, 3)

    def loss(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return (w @ x).sin().sum()

    return torch.func.vmap(torch.func.grad(loss), (None, 0))(weights, torch.randn(5, 3))


@feature
def higher_order_operator() -> Any:
    """torch.cond in eager mode."""
    x = torch.randn(4)
    return torch.cond(x.sum() > 0, lambda t: t.sin(), lambda t: t.cos(), (x,))


@feature
def flex_attention() -> Any:
    """A higher order operator that real models use."""
    from torch.nn.attention.flex_attention import flex_attention

    query, key, value = (torch.randn(1, 2, 16, 8) for _ in range(3))
    return flex_attention(query, key, value)


@feature
def checkpointing() -> Any:
    """Recomputation in the backward, with and without the reentrant form."""
    from torch.utils.checkpoint import checkpoint

    layer = nn.Linear(8, 8)
    x = torch.randn(2, 8, requires_grad=True)
    for reentrant in (True, False):
        checkpoint(lambda t: layer(t).relu(), x, use_reentrant=reentrant).sum().backward()
    return [x.grad, layer.weight.grad]


@feature
def scripted() -> Any:
    """TorchScript runs without Python."""
    module = torch.jit.trace(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.randn(2, 4))
    return module(torch.ones(2, 4))


@feature
def exported() -> Any:
    """torch.export traces with fake tensors."""
    program = torch.export.export(nn.Sequential(nn.Linear(4, 4), nn.GELU()), (torch.randn(2, 4),))
    return program.module()(torch.ones(2, 4))


@feature
def fake_tensors() -> Any:
    """Shapes without memory."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        model = nn.Linear(1000, 1000)
        result = model(torch.empty(10, 1000))
    return tuple(result.shape)


@feature
def meta_device() -> Any:
    """Tensors without storage."""
    return tuple(nn.Linear(10, 20, device="meta")(torch.empty(3, 10, device="meta")).shape)


@feature
def wrapper_subclass() -> Any:
    """A subclass that unwraps itself in its own dispatch."""

    class Doubled(torch.Tensor):
        inner: torch.Tensor

        @staticmethod
        def __new__(cls: type, inner: torch.Tensor) -> Any:
            made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)  # type: ignore[attr-defined]
            made.inner = inner
            return made

        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            plain = [a.inner * 2 if isinstance(a, Doubled) else a for a in args]
            return func(*plain, **(kwargs or {}))

    return Doubled(torch.arange(4.0)) + 1


@feature
def modes_of_the_program() -> Any:
    """A dispatch mode of the program's own sees what it saw without us."""
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: list[str] = []

    class Listing(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with Listing():
        nn.Linear(3, 3)(torch.ones(1, 3)).sum().backward()
    return seen


@feature
def sparse_and_quantized() -> Any:
    """Tensors whose memory is not one block."""
    sparse = torch.eye(4).to_sparse()
    quantized = torch.quantize_per_tensor(torch.randn(4), 0.1, 0, torch.qint8)
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    return [sparse @ torch.ones(4, 2), quantized.dequantize(), nested.to_padded_tensor(0.0)]


def _leave(dist: Any) -> None:
    """Leave the group; it is destroyed when nobody refers to it."""
    # That is done with the interpreter's lock held, and waits for threads of the group, which need that lock to forget
    # the tensors of the last collective.
    time.sleep(0.3)
    dist.destroy_process_group()


@feature
def distributed_tensor() -> Any:
    """DTensor on one process."""
    import os

    import torch.distributed as dist
    from torch.distributed.tensor import DTensor, Replicate, init_device_mesh

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    mesh = init_device_mesh("cpu", (1,))
    x = DTensor.from_local(torch.randn(4, 4), mesh, [Replicate()])
    result = (x @ x).sum().full_tensor()
    _leave(dist)
    return result


@feature
def data_parallel_training() -> Any:
    """DistributedDataParallel on one process, with its own hooks and threads."""
    import torch.distributed as dist

    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    model = nn.parallel.DistributedDataParallel(nn.Linear(8, 2))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()
    _leave(dist)
    return list(model.parameters())


@feature
def threads_with_operators() -> Any:
    """Operators in many threads, which end while the program goes on."""
    results: dict[int, torch.Tensor] = {}

    def work(number: int) -> None:
        generator = torch.Generator().manual_seed(number)
        results[number] = torch.randn(32, 32, generator=generator).matmul(torch.ones(32, 32)).sum()

    for _ in range(5):
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return [results[number] for number in range(8)]


@feature
def failing_operators() -> Any:
    """Errors come through as they are, and what follows works."""
    messages = []
    for wrong in (
        lambda: torch.ones(2, 3) @ torch.ones(2, 3),
        lambda: torch.ones(3).view(2),
        lambda: torch.empty(-1),
    ):
        try:
            wrong()
        except RuntimeError as error:  # noqa: PERF203 - three calls
            messages.append(str(error))
    return [*messages, torch.ones(2) + 1]


@feature
def memory_formats() -> Any:
    """Views, strides, zero-sized tensors, memory that is not PyTorch's."""
    import numpy as np

    base = torch.randn(4, 6)
    shared = torch.from_numpy(np.arange(6.0))
    return [
        base.t()[1:, ::2] + 1,
        base.expand(3, 4, 6).sum(),
        torch.empty(0, 5).sum(),
        shared * 2,
        base.share_memory_() + 1,
    ]


@feature
def fused_optimizers() -> Any:
    """Operators over lists of tensors, in place."""
    parameters = [nn.Parameter(torch.randn(5, 5)) for _ in range(3)]
    for kind in ({"foreach": True}, {"foreach": False}, {"fused": True}):
        optimizer = torch.optim.AdamW(parameters, **kind)
        sum(p.square().sum() for p in parameters).backward()  # type: ignore[union-attr]
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return parameters


@feature
def swapped_parameters() -> Any:
    """Parameters change places with converted ones, which torch refuses for a tensor that anyone holds or has weak references to."""
    torch.__future__.set_swap_module_params_on_conversion(True)
    model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for kind in (torch.float64, torch.float32, torch.float64):
        model(torch.randn(3, 6, dtype=next(model.parameters()).dtype)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        model.to(kind)
    return list(model.parameters())


def main() -> None:
    """Run one feature."""
    torch.set_printoptions(precision=17)
    print(repr(FEATURES[sys.argv[1]]()))


if __name__ == "__main__":
    main()

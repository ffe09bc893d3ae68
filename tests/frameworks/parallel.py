"""Trainings in two processes, each with a device of its own: DDP and both kinds of FSDP, with gloo and hccl."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

import msmemscope
from tests.owner_truths import DEVICE
from tests.owner_truths.truth import Noted, Saved, moment, states_of, storages

from .trainers import LENGTH, ROWS, VOCABULARY, small_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

STEPS = 3


def join() -> torch.device:
    """Join the other processes. Returns the device of this one."""
    rank = int(os.environ["RANK"])
    if DEVICE == "npu":
        torch.npu.set_device(rank)
    dist.init_process_group("hccl" if DEVICE == "npu" else "gloo", timeout=timedelta(seconds=120))
    return torch.device(DEVICE, rank) if DEVICE == "npu" else torch.device("cpu")


def leave() -> None:
    """Leave them."""
    # Destroying a group holds the interpreter's lock and waits for threads of the group. Those threads need the lock to
    # forget the tensors of the last collective.
    time.sleep(0.3)
    dist.destroy_process_group()


def local(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """The parts of tensors that lie in this process, if they are distributed."""
    return [each.to_local() if isinstance(each, DTensor) else each for each in tensors]


def exchanged_gradients() -> Noted:
    """Gradients that processes exchange, as long as they live. A running collective keeps them alive."""
    exchanged = Noted()
    original = dist.reduce_scatter_single

    def reduce_scatter_single(*args: Any, **kwargs: Any) -> Any:
        exchanged.note(*args, *kwargs.values())
        return original(*args, **kwargs)

    dist.reduce_scatter_single = reduce_scatter_single
    return exchanged


def batch(device: torch.device) -> torch.Tensor:
    """Random texts."""
    return torch.randint(3, VOCABULARY, (ROWS, LENGTH)).to(device)


class SavedBeside(Saved):
    """The tensors that autograd saves, except weights: their memory may be given back while a graph still names it."""

    def __init__(self, weights: Callable[[], Iterable[torch.Tensor]]) -> None:
        """The weights that there are when a tensor is saved."""
        super().__init__()
        self._weights = weights

    def note(self, *tensors: Any) -> None:
        """Take in those that are none."""
        weights = set(storages(self._weights()))
        super().note(*(each for each in tensors if not weights.intersection(storages([each]))))


def loop(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    device: torch.device,
    more: Callable[[], dict[str, Any]],
    *,
    backward: Callable[[torch.Tensor], None] = torch.Tensor.backward,
) -> None:
    """Train, and say what there is after each part of a step.

    Args:
        model: The model to train.
        optimizer: The optimizer that trains it.
        device: The device of the batches.
        more: Further memory beside the tensors of parameters: owner to tensors or addresses.
        backward: Run the backward pass of a loss.
    """
    saved = Saved()

    def say(name: str) -> None:
        if DEVICE == "cpu":
            time.sleep(0.1)  # gloo's threads give back buffers of their own a moment after a collective has ended
        parameters = list(model.parameters())
        gradients = [each.grad for each in parameters if each.grad is not None]
        known: dict[str, list[Any]] = {
            "weight": local([*parameters, *model.buffers()]),
            "gradient": local(gradients),
            "optimizer_state": local(states_of(optimizer)),
            "activation": list(saved),
        }
        found = more()
        moment(name, marks=True, **{owner: [*known[owner], *found.get(owner, ())] for owner in known})

    layer = next(each for name, each in model.named_modules() if name.endswith("layers.0"))
    layer.register_forward_hook(lambda *told: told[2].register_hook(lambda _: say("backward")) and None)
    for step in range(STEPS):
        texts = batch(device)
        saved = SavedBeside(lambda: more().get("weight", []))
        with saved:
            loss = model(input_ids=texts, labels=texts, use_cache=False).loss
        say(f"forward {step}")
        backward(loss)
        say(f"gradients {step}")
        optimizer.step()
        say(f"updated {step}")
        optimizer.zero_grad()
        say(f"step {step}")
        msmemscope.step()


def ddp() -> None:
    """The buckets of gradients are known from a hook on their communication."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    device = join()
    model = torch.nn.parallel.DistributedDataParallel(small_model().to(device), bucket_cap_mb=0.05)
    buckets = Noted()

    def note(state: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        buckets.note(bucket.buffer())
        return default_hooks.allreduce_hook(state, bucket)

    # Torch reads the annotations, which are texts here.
    note.__annotations__ = {"bucket": dist.GradBucket, "return": torch.futures.Future[torch.Tensor]}
    model.register_comm_hook(None, note)
    loop(model, torch.optim.AdamW(model.parameters(), lr=1e-3), device, lambda: {"gradient": buckets})
    leave()


def fsdp1() -> None:
    """The module that wraps others: shards, and the whole parameters while a part computes."""
    from torch.distributed.fsdp import FullyShardedDataParallel

    device = join()
    model = small_model().to(device)
    model.model.layers = torch.nn.ModuleList(
        FullyShardedDataParallel(each, device_id=device) for each in model.model.layers
    )
    model = FullyShardedDataParallel(model, device_id=device)

    exchanged = exchanged_gradients()

    def handles() -> list[Any]:
        return [each._handle.flat_param for each in FullyShardedDataParallel.fsdp_modules(model) if each._handle]

    def more() -> dict[str, Any]:
        shards = [each._local_shard for each in handles()]
        whole = [each._full_param_padded for each in handles()]
        gradients = [getattr(each, "_saved_grad_shard", None) for each in handles()]
        return {"weight": [*shards, *whole], "gradient": [*gradients, *exchanged]}

    loop(model, torch.optim.AdamW(model.parameters(), lr=1e-3), device, more)
    leave()


def beside_shards(model: torch.nn.Module) -> Callable[[], dict[str, Any]]:
    """The tensors of a model of `fully_shard` at a moment, beside the shards of parameters and of their gradients."""
    exchanged = exchanged_gradients()

    def more() -> dict[str, Any]:
        states = [each._get_fsdp_state() for each in model.modules() if hasattr(each, "_get_fsdp_state")]
        parameters = [
            parameter
            for state in states
            if state._fsdp_param_group
            for parameter in state._fsdp_param_group.fsdp_params
        ]
        whole = [output for parameter in parameters for output in parameter.all_gather_outputs]
        # Of micro-batches whose gradients are not exchanged yet.
        kept = [parameter.unsharded_accumulated_grad for parameter in parameters]
        # Gradients that the last part gave to the others are kept until the next part gives its own.
        return {"weight": whole, "gradient": [*exchanged, *kept]}

    return more


def fsdp2() -> None:
    """The newer kind: each parameter is a distributed tensor."""
    from torch.distributed.fsdp import fully_shard

    device = join()
    model = small_model().to(device)
    for layer in model.model.layers:
        fully_shard(layer)
    fully_shard(model)
    loop(model, torch.optim.AdamW(model.parameters(), lr=1e-3), device, beside_shards(model))
    leave()

"""A job of eight NPUs under torchrun, tensor 2 x pipeline 2 x data 2 on a mesh, with a fault or without.

The model is a small one after Megatron. A layer's first matrix is cut by columns and its second one by rows, with a sum
over the tensor group. Stages send activations on and gradients back. Gradients are averaged over the data group. Each
pair of data replicas has an expert of its own, to which a router sends rows. The argument is the fault.
"""

from __future__ import annotations

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional

import msmemscope

STEPS, LAYERS, WIDTH, ROWS = 8, 2, 512, 256
MIB = 1 << 20
FAULTS = ("none", "leak_one", "leak_all", "stages", "expert", "batch")
HISTORY: list[torch.Tensor] = []
CACHE: list[torch.Tensor] = []


class SumOverTensorRanks(torch.autograd.Function):
    """Sum partial results in the forward pass; their gradient is that of the sum."""

    @staticmethod
    def forward(_context: object, partial: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
        """Return the sum of all ranks of a group."""
        total = partial.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(_context: object, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Return it as it is."""
        return gradient, None


class Layer(torch.nn.Module):
    """Half of the columns of one matrix, half of the rows of another, and a residual connection."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        super().__init__()
        self.group = group
        self.first = torch.nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.second = torch.nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Transform rows."""
        return rows + SumOverTensorRanks.apply(self.second(functional.gelu(self.first(rows))), self.group)


def leak_on_every_rank() -> None:
    """Keep 4 MiB."""
    CACHE.append(torch.ones(4 * MIB // 4, device="npu"))


def leak_on_one_rank() -> None:
    """Keep 8 MiB."""
    HISTORY.append(torch.ones(8 * MIB // 4, device="npu"))


def route_tokens(*, is_hot: bool) -> torch.Tensor:
    """The tokens that a router sends to the expert of this rank."""
    return torch.ones(64 * MIB // 4 if is_hot else 8 * MIB // 4, device="npu")


def score_more_rows(model: torch.nn.Module) -> torch.Tensor:
    """The activations of a batch that only one rank has."""
    first = model[0].first
    return functional.gelu(first(torch.ones(32 * ROWS, WIDTH, device="npu"))).sum()


def train(fault: str) -> None:
    """Train for some steps on this rank's part of the mesh."""
    axes = ("pp", "ep", "tp") if fault == "expert" else ("pp", "dp", "tp")
    mesh = init_device_mesh("npu", (2, 2, 2), mesh_dim_names=axes)
    stage, replica = mesh.get_local_rank("pp"), mesh.get_local_rank(axes[1])
    group, neighbour = mesh.get_group("pp"), mesh.get_group("pp")
    other = dist.get_process_group_ranks(neighbour)[1 - stage]
    layers = 3 * LAYERS if fault == "stages" and stage == 1 else LAYERS
    model = torch.nn.Sequential(*(Layer(mesh.get_group("tp")) for _ in range(layers))).npu()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        tokens = route_tokens(is_hot=fault == "expert" and replica == 1)
        if stage == 0:
            output = model(torch.randn(ROWS, WIDTH, device="npu"))
            dist.send(output.detach(), other, group=group)
            gradient = torch.empty_like(output)
            dist.recv(gradient, other, group=group)
            output.backward(gradient)
            del gradient
        else:
            received = torch.empty(ROWS, WIDTH, device="npu")
            dist.recv(received, other, group=group)
            received.requires_grad_()
            output = model(received).square().mean()
            output.backward()
            dist.send(received.grad, other, group=group)
            del received
        if fault == "batch" and dist.get_rank() == 6:
            score_more_rows(model).backward()
        if fault != "expert":
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad, group=mesh.get_group("dp"))
        optimizer.step()
        optimizer.zero_grad()
        del tokens, output
        if fault == "leak_all":
            leak_on_every_rank()
        if fault == "leak_one" and dist.get_rank() == 3:
            leak_on_one_rank()
        msmemscope.step()


def main() -> None:
    """Be one rank."""
    torch.set_num_threads(1)
    torch.npu.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("hccl")
    train(FAULTS[FAULTS.index(sys.argv[1])])
    dist.barrier()
    # Destroying a group holds the interpreter's lock and waits for threads of the group. Those threads need the lock to
    # forget the tensors of the last collective.
    time.sleep(0.3)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

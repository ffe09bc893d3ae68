"""Train a decoder with tensor, pipeline and data parallelism, and say what each rank reserves: a dry run needs no NPU.

    vnpu run --compute=none -- torchrun --standalone --nproc-per-node=8 train_in_parallel.py --size=7b
    vnpu run --compute=none --ranks=8 -- python train_in_parallel.py --size=7b

Observed, each rank gets a capture, and `msmemscope fits` says whether the job fits in other devices:

    vnpu run --compute=none --ranks=8 -- msmemscope --device=npu python train_in_parallel.py --size=7b

The layers are cut as Megatron cuts them. The tensor group shares attention heads and the network's width, the pipeline
group shares layers. The pipeline group runs one forward and one backward in turn, and the data group sums gradients.
Weights, gradients and the moments of AdamW are bfloat16, layers are checkpointed.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

SIZES = {"tiny": (256, 4, 4), "1b": (2048, 24, 16), "7b": (4096, 32, 32)}
"""Width, layers and heads."""
VOCABULARY = 32_000
GIB = 1 << 30


class CopyToGroup(torch.autograd.Function):
    """The same on all ranks of a group; gradients are summed over it."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:  # noqa: D102
        context.group = group
        return x.view_as(x)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:  # noqa: D102
        gradient = gradient.contiguous()
        dist.all_reduce(gradient, group=context.group)
        return gradient, None


class SumOverGroup(torch.autograd.Function):
    """The sum over the ranks of a group; gradients are the same on all of them."""

    @staticmethod
    def forward(_: Any, x: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:  # noqa: D102
        x = x.contiguous().clone()
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(_: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:  # noqa: D102
        return gradient, None


class Block(nn.Module):
    """One transformer layer; a rank of the tensor group has some of the heads, and a part of the network's width."""

    def __init__(self, width: int, heads: int, group: dist.ProcessGroup) -> None:
        super().__init__()
        self.group, parts = group, dist.get_world_size(group)
        self.heads, self.head_width = heads // parts, width // heads
        self.before_attention = nn.LayerNorm(width)
        self.attention = nn.Linear(width, 3 * width // parts, bias=False)
        self.projection = nn.Linear(width // parts, width, bias=False)
        self.before_network = nn.LayerNorm(width)
        self.widening = nn.Linear(width, 4 * width // parts, bias=False)
        self.narrowing = nn.Linear(4 * width // parts, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, context, width) to the same shape."""
        batch, context, _ = x.shape
        mine = self.attention(CopyToGroup.apply(self.before_attention(x), self.group))
        query, key, value = mine.view(batch, context, 3, self.heads, self.head_width).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + SumOverGroup.apply(self.projection(mixed.transpose(1, 2).reshape(batch, context, -1)), self.group)
        wide = functional.gelu(self.widening(CopyToGroup.apply(self.before_network(x), self.group)))
        return x + SumOverGroup.apply(self.narrowing(wide), self.group)


class Stage(nn.Module):
    """The layers of one rank of the pipeline group; the first one has the embedding, the last one the head and the loss."""

    def __init__(self, size: tuple[int, int, int], context: int, tensor: dist.ProcessGroup, stage: range) -> None:
        super().__init__()
        width, layers, heads = size
        self.group, self.part = tensor, VOCABULARY // dist.get_world_size(tensor)
        self.first_code = dist.get_rank(tensor) * self.part
        self.is_first, self.is_last = stage.start == 0, stage.stop == layers
        if self.is_first:
            self.tokens = nn.Embedding(self.part, width)
            self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads, tensor) for _ in stage)
        if self.is_last:
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, self.part, bias=False)

    def forward(self, x: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        """Map what the stage before gave to what the next one gets; the last one gives the loss."""
        mine = (codes - self.first_code).clamp(0, self.part - 1)
        is_mine = (codes >= self.first_code) & (codes < self.first_code + self.part)
        if self.is_first:
            known = self.tokens(mine).masked_fill(~is_mine.unsqueeze(-1), 0)
            x = SumOverGroup.apply(known, self.group) + self.positions.weight
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        if not self.is_last:
            return x
        scores = self.head(CopyToGroup.apply(self.norm(x), self.group)).float()
        largest = scores.detach().amax(-1, keepdim=True)
        dist.all_reduce(largest, dist.ReduceOp.MAX, group=self.group)
        scores = scores - largest
        total = SumOverGroup.apply(scores.exp().sum(-1), self.group)
        wanted = scores.gather(-1, mine.unsqueeze(-1)).squeeze(-1).masked_fill(~is_mine, 0)
        return (total.log() - SumOverGroup.apply(wanted, self.group)).mean()


class Pipeline:
    """Sends and receives between neighbours of the pipeline group."""

    def __init__(self, group: dist.ProcessGroup, shape: tuple[int, ...]) -> None:
        self.group, self.shape = group, shape
        ranks, own = dist.get_process_group_ranks(group), dist.get_rank(group)
        self.before = ranks[own - 1] if own > 0 else None
        self.behind = ranks[own + 1] if own + 1 < len(ranks) else None

    def exchange(
        self, *, sent: torch.Tensor | None = None, to: int | None = None, source: int | None = None
    ) -> torch.Tensor | None:
        """Send to a neighbour and receive from one, as far as they exist, in one call."""
        calls, received = [], None
        if sent is not None and to is not None:
            calls.append(dist.P2POp(dist.isend, sent.contiguous(), to, self.group))
        if source is not None:
            received = torch.empty(self.shape, device="npu")
            calls.append(dist.P2POp(dist.irecv, received, source, self.group))
        for work in dist.batch_isend_irecv(calls) if calls else ():
            work.wait()
        return received


def train_step(stage: Stage, pipeline: Pipeline, codes: list[torch.Tensor]) -> None:
    """Run all micro-batches: as many forwards as there are stages behind, then one forward and one backward in turn."""
    ranks, own = dist.get_world_size(pipeline.group), dist.get_rank(pipeline.group)
    early = min(ranks - 1 - own, len(codes))
    waiting: list[tuple[torch.Tensor | None, torch.Tensor]] = []

    def forward(number: int) -> torch.Tensor:
        x = pipeline.exchange(source=pipeline.before)
        if x is not None:
            x.requires_grad_()
        result = stage(x, codes[number])
        waiting.append((x, result))
        return result

    def backward(gradient: torch.Tensor | None) -> None:
        x, result = waiting.pop(0)
        torch.autograd.backward(result, gradient)
        if x is not None:
            pipeline.exchange(sent=x.grad, to=pipeline.before)

    for number in range(early):
        pipeline.exchange(sent=forward(number).detach(), to=pipeline.behind)
    for number in range(early, len(codes)):
        result = forward(number).detach()
        backward(pipeline.exchange(sent=result, to=pipeline.behind, source=pipeline.behind))
    for _ in range(early):
        backward(pipeline.exchange(source=pipeline.behind))


def main() -> None:
    """Be one rank."""
    parser = argparse.ArgumentParser(description="Train a decoder on ranks in three dimensions.")
    parser.add_argument("--size", choices=SIZES, default="tiny", help="of the model")
    parser.add_argument("--tensor", type=int, default=2, help="ranks that share each layer")
    parser.add_argument("--pipeline", type=int, default=2, help="stages; what remains of the ranks is data parallel")
    parser.add_argument("--context", type=int, default=2048, help="tokens in a sequence")
    parser.add_argument("--batch", type=int, default=1, help="sequences in a micro-batch")
    parser.add_argument("--micro-batches", type=int, default=4, help="in a step")
    parser.add_argument("--steps", type=int, default=2, help="optimizer steps")
    arguments = parser.parse_args()

    begin = time.perf_counter()
    torch.npu.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("hccl")
    agreed = [vars(arguments)]
    dist.broadcast_object_list(agreed, 0)
    data = dist.get_world_size() // (arguments.tensor * arguments.pipeline)
    mesh = init_device_mesh(
        "npu", (data, arguments.pipeline, arguments.tensor), mesh_dim_names=("data", "pipeline", "tensor")
    )
    width, layers, _ = SIZES[arguments.size]
    each, own = layers // arguments.pipeline, mesh["pipeline"].get_local_rank()
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("npu"):
        stage = Stage(
            SIZES[arguments.size],
            arguments.context,
            mesh["tensor"].get_group(),
            range(own * each, (own + 1) * each),
        )
    optimizer = torch.optim.AdamW(stage.parameters(), lr=1e-4, foreach=False)
    pipeline = Pipeline(mesh["pipeline"].get_group(), (arguments.batch, arguments.context, width))
    for _ in range(arguments.steps):
        codes = [
            torch.zeros(arguments.batch, arguments.context, dtype=torch.int64, device="npu")
            for _ in range(arguments.micro_batches)
        ]
        train_step(stage, pipeline, codes)
        for parameter in stage.parameters():
            dist.all_reduce(parameter.grad, group=mesh["data"].get_group())
        optimizer.step()
        optimizer.zero_grad()
    torch.npu.synchronize()
    count = sum(parameter.numel() for parameter in stage.parameters())
    mine = (mesh.get_coordinate(), count, torch.npu.max_memory_allocated(), torch.npu.max_memory_reserved())
    everyone: list[tuple[list[int], int, int, int]] = [mine] * dist.get_world_size()
    dist.all_gather_object(everyone, mine)
    if dist.get_rank() == 0:
        for rank, (place, parameters, allocated, reserved) in enumerate(everyone):
            print(
                f"rank {rank} data {place[0]} pipeline {place[1]} tensor {place[2]}: "
                f"{parameters / 1e9:.2f} billion parameters, {allocated / GIB:.2f} GiB allocated, "
                f"{reserved / GIB:.2f} GiB reserved"
            )
        print(f"seconds {time.perf_counter() - begin:.1f}", flush=True)
    dist.barrier()
    # As in train_on_ranks.py: threads of the group need the interpreter's lock to forget the last collective.
    time.sleep(0.3)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

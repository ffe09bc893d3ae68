"""A small GPT, trained by several ranks with DDP or FSDP2, against the same training by one process on the CPU.

Prints the losses and the largest difference of a parameter after the last step.
"""

from __future__ import annotations

import copy
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))

from train_gpt import GPT

RANK = int(os.environ["RANK"])
SIZE = int(os.environ["WORLD_SIZE"])
VOCABULARY, CONTEXT, BATCH, STEPS = 29, 16, 4, 4


def loss_of(model: torch.nn.Module, windows: torch.Tensor) -> torch.Tensor:
    """The mean loss of a batch of windows."""
    scores = model(windows[:, :-1])
    return functional.cross_entropy(scores.flatten(0, 1), windows[:, 1:].flatten())


def train(model: torch.nn.Module, batches: list[torch.Tensor]) -> list[torch.Tensor]:
    """Train with momentum; return the losses."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def parallel(model: GPT, way: str) -> torch.nn.Module:
    """Wrap or shard the model."""
    if way == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.05)
    from torch.distributed.fsdp import fully_shard

    for block in model.blocks:
        fully_shard(block)
    return fully_shard(model)


def main() -> None:
    """Train both ways and compare."""
    torch.npu.set_device(RANK)
    dist.init_process_group("hccl")
    torch.manual_seed(5)
    reference = GPT(VOCABULARY, CONTEXT, width=32, layers=2, heads=2)
    model = copy.deepcopy(reference).npu()
    batches = [torch.randint(VOCABULARY, (SIZE * BATCH, CONTEXT + 1)) for _ in range(STEPS)]
    expected_losses = train(reference, batches)

    trained = parallel(model, sys.argv[1])
    losses = train(trained, [batch.chunk(SIZE)[RANK].npu() for batch in batches])
    for loss, expected in zip(losses, expected_losses, strict=True):
        dist.all_reduce(loss, dist.ReduceOp.AVG)
        print(f"loss {loss.item():.6f} expected {expected.item():.6f}")
        torch.testing.assert_close(loss.cpu(), expected, rtol=1e-5, atol=0)
    largest = 0.0
    for (name, parameter), expected in zip(model.named_parameters(), reference.parameters(), strict=True):
        full = parameter.full_tensor() if sys.argv[1] == "fsdp" else parameter
        torch.testing.assert_close(
            full.detach().cpu(), expected.detach(), rtol=1e-4, atol=2e-6, msg=lambda m, n=name: f"{n}: {m}"
        )
        largest = max(largest, (full.detach().cpu() - expected.detach()).abs().max().item())
    print(f"largest difference {largest:.1e}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""Train on several NPUs with DistributedDataParallel, one process for each.

msmemscope --device=npu python train_on_ranks.py --ranks 2

Every rank is observed and has a folder of its own. It runs unchanged on hardware and on the virtual NPU
(`vnpu run -- msmemscope --device=npu python train_on_ranks.py --ranks 2`).
"""

from __future__ import annotations

import argparse
import os

import torch
import torch.distributed as dist
from torch import multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel

WIDTH = 256


def train(rank: int, ranks: int, steps: int, port: str) -> None:
    """Be one rank."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    torch.npu.set_device(rank)
    dist.init_process_group("hccl", rank=rank, world_size=ranks)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.ReLU(), nn.Linear(4 * WIDTH, WIDTH)).npu()
    parallel = DistributedDataParallel(model, device_ids=[rank])
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(rank)
    for step in range(1, steps + 1):
        batch = torch.randn(32, WIDTH, generator=generator).npu()
        loss = (parallel(batch) - batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"rank {rank} step {step} loss {loss.item()!r} allocated {torch.npu.memory_allocated()}", flush=True)
    dist.destroy_process_group()


def main() -> None:
    """Start the ranks and wait for them."""
    parser = argparse.ArgumentParser(description="Train a small model on several NPUs.")
    parser.add_argument("--ranks", type=int, default=2, help="processes, one NPU for each")
    parser.add_argument("--steps", type=int, default=4, help="optimizer steps")
    parser.add_argument("--port", default="29511", help="where the ranks meet")
    arguments = parser.parse_args()
    multiprocessing.spawn(
        train, args=(arguments.ranks, arguments.steps, arguments.port), nprocs=arguments.ranks, join=True
    )


if __name__ == "__main__":
    main()

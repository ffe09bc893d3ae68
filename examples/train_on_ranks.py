"""Train on several CPU processes or NPUs with DistributedDataParallel; with --leak, rank 0 keeps what it logs.

msmemscope --device=cpu torchrun --standalone --nproc-per-node=4 train_on_ranks.py --device=cpu

Every rank is observed and has a folder of its own. On NPUs, --device=npu runs unchanged on hardware and on the virtual NPU
(behind `vnpu run --`).
"""

from __future__ import annotations

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import msmemscope

WIDTH, BATCH = 256, 512


def main() -> None:
    """Be one rank of those that torchrun starts."""
    parser = argparse.ArgumentParser(description="Train a small model on several processes.")
    parser.add_argument("--device", choices=("cpu", "npu"), default="cpu", help="where the model is")
    parser.add_argument("--steps", type=int, default=6, help="optimizer steps")
    parser.add_argument("--leak", action="store_true", help="rank 0 logs the losses as tensors, with their graphs")
    arguments = parser.parse_args()

    rank, local_rank = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    device = torch.device(arguments.device, local_rank if arguments.device == "npu" else None)
    if device.type == "npu":
        torch.npu.set_device(device)
    dist.init_process_group("hccl" if device.type == "npu" else "gloo")
    model = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.ReLU(), nn.Linear(4 * WIDTH, WIDTH)).to(device)
    parallel = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(rank)
    log = []
    for step in range(1, arguments.steps + 1):
        batch = torch.randn(BATCH, WIDTH, generator=generator).to(device)
        loss = (parallel(batch) - batch).square().mean()
        if rank == 0:
            log.append(loss if arguments.leak else loss.item())
        optimizer.zero_grad()
        loss.backward(retain_graph=arguments.leak)
        optimizer.step()
        print(f"rank {rank} step {step} loss {loss.item()!r}", flush=True)
        msmemscope.step()
    if device.type == "npu":
        print(f"rank {rank} allocated {torch.npu.memory_allocated()}", flush=True)
    # A group is destroyed with the interpreter's lock held, and waits for threads of its own, which need that lock to
    # forget the tensors of the last collective.
    time.sleep(0.3)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

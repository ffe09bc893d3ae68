"""Collectives with compute=none: the ranks meet, small data arrives, large data is not moved."""

from __future__ import annotations

import os
import resource
import time

import torch
import torch.distributed as dist

RANK = int(os.environ["RANK"])
GIB = 1 << 30


def main() -> None:
    """Exchange flags and pretend to exchange gradients."""
    torch.npu.set_device(RANK)
    dist.init_process_group("hccl")
    flag = torch.tensor([RANK + 10]).npu()
    dist.all_reduce(flag)
    assert flag.item() == 21
    dist.broadcast(flag, 1)
    assert flag.item() == 21
    gradients = torch.empty(8 * GIB, dtype=torch.uint8, device="npu").view(torch.bfloat16)
    shard = torch.empty(4 * GIB, dtype=torch.uint8, device="npu").view(torch.bfloat16)
    started = time.monotonic()
    for _ in range(10):
        dist.all_reduce(gradients)
        dist.reduce_scatter_tensor(shard, gradients)
        dist.all_gather_into_tensor(gradients, shard)
        if RANK == 0:
            dist.send(gradients, 1)
        else:
            dist.recv(gradients, 0)
    torch.npu.synchronize()
    assert time.monotonic() - started < 30
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 1 << 20  # KiB
    if RANK == 1:
        time.sleep(0.5)
    started = time.monotonic()
    dist.all_reduce(gradients)
    torch.npu.synchronize()
    assert RANK == 1 or time.monotonic() - started > 0.2  # it waited for the other
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

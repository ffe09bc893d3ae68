"""Trains the example's GPT on NPUs and says after every step, in a mark, what torch and the device hold.

Usage: stack_totals.py DEVICES [RANK RANKS PORT]
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import mstx
import torch
import torch.distributed as dist
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))
from train_gpt import GPT

STEPS = 4
VOCABULARY = 24
CONTEXT = 32


def print_totals(device: int) -> None:
    """Mark the totals of a device: what torch has allocated and reserved, and what the device has given out."""
    torch.npu.synchronize(device)
    with torch.npu.device(device):
        free, total = torch.npu.mem_get_info()
    allocated, reserved = torch.npu.memory_allocated(device), torch.npu.memory_reserved(device)
    mstx.mark(f"totals {device} {allocated} {reserved} {total - free}")


def train(device: int, *, group: bool) -> None:
    """Train on one device."""
    torch.npu.set_device(device)
    torch.manual_seed(0)
    model = GPT(VOCABULARY, CONTEXT, width=64, layers=2, heads=2).npu()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(device)
    kept = []
    for step in range(STEPS):
        codes = torch.randint(VOCABULARY, (4, CONTEXT), generator=generator).npu()
        loss = functional.cross_entropy(model(codes).flatten(0, 1), codes.flatten())
        optimizer.zero_grad()
        loss.backward()
        if group:
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
        optimizer.step()
        kept.append(torch.empty(1 << (18 + step), device="npu"))
        print(f"device {device} step {step} loss {loss.item()!r}")
        print_totals(device)
    del kept
    torch.npu.empty_cache()
    print_totals(device)


def main() -> None:
    """Train on the devices one after the other, or be one rank of several."""
    if len(sys.argv) > 2:
        rank, ranks, port = sys.argv[2:]
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        torch.npu.set_device(int(rank))
        dist.init_process_group("hccl", rank=int(rank), world_size=int(ranks))
        train(int(rank), group=True)
        dist.destroy_process_group()
        return
    for device in range(int(sys.argv[1])):
        train(device, group=False)


if __name__ == "__main__":
    main()

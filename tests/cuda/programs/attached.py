"""A program with the real torch for CUDA that somebody attaches to: it holds blocks before, and leaks afterwards."""

from __future__ import annotations

import sys
import time

import torch

KEPT = [torch.ones(size, device="cuda") for size in (1 << 20, 300_000, 70_000, 1 << 22)]
LEAKED: list[torch.Tensor] = []


def keep() -> None:
    """Leak 256 KiB."""
    LEAKED.append(torch.ones(1 << 16, device="cuda"))


print(torch.cuda.memory_allocated(), flush=True)
sys.stdin.readline()
while len(LEAKED) < 300:
    keep()
    torch.ones(1 << 12, device="cuda")
    time.sleep(0.01)
print("ended", flush=True)

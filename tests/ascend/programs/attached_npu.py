"""Uses an NPU before somebody attaches; allocates and frees when a line comes, and says what torch_npu counts after it.

Usage: attached_npu.py. It ends with the next line.
"""

from __future__ import annotations

import random
import sys

import torch
import torch_npu  # noqa: F401 - makes the device npu

CHANCE = random.Random(7)  # noqa: S311 - no secret
KEPT: list[torch.Tensor] = []
LEAKED: list[torch.Tensor] = []


def block() -> torch.Tensor:
    """Allocate some bytes, most often few."""
    return torch.empty(CHANCE.choice((100, 5_000, 700_000, 3_000_000, 25_000_000)), dtype=torch.uint8, device="npu")


def leak() -> None:
    """Keep a block of each step."""
    LEAKED.append(torch.ones(50_000, device="npu"))


def main() -> None:
    """Allocate before and behind."""
    KEPT.extend(block() for _ in range(60))
    for _ in range(5):
        leak()
    del KEPT[10:30]
    print("ready", flush=True)
    sys.stdin.readline()
    model = torch.nn.Linear(64, 64).to("npu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(40):
        optimizer.zero_grad()
        model(torch.ones(8, 64, device="npu")).sum().backward()
        optimizer.step()
        leak()
        KEPT[CHANCE.randrange(len(KEPT))] = torch.empty(0)
        block()
    counted = torch.npu.memory_stats()
    print(f"requested={counted['requested_bytes.all.current']} reserved={torch.npu.memory_reserved()}", flush=True)
    sys.stdin.readline()
    print(f"sum={sum(tensor.sum().item() for tensor in LEAKED):.0f}")


main()

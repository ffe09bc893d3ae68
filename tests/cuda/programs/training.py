"""Trains a small model, and prints torch's own counters after each step: `training.py [leak]`."""

from __future__ import annotations

import sys

import torch

KEPT: list[torch.Tensor] = []


def main() -> None:
    """Train."""
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 256)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(12):
        optimizer.zero_grad()
        hidden = model(torch.randn(64, 256, device="cuda"))
        loss = hidden.sum()
        loss.backward()
        optimizer.step()
        if "leak" in sys.argv:
            KEPT.append(hidden)
        print(f"allocated={torch.cuda.memory_allocated()} reserved={torch.cuda.memory_reserved()}")


main()

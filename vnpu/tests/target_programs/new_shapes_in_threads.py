"""Forty threads that run operators on shapes that these never had before, so that each call is rehearsed."""

from __future__ import annotations

import threading

import torch
import torch_npu  # noqa: F401

OPERATORS = ("sum", "mean", "abs", "exp", "sqrt", "cos", "sigmoid", "tanh", "neg", "floor", "amax", "amin")
totals = {}


def work(number: int) -> None:
    """Put the thread's number times the ones of one shape into the totals."""
    for size in range(1, 41):
        ones = torch.full((number + 1, size), 1.0, device="npu")
        for operator in OPERATORS:
            getattr(torch, operator)(ones)
    totals[number] = int(ones.sum().item())


threads = [threading.Thread(target=work, args=(number,)) for number in range(40)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print([totals[number] for number in range(40)])

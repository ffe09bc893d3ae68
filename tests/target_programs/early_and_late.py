"""Programs whose tensors are allocated early and freed late. Arguments: the device, and which program."""

from __future__ import annotations

import sys

import torch

import msmemscope

DEVICE, WHICH = sys.argv[1:]
if DEVICE == "npu":
    import torch_npu  # noqa: F401


def waits_and_stays() -> None:
    """A result is not used until another tensor was freed; another is freed one operator after its last use."""
    one, big = torch.ones(64, device=DEVICE), torch.ones(1 << 20, device=DEVICE)
    early = torch.relu(big)
    short = torch.neg(one)
    del short
    used = early + 1
    late = torch.relu(big)
    total = late.sum()
    other = torch.neg(one)
    del late
    del used, total, other


def waits_among_others() -> None:
    """The result of one operator waits while others run and free."""
    one, big = torch.ones(64, device=DEVICE), torch.ones(1 << 20, device=DEVICE)
    waits = torch.relu(big)
    first = torch.neg(one)
    second = torch.abs(first)
    del first
    third = torch.abs(second)
    del second, third
    used = waits + 1
    used.neg_()


def trains() -> None:
    """AdamW: gradients and optimizer state come in one part of a step and are used in another."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(16, 32, device=DEVICE)).square().mean().backward()
        optimizer.step()
        msmemscope.step()


{program.__name__: program for program in (waits_and_stays, waits_among_others, trains)}[WHICH]()

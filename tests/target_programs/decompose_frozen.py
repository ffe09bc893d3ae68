"""Trains a small layer on top of a frozen one and says what the tensors take, also those that no optimizer knows.

Usage: decompose_frozen.py DEVICE
"""

from __future__ import annotations

import sys

import torch
from torch import nn

import msmemscope
from msmemscope.describe import describer

STEPS = 3


def main() -> None:
    """Train, with labels of the user around one tensor and on another."""
    device = sys.argv[1]
    if device == "npu":
        import torch_npu  # noqa: F401 - makes the device npu
    torch.manual_seed(0)
    frozen = nn.Linear(96, 80).to(device).requires_grad_(requires_grad=False)
    norm = nn.BatchNorm1d(80).to(device)
    trained = nn.Linear(80, 48).to(device)
    optimizer = torch.optim.SGD([*trained.parameters(), *norm.parameters()], lr=0.1)
    with describer(owner="cache"):
        kept = torch.ones(1000, device=device)
    named = torch.zeros(500, device=device)
    describer(named, owner="mine")
    offset = torch.ones(96, device=device, requires_grad=True)
    for _ in range(STEPS):
        # The gradient goes through the frozen layer, whose weight every backward pass reads.
        trained(norm(frozen(torch.ones(16, 96, device=device) + offset))).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        msmemscope.step()
    modules = nn.ModuleList([frozen, norm, trained])
    weights = [tensor.untyped_storage().nbytes() for tensor in (*modules.parameters(), *modules.buffers())]
    program = [tensor.untyped_storage().nbytes() for tensor in (offset, offset.grad)]
    print(
        f"weights={'+'.join(map(str, weights))} program={'+'.join(map(str, program))} "
        f"cache={kept.untyped_storage().nbytes()} mine={named.untyped_storage().nbytes()}"
    )


if __name__ == "__main__":
    main()

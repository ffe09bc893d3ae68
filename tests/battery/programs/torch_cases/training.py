"""A small training, for the programs beside it."""

from __future__ import annotations

import torch
from torch import nn


def loss_of(device: str, steps: int = 5) -> str:
    """Train a model; the last loss with all its digits."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 1)).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(torch.ones(4, 8, device=device)).square().mean()
        loss.backward()
        optimizer.step()
    return repr(loss.item())


def step_of(seed: int, device: str) -> float:
    """One forward and backward pass; the sum of its gradients."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(8, 8, generator=generator).to(device).requires_grad_()
    (x @ x).tanh().sum().backward()
    assert x.grad is not None
    return x.grad.sum().item()

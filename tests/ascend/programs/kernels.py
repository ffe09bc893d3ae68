"""Trains a small network for some steps; the losses are printed."""

from __future__ import annotations

import torch
import torch_npu  # noqa: F401

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).npu()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
inputs = torch.randn(8, 16).npu()
labels = torch.randint(0, 4, (8,)).npu()
for _ in range(3):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
    print(loss.item())

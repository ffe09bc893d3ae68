"""Has weights before it imports msmemscope, and trains between start() and stop(). Argument: the device."""

from __future__ import annotations

import sys

import torch

DEVICE = sys.argv[1]
if DEVICE == "npu":
    import torch_npu  # noqa: F401

model = torch.nn.Linear(300, 300, bias=False).to(DEVICE)
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)

import msmemscope  # noqa: E402 - the point of this program

msmemscope.config(analysis="decompose", device=DEVICE)
msmemscope.start()
for _ in range(2):
    model(torch.ones(1, 300, device=DEVICE)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    msmemscope.step()
msmemscope.stop()

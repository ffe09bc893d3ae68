"""Imports msmemscope after its first tensor on an NPU, and then keeps a block in each step."""

from __future__ import annotations

import sys

import torch
import torch_npu  # noqa: F401 - brings the device

first = torch.ones(1000, device="npu:0")

import msmemscope  # noqa: E402 - late is what this is about

msmemscope.config(output=sys.argv[1])
msmemscope.start()
kept = []
for _ in range(8):
    kept.append(torch.empty(1_100_000, dtype=torch.uint8, device="npu:0"))
    msmemscope.step()
msmemscope.stop()

"""Blocks of one size side by side: an operator writes one of them, and the one behind it is watched.

    watched_memory.py MODE: tensor, address, or none (the options say what is watched)

A tensor of 120 floats fills its block of 512 bytes, with the 32 bytes that torch_npu adds. A write behind the tensor
hits the next block.
"""

from __future__ import annotations

import sys

import torch
import torch_npu  # noqa: F401 - registers the device

import msmemscope

FLOATS = 120
blocks = sorted((torch.full((FLOATS,), float(number)).npu() for number in range(8)), key=torch.Tensor.data_ptr)
torch.npu.synchronize()
written, victim = blocks[3:5]
assert victim.data_ptr() - written.data_ptr() == 512
mode = sys.argv[1]
if mode == "tensor":
    msmemscope.watcher.watch(victim, name="test")
elif mode == "address":
    msmemscope.watcher.watch(victim.data_ptr(), length=4 * FLOATS, name="test")
made = torch.neg(victim, out=victim)
for _ in range(5):
    torch.add(written, 1, out=written)
    doubled = written * 2
    written.sub_(1)
torch.abs(made)
torch.npu.synchronize()
print(f"victim={victim.data_ptr()} written={written.data_ptr()}")

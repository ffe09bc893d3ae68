"""Registers memory of the host with the runtime, as torch_npu offers it: once pinned, once only mapped."""

from __future__ import annotations

import ctypes
import mmap

import torch
import torch_npu

MAPPED = 0x2
PINNED = 0x10000000

assert torch_npu.__version__
runtime = torch.npu.npurt()
for size, flags in ((8192, MAPPED | PINNED), (4096, MAPPED)):
    memory = mmap.mmap(-1, size)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert runtime.npuHostRegister(address, size, flags) == 0
    assert runtime.npuHostUnregister(address) == 0

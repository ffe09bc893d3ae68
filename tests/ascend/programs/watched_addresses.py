"""Bytes at addresses are watched right after operators on them were asked for, with the devices still to do them.

The second ones lie on a device that is not the current one.
"""

from __future__ import annotations

import torch
import torch_npu  # noqa: F401 - registers the device

import msmemscope
from msmemscope import _native

ELEMENTS, CALLS = 1 << 22, 60
blocks = [torch.zeros(ELEMENTS, dtype=torch.int32, device=f"npu:{number}") for number in range(2)]
watch = msmemscope.watcher.watch
torch.npu.synchronize()
for number, block in reversed(list(enumerate(blocks))):
    with torch.npu.device(number):
        for _ in range(CALLS):
            block.add_(1)
for block, name in zip(blocks, ("first", "second"), strict=True):
    watch(block.data_ptr(), length=block.nbytes, name=name)
torch.ones(3).sin()
whole = torch.full((ELEMENTS,), CALLS, dtype=torch.int32)
print(f"expected={_native.watch_checksum(bytes(whole.numpy())):016x}")

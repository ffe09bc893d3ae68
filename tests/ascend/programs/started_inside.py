"""Uses an NPU before and between msmemscope.start() and stop(); says what torch_npu counted at the end."""

from __future__ import annotations

import sys

import torch
import torch_npu  # noqa: F401 - makes the device npu

import msmemscope


def main() -> None:
    """Allocate one tensor that exists at the start, and one that is not freed."""
    before = torch.ones(1000, device="npu")
    msmemscope.start()
    inside = torch.ones(2000, device="npu") + 1
    torch.npu.synchronize()
    print(f"allocated={torch.npu.memory_allocated()} reserved={torch.npu.memory_reserved()}")
    msmemscope.stop()
    del before, inside
    sys.stdout.flush()


main()

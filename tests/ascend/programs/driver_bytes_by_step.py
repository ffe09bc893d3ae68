"""Allocates and frees tensors on an NPU, and says at each step how much of the device is in use.

Each line has the time at which nothing was going on, so that a test can sum up what was recorded until then.
"""

from __future__ import annotations

import gc
import sys
import time

import torch
import torch_npu

DEVICE_COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 1


def report(step: str) -> None:
    """Print how much of each device is in use now."""
    gc.collect()
    for device in range(DEVICE_COUNT):
        torch.npu.synchronize(device)
        free, total = torch.npu.mem_get_info(device)
        print("used", time.time_ns(), device, total - free, step, flush=True)


def main() -> None:
    """Use memory in all the ways that reach the driver: small and large segments, workspace, and giving all back."""
    assert torch_npu.__version__
    devices = [torch.device("npu", index) for index in range(DEVICE_COUNT)]
    for device in devices:
        torch.zeros(1, device=device)
    report("first")
    kept = [torch.ones(1000 * (step + 1), 300, device=device) for step in range(8) for device in devices]
    report("large")
    kept += [torch.ones(100, device=device) for _ in range(200) for device in devices]
    report("small")
    products = [tensor[:128, :128] @ tensor[:128, :128] for tensor in kept if tensor.dim() == 2]
    report("products")
    del kept[::2], products
    report("freed")
    torch.npu.empty_cache()
    report("half empty")
    kept.clear()
    torch.npu.empty_cache()
    report("empty")
    pinned = torch.ones(1 << 20).pin_memory()
    back = pinned.to(devices[0])
    report("copied")
    del back
    torch.npu.empty_cache()
    report("end")


main()

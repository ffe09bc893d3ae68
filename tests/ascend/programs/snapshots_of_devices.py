"""Takes snapshots of two NPUs before and while it uses one of them, and says what torch and the driver say."""

from __future__ import annotations

import ctypes
import json
import sys

import torch
import torch_npu

import msmemscope


def used_by_driver(device: int) -> int:
    """Bytes that the emulated driver has given out on a device, by its own number."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    driver = ctypes.CDLL("libascend_hal.so")
    driver.virtual_npu_device_memory(device, ctypes.byref(free), ctypes.byref(total))
    return total.value - free.value


def say(moment: str) -> None:
    """Print which devices are in use, and what the driver has given out on each."""
    contexts = [torch_npu._C._npu_hasPrimaryContext(device) for device in range(2)]
    used = [used_by_driver(int(number)) for number in sys.argv[1:] or (0, 1)]  # the driver's numbers of the two
    print(json.dumps({"moment": moment, "contexts": contexts, "used": used}))


def main() -> None:
    """None, one, and the other by name."""
    msmemscope.take_snapshot(name="nothing used")
    say("nothing used")
    kept = torch.empty(30 << 20, dtype=torch.uint8, device="npu:0")
    freed = torch.empty(50 << 20, dtype=torch.uint8, device="npu:0")
    del freed
    msmemscope.take_snapshot(name="one used")
    free, total = torch.npu.mem_get_info(0)
    statistics = {
        "reserved": torch.npu.memory_reserved(0),
        "max_reserved": torch.npu.max_memory_reserved(0),
        "allocated": torch.npu.memory_allocated(0),
        "max_allocated": torch.npu.max_memory_allocated(0),
        "total": total,
        "free": free,
    }
    print(json.dumps({"moment": "torch", "figures": statistics}))
    msmemscope.take_snapshot(device_mask=1, name="the other")
    msmemscope.take_snapshot(device_mask=[0, 1], name="both")
    say("one used")
    try:
        msmemscope.take_snapshot(device_mask=2)
    except ValueError as error:
        print(json.dumps({"moment": "wrong", "error": str(error)}))
    with msmemscope.TakeSnapshot(device_mask=7, name="not there"):
        del kept


if __name__ == "__main__":
    main()

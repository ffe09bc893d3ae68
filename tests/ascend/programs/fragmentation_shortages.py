"""Runs out of device memory for the reason that its argument names, on a device of 1 GiB; goes on, and says what torch says."""

from __future__ import annotations

import ctypes
import sys

import torch
import torch_npu  # noqa: F401 - makes the device npu

MEBIBYTE = 1 << 20


def made(mebibytes: int) -> torch.Tensor:
    """A tensor of a known size, allocated on a known line."""
    return torch.empty(mebibytes * MEBIBYTE, dtype=torch.uint8, device="npu")


def wanted(mebibytes: int) -> None:
    """Ask for more than there is."""
    try:
        torch.empty(mebibytes * MEBIBYTE, dtype=torch.uint8, device="npu")
    except torch.OutOfMemoryError as error:
        print("caught:", error)


def fragmented() -> list[torch.Tensor]:
    """Three segments of 200 MiB, cut into 30 pieces. Every other piece is kept: 300 MiB are free in holes of 20."""
    segments = [made(200) for _ in range(3)]
    del segments
    pieces = [made(20) for _ in range(30)]
    return pieces[::2]


def driver_memory(mebibytes: int) -> ctypes.c_void_p:
    """Memory from the runtime that torch does not know of."""
    pointer = ctypes.c_void_p()
    runtime = ctypes.CDLL("libascendcl.so")
    status = runtime.aclrtMallocAlign32(ctypes.byref(pointer), ctypes.c_size_t(mebibytes * MEBIBYTE), 0)
    assert status == 0, status
    return pointer


def main() -> None:
    """Run out of memory."""
    mode = sys.argv[1]
    kept: list[object] = []
    if mode == "snapshot":
        torch.npu.memory._record_memory_history()
    if mode in {"fragmentation", "snapshot"}:
        kept = [*fragmented()]
        wanted(250)
    elif mode == "shortage":
        kept = [made(size) for size in (300, 200, 100)]
        wanted(400)
    elif mode == "outside":
        kept = [made(100), driver_memory(450)]
        wanted(300)
    elif mode == "other":
        kept = [made(100)]
        wanted(300)
    elif mode == "limit":
        kept = [made(100)]
        torch.npu.set_per_process_memory_fraction(0.3)
        wanted(300)
    else:
        message = f"no such mode: {mode}"
        raise ValueError(message)
    if mode == "snapshot":
        torch.npu.memory._dump_snapshot(sys.argv[2])
    print(f"kept={len(kept)} allocated={torch.npu.memory_allocated()} reserved={torch.npu.memory_reserved()}")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

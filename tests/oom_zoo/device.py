"""Memory of a device that is there and cannot be had: cut up, of another stream, of another process, forbidden."""

from __future__ import annotations

import ctypes
import os

import torch

import msmemscope

from . import DEVICE, MEBIBYTE, is_applied

accelerator = getattr(torch, DEVICE)
"""`torch.npu` or `torch.cuda`."""
_DRIVERS = {
    "npu": ("libascendcl.so", "aclrtMalloc", (0,), "aclrtFree"),
    "cuda": (f"libcudart.so.{(torch.version.cuda or '').partition('.')[0]}", "cudaMalloc", (), "cudaFree"),
}
"""The library of the device's driver, and its functions: to allocate, with more arguments, and to free."""


def _bytes(mebibytes: int) -> dict[str, object]:
    return {"size": (mebibytes * MEBIBYTE,), "dtype": torch.uint8, "device": DEVICE}


def fragmentation_by_splitting() -> None:
    """Large blocks are cut up into pieces, and every other piece is kept."""
    whole = [torch.empty(**_bytes(200)) for _ in range(3)]
    del whole
    pieces = [torch.empty(**_bytes(49)) for _ in range(12)]  # CAUSE fragmentation by splitting
    kept = pieces[::2]
    del pieces
    torch.empty(**_bytes(250))
    assert kept


def fragmentation_by_splitting_in_steps() -> None:
    """The same with steps: a batch that is no larger than the others finds no room beside what is cached."""
    kept: list[torch.Tensor] = []
    for step in range(7):
        work = [torch.empty(**_bytes(80 + 5 * step)) for _ in range(6)]
        del work
        pieces = [torch.empty(**_bytes(12)) for _ in range(8)]  # CAUSE fragmentation by splitting
        kept = [*kept[-6:], *pieces[::4]]
        del pieces
        msmemscope.step()


def fragmentation_by_pinning() -> None:
    """The notes about a result lie where its large buffer was, and hold it."""
    notes, results = [], []
    for _ in range(3):
        buffer = torch.empty(**_bytes(220))
        del buffer
        notes.append(torch.empty(**_bytes(2)))  # CAUSE fragmentation by pinning
        results.append(torch.empty(**_bytes(217)))
    results.clear()
    torch.empty(**_bytes(400))
    assert notes


def two_streams() -> None:
    """One stream cannot have the memory that the other one has cached."""
    side = accelerator.Stream()
    held = []
    with accelerator.stream(side):
        for _ in range(2):
            buffer = torch.empty(**_bytes(300))
            del buffer
            held.append(torch.empty(**_bytes(20)))  # CAUSE memory of another stream
            held.append(torch.empty(**_bytes(270)))
        del held[1::2]
    side.synchronize()
    torch.empty(**_bytes(240))
    assert held


def cached_beside_an_arena() -> None:
    """The program asks the driver itself for an arena, while the pool holds what a step has freed."""
    weights = torch.empty(**_bytes(20))
    library, allocate, more, free = _DRIVERS[DEVICE]
    driver, arena = ctypes.CDLL(library), ctypes.c_void_p()
    for _ in range(4):
        size = ctypes.c_size_t(500 * MEBIBYTE)
        if is_applied("empty the cache first"):
            accelerator.empty_cache()
        if driver[allocate](ctypes.byref(arena), size, *more):  # CAUSE reserved by the pool
            raise torch.OutOfMemoryError
        driver[free](arena)
        work = [torch.empty(**_bytes(100)) for _ in range(4)]
        del work
        msmemscope.step()
    assert weights is not None


def workspace_growth() -> None:
    """An operator of the third step asks for a workspace that does not fit beside the tensors."""
    os.environ["VNPU_WORKSPACE"] = "400MiB"
    state = torch.empty(**_bytes(300 if is_applied("make room for the workspace") else 600))
    left = torch.zeros(1024, 1024, device=DEVICE)
    for step in range(4):
        left.add_(1)
        if step == 2:
            left = left @ left  # CAUSE workspace
        msmemscope.step()
    accelerator.synchronize()
    assert state is not None


def other_process() -> None:
    """Somebody else has half of the card."""
    weights = torch.empty(**_bytes(100))
    for step in range(4):
        if step == 2 and not is_applied("free the device"):
            ctypes.CDLL(None).another_process_takes(500)
        work = torch.empty(**_bytes(300))  # CAUSE other process
        del work
        accelerator.empty_cache()
        msmemscope.step()
    assert weights is not None


def limit() -> None:
    """A limit that the program has set itself."""
    weights = torch.empty(**_bytes(100))
    accelerator.set_per_process_memory_fraction(0.9 if is_applied("raise the limit") else 0.3)
    for _ in range(3):
        torch.empty(**_bytes(300))  # CAUSE configured limit
        msmemscope.step()
    assert weights is not None

"""A torch that uses one of three GPUs, for snapshots in folder argv[1]; asking about another would begin its use."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING

import msmemscope

if TYPE_CHECKING:
    from collections.abc import Callable

USED = 1
STATISTICS = {
    "reserved_bytes.all.current": 4000,
    "reserved_bytes.all.peak": 5000,
    "allocated_bytes.all.current": 1000,
    "allocated_bytes.all.peak": 2000,
}


def of_used(device: int) -> None:
    """Say so if it is a GPU that the program does not use."""
    if device != USED:
        print(f"GPU {device} was touched")


def memory_stats(device: int) -> dict[str, int]:
    """Say what the allocator holds."""
    of_used(device)
    return STATISTICS


def mem_get_info(device: int) -> tuple[int, int]:
    """Say what is free and what there is."""
    of_used(device)
    return 6000, 16000


def main() -> None:
    """Put the stand-in where torch would be, take snapshots, and run out of memory."""
    msmemscope.config(output=sys.argv[1])
    observers: list[Callable[[int, int, int, int], None]] = []
    torch = types.ModuleType("torch")
    torch.cuda = types.SimpleNamespace(  # type: ignore[attr-defined]
        device_count=lambda: 3,
        is_initialized=lambda: True,
        memory_stats=memory_stats,
        mem_get_info=mem_get_info,
        _lazy_call=lambda action: action(),
    )
    torch._C = types.SimpleNamespace(  # type: ignore[attr-defined]
        _cuda_hasPrimaryContext=lambda device: device == USED,
        _cuda_attach_out_of_memory_observer=observers.append,
    )
    sys.modules["torch"] = torch
    msmemscope.take_snapshot(name="all")
    msmemscope.take_snapshot(device_mask=2, name="unused")
    try:
        msmemscope.take_snapshot(device_mask=3)
    except ValueError as error:
        print(error)
    for _ in range(2):
        msmemscope.start()
        msmemscope.stop()
    msmemscope.start()
    for observer in observers:
        observer(USED, 1 << 30, 16000, 6000)


if __name__ == "__main__":
    main()

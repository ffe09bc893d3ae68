"""Uses an NPU before it imports msmemscope, and begins to record then; says what was reserved at most behind that.

Usage: used_before.py [refused]: whether torch_npu refuses to tell what its allocator holds.
"""

from __future__ import annotations

import sys

import torch
import torch_npu  # noqa: F401 - makes the device npu

MIB = 1 << 20


def block(size: int) -> torch.Tensor:
    """Allocate bytes."""
    return torch.empty(size, dtype=torch.uint8, device="npu")


def refuse() -> None:
    """Stand in the place of the snapshot."""
    message = "no snapshots today"
    raise RuntimeError(message)


def main() -> None:
    """Allocate and free before and behind."""
    kept = [block(size) for size in (1000, 5 * MIB, 30 * MIB, 700_000)]
    gone = [block(size) for size in (3 * MIB, 12 * MIB, 900)]
    with torch.npu.stream(torch.npu.Stream()):
        other = block(4 * MIB)
    gone.clear()
    import msmemscope

    if sys.argv[1:] == ["refused"]:
        torch.npu.memory_snapshot = refuse
    msmemscope.config(events="alloc,free,allocator", device="npu")
    msmemscope.start()
    torch.npu.reset_peak_memory_stats()
    later = [block(2 * MIB), block(11 * MIB)]
    del kept[1:3]
    later.append(block(29 * MIB))
    later.append(block(64 * MIB))
    print(f"reserved={torch.npu.max_memory_reserved()} allocated={torch.npu.memory_allocated()}")
    msmemscope.stop()
    del other


main()

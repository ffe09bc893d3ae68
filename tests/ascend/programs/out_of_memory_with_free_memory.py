"""Runs out of memory on a device of 1 GiB while much of it is free; with other settings of the allocator it finishes.

Usage: out_of_memory_with_free_memory.py REASON SNAPSHOT. Exit status 3 if memory ran out; the snapshot has the history.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import torch
import torch_npu  # noqa: F401 - makes the device npu

if TYPE_CHECKING:
    from collections.abc import Callable

MIB: Final = 1 << 20


def block(mebibytes: float) -> torch.Tensor:
    """A block of a size, with the padding of the allocator."""
    return torch.empty(int(mebibytes * MIB) - 1024, dtype=torch.uint8, device="npu")


def splitting() -> None:
    """Large segments are cut up for smaller blocks, and every other block stays."""
    segments = [block(200) for _ in range(3)]
    del segments
    pieces = [block(20) for _ in range(30)]
    del pieces[::2]
    block(300)


def pinning() -> None:
    """A small block that lives long lies in each large segment."""
    kept, scratch = [], []
    for _ in range(11):
        whole = block(60)
        del whole
        kept.append(block(2))
        scratch.append(block(58))
    scratch.clear()
    block(300)


def two_streams() -> None:
    """One stream cannot use the memory that another one has freed, and one block keeps its whole segment."""
    other = torch.npu.Stream()
    whole = block(600)
    del whole
    _kept = block(20)
    torch.npu.synchronize()
    with torch.npu.stream(other):
        block(350)


def segments_of_fixed_size() -> None:
    """Each step needs a little more than the one before, and leaves a block in what that had."""
    kept = []
    for step in range(40):
        scratch = block(24 + 2 * step), block(30 + 3 * step)
        kept.append(block(3))
        del scratch


REASONS: Final[dict[str, Callable[[], None]]] = {
    "splitting": splitting, "pinning": pinning, "two-streams": two_streams, "fixed-segments": segments_of_fixed_size,
}  # fmt: skip


def main() -> None:
    """Run one of them."""
    torch.npu.init()
    torch.npu.memory._record_memory_history(context=None)
    status = 0
    try:
        REASONS[sys.argv[1]]()
    except torch.OutOfMemoryError as error:
        print("refused:", error, f"reserved={torch.npu.memory_reserved()} allocated={torch.npu.memory_allocated()}")
        status = 3
    torch.npu.memory._dump_snapshot(sys.argv[2])
    sys.stdout.flush()
    raise SystemExit(status)


if __name__ == "__main__":
    main()

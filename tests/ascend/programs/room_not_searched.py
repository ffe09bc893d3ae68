"""Runs out of memory although its allocator has a free block that is large enough: it came free while room was made.

Usage: room_not_searched.py SNAPSHOT [synchronized]. On a device of 1 GiB. The second word is the control: the program waits
for the other stream first. Prints one line of JSON: whether the request was refused, and whether it was when asked again.
"""

from __future__ import annotations

import json
import sys

import torch
import torch_npu  # noqa: F401 - makes the device npu

MIB = 1 << 20


def block(mebibytes: int) -> torch.Tensor:
    """A block of a few MiB, with the padding of the allocator."""
    return torch.empty(mebibytes * MIB - 1024, dtype=torch.uint8, device="npu")


def is_refused() -> bool:
    """Ask for less than the free block has."""
    try:
        block(290)
    except torch.OutOfMemoryError:
        return True
    return False


def main() -> None:
    """Free a block that another stream uses, and ask for one that fits in it."""
    torch.npu.init()
    torch.npu.memory._record_memory_history(stacks="python")
    other = torch.npu.Stream()
    matrix = torch.ones(1500, 1500, device="npu")
    product = torch.empty_like(matrix)
    whole = block(400)
    del whole
    used_elsewhere, _kept = block(300), block(99)  # both in the segment of 400
    _others = [block(100) for _ in range(3)]
    torch.npu.synchronize()
    with torch.npu.stream(other):
        for _ in range(10):
            torch.mm(matrix, matrix, out=product)
        used_elsewhere.add_(1)
    used_elsewhere.record_stream(other)
    del used_elsewhere
    if sys.argv[2:] == ["synchronized"]:
        torch.npu.synchronize()
    refused = is_refused()
    torch.npu.memory._dump_snapshot(sys.argv[1])
    print(json.dumps({"refused": refused, "refused_again": is_refused()}), flush=True)


if __name__ == "__main__":
    main()

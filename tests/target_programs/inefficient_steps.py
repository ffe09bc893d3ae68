"""Trains nothing: each step frees a tensor late, after other operators have allocated. Prints the size of its storage."""

from __future__ import annotations

import sys

import torch

import msmemscope


def held_too_long(device: str) -> int:
    """Keep a tensor past its last use."""
    late = torch.ones(1 << 18, device=device)
    used = late.sum()
    other = torch.ones(1 << 16, device=device) + used
    third = other * 2
    size = int(late.untyped_storage().nbytes())
    del late
    del third
    return size


def main() -> None:
    """Take steps on the device that is named."""
    if sys.argv[1] == "npu":
        import torch_npu  # noqa: F401
    size = 0
    for _ in range(4):
        size = held_too_long(sys.argv[1])
        msmemscope.step()
    sys.stdout.write(f"size={size}\n")


main()

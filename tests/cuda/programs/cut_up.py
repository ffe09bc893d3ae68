"""Cuts large blocks of the pool up into pieces, and then asks for more than any gap has."""

from __future__ import annotations

import torch

MEBIBYTE = 1 << 20


def block(mebibytes: int) -> torch.Tensor:
    """A block of so many MiB."""
    return torch.empty(mebibytes * MEBIBYTE, dtype=torch.uint8, device="cuda")


WHOLE = [block(200) for _ in range(3)]
WHOLE.clear()
PIECES = [block(49) for _ in range(12)]
KEPT = PIECES[::2]
PIECES.clear()
try:
    block(250)
    print("outcome=finished")
except torch.OutOfMemoryError:
    print("outcome=exhausted")

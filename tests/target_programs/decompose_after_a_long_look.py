"""Ends within the rest after a long look at its modules, and says what the tensors of its last module take.

Usage: decompose_after_a_long_look.py
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import torch
from torch import nn

import msmemscope

LOOK_S = 0.3
"""Processor time of each look, until the later module is there."""


class Wrapped(torch.Tensor):
    """A tensor that takes long to be looked into."""

    is_slow = True

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        """It wraps nothing."""
        end = time.thread_time() + LOOK_S * Wrapped.is_slow
        while time.thread_time() < end:
            pass
        return [], None


def main() -> None:
    """Make a module, let it be looked at, make another one, end a step and leave."""
    first = nn.Module()
    first.register_buffer("wrapped", torch.ones(8).as_subclass(Wrapped))
    for _ in range(64):
        torch.ones(1)
    Wrapped.is_slow = False
    later = nn.Linear(96, 80)
    later(torch.ones(16, 96))
    msmemscope.step()
    print(f"weights={sum(tensor.untyped_storage().nbytes() for tensor in later.parameters())}")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()

"""Pinned memory of the host, which only an accelerator has: kept, and given back."""

from __future__ import annotations

import torch

import msmemscope

from . import DEVICE, STEPS


def pinned_buffers_kept() -> None:
    """A new pinned buffer for each transfer, and none is given back."""
    kept = []
    for _ in range(STEPS):
        buffer = torch.zeros(1 << 16).pin_memory()  # LEAK
        buffer.to(DEVICE, non_blocking=True)
        kept.append(buffer)
        msmemscope.step()


def pinned_buffer_reused() -> None:
    """One pinned buffer for all transfers."""
    buffer = torch.zeros(1 << 16).pin_memory()
    for _ in range(STEPS):
        buffer.add_(1)
        buffer.to(DEVICE, non_blocking=True)
        msmemscope.step()

"""Inference whose caches grow, and buffers of the host."""

from __future__ import annotations

import resource
from pathlib import Path

import torch

import msmemscope

from . import DEVICE, MEBIBYTE, is_applied


def kv_cache() -> None:
    """Keys and values of all tokens so far: each step makes them longer."""
    weights = torch.empty(100 * MEBIBYTE, dtype=torch.uint8, device=DEVICE)
    cache = [torch.zeros(1, 8, 0, 64, device=DEVICE) for _ in range(8)]
    for _ in range(100):
        for layer in range(8):
            if is_applied("bound the cache"):
                cache[layer] = cache[layer][:, :, -4096:]
            token = torch.zeros(1, 8, 1024, 64, device=DEVICE)
            cache[layer] = torch.cat([cache[layer], token], dim=2)  # CAUSE KV cache
        msmemscope.step()
    assert weights is not None


def pinned_host() -> None:
    """Pinned buffers of all transfers are kept, until the host has no more."""
    kept = [torch.zeros(1, device=DEVICE)]
    _leave(768)
    for _ in range(100):
        buffer = torch.empty(64 * MEBIBYTE, dtype=torch.uint8, pin_memory=True)  # CAUSE pinned host memory
        if buffer.data_ptr() == 0:
            message = "out of memory: no pinned host memory"
            raise MemoryError(message)
        kept.append(buffer)
        if is_applied("reuse pinned buffers"):
            kept.pop()
        msmemscope.step()


def _leave(mebibytes: int) -> None:
    """Let the process have so much more address space than it has."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    room = pages * resource.getpagesize() + mebibytes * MEBIBYTE
    resource.setrlimit(resource.RLIMIT_AS, (room, room))

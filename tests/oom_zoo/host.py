"""Tensors of the CPU in a process that may have only so much address space."""

from __future__ import annotations

import resource
from pathlib import Path

import torch

import msmemscope

from . import is_applied

MEBIBYTE = 1 << 20
WIDTH = 1024
"""Of layers: their weights have 4 MiB."""


def _leave(mebibytes: int) -> None:
    """Let the process have so much more address space than it has."""
    torch.zeros(WIDTH, WIDTH).mm(torch.zeros(WIDTH, WIDTH))  # what the operators need once
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    room = pages * resource.getpagesize() + mebibytes * MEBIBYTE
    resource.setrlimit(resource.RLIMIT_AS, (room, room))


def leak_on_host() -> None:
    """A list that nobody empties."""
    _leave(768)
    kept = []
    for _ in range(200):
        work = torch.empty(16 * MEBIBYTE, dtype=torch.uint8)
        del work
        kept.append(torch.empty(24 * MEBIBYTE, dtype=torch.uint8))  # CAUSE leak
        if is_applied("release what steps keep"):
            del kept[:-1]
        msmemscope.step()


def batch_jump_on_host() -> None:
    """The batch of step 4 is eight times as large as those before it."""
    _leave(768)
    weights = [torch.empty(WIDTH, WIDTH) for _ in range(4)]
    for batch in (4096, 4096, 4096, 4096 if is_applied("lower the batch") else 65536):
        value = torch.empty(batch, WIDTH)
        kept = []
        for _ in weights:
            value = torch.empty_like(value)  # CAUSE batch jump
            kept.append(value)
        msmemscope.step()
        del kept

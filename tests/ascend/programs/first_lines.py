"""Leaks in ways that a summary must not keep quiet about: on two devices, over too few steps.

Usage: first_lines.py two_devices | few
"""

from __future__ import annotations

import sys

import torch
import torch_npu  # noqa: F401 - brings the device

import msmemscope

kept = []


def keep(device: int) -> None:
    """Allocate what nobody frees."""
    kept.append(torch.empty(1_000_000, dtype=torch.uint8, device=f"npu:{device}"))


if sys.argv[1] == "two_devices":
    for _ in range(8):
        keep(0)
        keep(1)
        msmemscope.step()
else:
    for _ in range(2):
        keep(0)
        msmemscope.step()

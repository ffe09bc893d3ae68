"""Takes three steps of operators whose outputs are known, the third with larger ones. Prints what each operator changed."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import torch
import torch_npu  # noqa: F401

import msmemscope

if TYPE_CHECKING:
    from collections.abc import Callable

DEVICE = "npu"


def take_step(elements: int) -> list[tuple[str, int]]:
    """Run some operators and return by how much each changed what torch's allocator has given out."""
    changes = []
    tensors = [torch.ones(elements, device=DEVICE)]

    def planted(kernel: str, compute: Callable[[], torch.Tensor]) -> None:
        torch.npu.synchronize()
        before = torch.npu.memory_allocated()
        tensors.append(compute())
        torch.npu.synchronize()
        changes.append((kernel, torch.npu.memory_allocated() - before))

    planted("Adds", lambda: tensors[-1] + 1)
    planted("Muls", lambda: tensors[-1] * 3)
    planted("Exp", lambda: torch.exp(tensors[-1]))
    planted("Softmax", lambda: torch.softmax(tensors[-1], -1))
    planted("ReduceSum", lambda: torch.sum(tensors[-1]))
    return changes


steps = []
for size in (1000, 1000, 6000):
    steps.append(take_step(size))
    msmemscope.step()
sys.stdout.write(f"steps={json.dumps(steps, separators=(',', ':'))}\n")

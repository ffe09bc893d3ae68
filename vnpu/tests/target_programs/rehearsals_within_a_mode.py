"""Operators within a dispatch mode of Python; prints which implementations in Python torch asked for besides the mode."""

from __future__ import annotations

import sys
from typing import Any

import torch
import torch_npu  # noqa: F401
from torch.utils._python_dispatch import TorchDispatchMode


class Mode(TorchDispatchMode):
    """Sees operators and runs them as they are."""

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        """Run one."""
        return function(*arguments, **(keywords or {}))


asked: set[str] = set()


def look(frame: Any, event: str, _: object) -> None:
    """Remember a function in Python that gives the shapes of results."""
    if event == "call" and frame.f_code.co_filename.endswith(("_refs/__init__.py", "_meta_registrations.py")):
        asked.add(frame.f_code.co_name)


ones = torch.ones(3, 4, device="npu")
with Mode():
    ones + ones  # what the mode imports when it is first used is done
    sys.setprofile(look)
    total = (ones * 2).sub(1).exp().sum()
    sys.setprofile(None)
print(sorted(asked), round(total.item(), 2))

"""Small programs that run out of memory, with their truth: the line to blame ends with the comment CAUSE and its cause."""

from __future__ import annotations

import os

DEVICE = os.environ.get("OOM_ZOO_DEVICE", "npu")
"""Where the programs have their tensors: `npu`, `cuda` or `cpu`."""
MEBIBYTE = 1 << 20
_APPLIED = os.environ.get("OOM_ZOO_REMEDY", "")


def is_applied(remedy: str) -> bool:
    """Whether a program is to run as it is once its author has followed a remedy: variable `OOM_ZOO_REMEDY`, the remedy's words."""
    return remedy == _APPLIED

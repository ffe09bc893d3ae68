"""Trains a small model and prints the loss with all its digits; the argument is the device."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from torch_cases.training import loss_of

device = sys.argv[1]
if device == "npu":
    import torch_npu  # noqa: F401
print(loss_of(device), loss_of(device, 20))

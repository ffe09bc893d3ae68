"""Small programs that leak or do not leak, with their truth: a line that leaks ends with the comment LEAK."""

from __future__ import annotations

import os

STEPS = 12
"""Steps that a program takes; some take twice or four times as many."""

DEVICE = os.environ.get("LEAK_ZOO_DEVICE", "cpu")
"""Where the programs have their tensors: `cpu`, `npu` or `cuda`."""

"""Programs that know who owns each of their tensors, held against what a recording of them says."""

from __future__ import annotations

import os

DEVICE = os.environ.get("OWNER_TRUTHS_DEVICE", "cpu")
"""Where the programs have their tensors: `cpu`, `npu` or `cuda`."""

OWNERS = ("weight", "gradient", "optimizer_state", "activation", "kv_cache", "program", "operator")
"""Owners, as the programs and the tables call them."""

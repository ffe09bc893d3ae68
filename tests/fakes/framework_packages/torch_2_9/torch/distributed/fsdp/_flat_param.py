"""Flat parameters."""

# ruff: noqa: ARG002 - of a fake, only names and parameters matter

from __future__ import annotations

from importlib import import_module
from typing import Any

_probe: Any = import_module("framework_probe")


class FlatParamHandle:
    """Of some modules."""

    def _init_flat_param_and_metadata(self, params: Any, module: Any) -> Any:
        """Make."""
        return _probe.called("_init_flat_param_and_metadata")

    def _alloc_padded_unsharded_flat_param(self) -> Any:
        """Allocate."""
        return _probe.called("_alloc_padded_unsharded_flat_param")

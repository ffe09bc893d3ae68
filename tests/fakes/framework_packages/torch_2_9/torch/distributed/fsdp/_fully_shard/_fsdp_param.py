"""A parameter."""

# ruff: noqa: ARG002 - of a fake, only names and parameters matter

from __future__ import annotations

from importlib import import_module
from typing import Any

_probe: Any = import_module("framework_probe")


class FSDPParam:
    """Sharded."""

    def _init_sharded_param(self, param: Any, device: Any) -> Any:
        """Shard."""
        return _probe.called("_init_sharded_param")

    def init_all_gather_outputs(self, sizes: Any, dtypes: Any, world_size: Any, device: Any) -> Any:
        """Allocate."""
        return _probe.called("init_all_gather_outputs")

    def alloc_all_gather_outputs(self) -> Any:
        """Allocate again."""
        return _probe.called("alloc_all_gather_outputs")

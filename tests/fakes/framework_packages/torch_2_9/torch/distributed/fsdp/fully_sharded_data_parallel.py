"""The older FSDP."""

# ruff: noqa: ARG002 - of a fake, only names and parameters matter

from __future__ import annotations

from importlib import import_module
from typing import Any

_probe: Any = import_module("framework_probe")


class FullyShardedDataParallel:
    """Wraps a module."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute."""
        return _probe.called("forward")

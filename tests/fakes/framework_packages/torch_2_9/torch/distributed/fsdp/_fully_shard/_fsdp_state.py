"""State of a module."""

# ruff: noqa: ARG002 - of a fake, only names and parameters matter

from __future__ import annotations

from importlib import import_module
from typing import Any

_probe: Any = import_module("framework_probe")


class FSDPState:
    """Its hooks."""

    def _pre_forward(self, module: Any, args: Any, kwargs: Any) -> Any:
        """Before."""
        return _probe.called("_pre_forward")

    def _post_forward(self, module: Any, inputs: Any, output: Any) -> Any:
        """After."""
        return _probe.called("_post_forward")

    def _pre_backward(self, grad: Any) -> Any:
        """Before."""
        return _probe.called("_pre_backward")

"""A part of a transformer."""

# ruff: noqa: ARG002 - of a fake, only names and parameters matter

from __future__ import annotations

from importlib import import_module
from typing import Any

_probe: Any = import_module("framework_probe")


class TransformerBlock:
    """A module."""

    def forward(self, hidden_states: Any) -> Any:
        """Compute."""
        return _probe.called("forward")

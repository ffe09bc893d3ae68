"""A layer with a forward of its own."""

# ruff: noqa: ARG002 - of a fake, only names and parameters matter

from __future__ import annotations

from importlib import import_module
from typing import Any

_Base: Any = import_module("megatron.core.transformer.transformer_layer").TransformerLayer
_probe: Any = import_module("framework_probe")


class TransformerLayer(_Base):
    """A module."""

    def forward(self, hidden_states: Any) -> Any:
        """Compute."""
        return _probe.called("forward")

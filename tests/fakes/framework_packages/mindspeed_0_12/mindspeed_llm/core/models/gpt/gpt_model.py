"""The model."""

# ruff: noqa: ARG002 - of a fake, only names and parameters matter

from __future__ import annotations

from importlib import import_module
from typing import Any

_probe: Any = import_module("framework_probe")


class LanguageModule:
    """Has the loss."""

    def compute_language_model_loss(self, labels: Any, logits: Any) -> Any:
        """The loss."""
        return _probe.called("compute_language_model_loss")


class GPTModel(LanguageModule):
    """A model."""

    def forward(self, input_ids: Any, position_ids: Any) -> Any:
        """Compute."""
        return _probe.called("forward")

"""The training loop."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_probe: Any = import_module("framework_probe")


def train(forward_step_func: Any, model: Any, optimizer: Any) -> Any:
    """Train."""
    return _probe.called("train")


def train_step(forward_step_func: Any, data_iterator: Any) -> Any:
    """One step."""
    return _probe.called("train_step")

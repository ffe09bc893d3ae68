"""Schedules."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_probe: Any = import_module("framework_probe")


def backward_step(input_tensor: Any, output_tensor: Any, output_tensor_grad: Any) -> Any:
    """Backward."""
    return _probe.called("backward_step")

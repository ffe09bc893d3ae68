"""Optimizers."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_probe: Any = import_module("framework_probe")


def get_megatron_optimizer(config: Any, model_chunks: Any) -> Any:
    """The optimizer of a configuration."""
    return _probe.called("get_megatron_optimizer")

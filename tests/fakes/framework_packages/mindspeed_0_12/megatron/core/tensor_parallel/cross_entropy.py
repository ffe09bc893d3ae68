"""Loss."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_probe: Any = import_module("framework_probe")


def vocab_parallel_cross_entropy(vocab_parallel_logits: Any, target: Any, label_smoothing: float = 0.0) -> Any:
    """The loss."""
    return _probe.called("vocab_parallel_cross_entropy")

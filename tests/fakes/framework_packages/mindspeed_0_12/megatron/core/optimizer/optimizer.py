"""Optimizers, as a tree of classes."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_probe: Any = import_module("framework_probe")


class MegatronOptimizer:
    """The base."""

    def step(self) -> Any:
        """Update."""
        return _probe.called("step")


class MixedPrecisionOptimizer(MegatronOptimizer):
    """Keeps weights twice."""

    def step(self) -> Any:
        """Update."""
        return _probe.called("step")

    def step_with_ready_grads(self) -> Any:
        """Update."""
        return _probe.called("step_with_ready_grads")


class Float16OptimizerWithFloat16Params(MixedPrecisionOptimizer):
    """Inherits its step."""


class FP32Optimizer(MegatronOptimizer):
    """Full precision."""

    def step(self) -> Any:
        """Update."""
        return _probe.called("step")


class ChainedOptimizer(MegatronOptimizer):
    """Several."""

    def step(self) -> Any:
        """Update."""
        return _probe.called("step")

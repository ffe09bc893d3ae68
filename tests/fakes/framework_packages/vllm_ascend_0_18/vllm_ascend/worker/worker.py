"""The worker of one device."""

# ruff: noqa: ARG002 - of a fake, only names and parameters matter

from __future__ import annotations

from importlib import import_module
from typing import Any

_probe: Any = import_module("framework_probe")


class NPUWorker:
    """Has a model runner."""

    def execute_model(self, scheduler_output: Any) -> Any:
        """Serve one batch."""
        return _probe.called("execute_model")

    def load_model(self) -> Any:
        """Load the weights."""
        return _probe.called("load_model")

    def compile_or_warm_up_model(self) -> Any:
        """Compile and capture before serving."""
        return _probe.called("compile_or_warm_up_model")

    def sleep(self, level: int = 1) -> Any:
        """Put the memory of the model to sleep."""
        return _probe.called("sleep")

    def wake_up(self, tags: list[str] | None = None) -> Any:
        """Wake the memory of the model."""
        return _probe.called("wake_up")

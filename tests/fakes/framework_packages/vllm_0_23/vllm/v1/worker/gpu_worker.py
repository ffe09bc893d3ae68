"""The worker of one device."""

# ruff: noqa: ARG002 - of a fake, only names and parameters matter

from __future__ import annotations

from importlib import import_module
from typing import Any

_probe: Any = import_module("framework_probe")


class Worker:
    """Has a model runner."""

    def sleep(self, level: int = 1) -> Any:
        """Put the memory of the model to sleep."""
        return _probe.called("sleep")

    def wake_up(self, tags: list[str] | None = None) -> Any:
        """Wake the memory of the model."""
        return _probe.called("wake_up")

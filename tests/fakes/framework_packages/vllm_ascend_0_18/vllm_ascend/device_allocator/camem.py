"""The allocator of memory that can sleep."""

# ruff: noqa: ARG002 - of a fake, only names and parameters matter

from __future__ import annotations

from importlib import import_module
from typing import Any

_probe: Any = import_module("framework_probe")


class CaMemAllocator:
    """One of a process."""

    def sleep(self, offload_tags: tuple[str, ...] | str | None = None) -> Any:
        """Give memory back, what has one of the tags to the host."""
        return _probe.called("sleep")

    def wake_up(self, tags: list[str] | None = None) -> Any:
        """Take memory again."""
        return _probe.called("wake_up")

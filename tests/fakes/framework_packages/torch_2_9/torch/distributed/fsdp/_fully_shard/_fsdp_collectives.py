"""Communication."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_probe: Any = import_module("framework_probe")


def foreach_all_gather(fsdp_params: Any, group: Any) -> Any:
    """Gather."""
    return _probe.called("foreach_all_gather")


def foreach_reduce(fsdp_params: Any, unsharded_grads: Any) -> Any:
    """Reduce."""
    return _probe.called("foreach_reduce")

"""What happens around forward and backward."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_probe: Any = import_module("framework_probe")


def _pre_backward_hook(state: Any, module: Any, handle: Any, grad: Any) -> Any:
    """Before."""
    return _probe.called("_pre_backward_hook")


def _post_backward_hook(state: Any, handle: Any, flat_param: Any, *unused: Any) -> Any:
    """After."""
    return _probe.called("_post_backward_hook")


def _reduce_grad(state: Any, handle: Any) -> Any:
    """Reduce."""
    return _probe.called("_reduce_grad")

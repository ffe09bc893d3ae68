"""The Python function trace (`--events=traceback`): switching the native profile function on and off."""

from __future__ import annotations

import sys
import threading
from types import CodeType
from typing import Any

from msmemscope import _native


class FunctionTrace:
    """Traces the calls of every Python thread while it is on."""

    def __init__(self) -> None:
        self._previous_thread_profile: Any = None

    def start(self) -> None:
        """Trace from now on, unless another profiler is at work: there can be only one."""
        if _native.function_trace_is_on():
            return
        if sys.getprofile() is not None or threading.getprofile() is not None:
            _native.say("function calls are not traced: another profiler is active (sys.setprofile)")
            _native.note_fact("unobserved.python_trace", "another profiler was active")
            return
        threading.setprofile(_native.trace_this_thread)
        _native.start_function_trace(_dispatch_code(), _module_call_code())
        _native.note_fact("observed.python_trace", f"Python {sys.version.partition(' ')[0]}")

    def stop(self) -> None:
        """Stop tracing; calls that have not returned are written as open."""
        if not _native.function_trace_is_on():
            return
        _native.stop_function_trace()
        threading.setprofile(None)


def _dispatch_code() -> CodeType | None:
    """Code of our own dispatch function: it and what it calls are not the program's."""
    if "torch" not in sys.modules:
        return None
    from msmemscope.capture.torch_operators import OperatorMode

    function: Any = OperatorMode.__torch_dispatch__
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code: CodeType = function.__code__
    return code


def _module_call_code() -> CodeType | None:
    """Code of `torch.nn.Module.__call__`, whose calls are shown by the module's class."""
    torch = sys.modules.get("torch")
    module_class = getattr(getattr(torch, "nn", None), "Module", None)
    code = getattr(vars(module_class).get("__call__"), "__code__", None) if module_class is not None else None
    return code if isinstance(code, CodeType) else None

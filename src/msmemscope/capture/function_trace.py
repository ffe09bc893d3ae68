"""The Python function trace: switching the native profile function on and off.

There is one trace per process. Two may ask for it: the session (`events="traceback"`), and the program itself
(`msmemscope.tracer`). It runs while at least one of them wants it, so that neither ends what the other began.
"""

from __future__ import annotations

import os
import sys
import threading
from types import CodeType
from typing import Any

from msmemscope import _native
from msmemscope.model.devices import DEVICE_CPU, DEVICE_NONE, device_name

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep  # noqa: PTH100, PTH120 - no pathlib here


_is_waiting_for_torch: list[bool] = []
_is_described: list[bool] = []
_untraced_codes: list[CodeType] = []


def leave_untraced(*codes: CodeType) -> None:
    """Leave functions and their calls out of the trace: they are at work for the tool itself."""
    _untraced_codes.extend(codes)
    if _is_described:
        _describe_program()


class FunctionTrace:
    """One who wants the calls of every Python thread traced.

    Args:
        is_unconditional: Whether calls are written also while no events are collected, and whatever was chosen to be
            collected.
    """

    _wanted_by: list[FunctionTrace] = []  # noqa: RUF012 - shared on purpose: the trace is one for all

    def __init__(self, *, is_unconditional: bool = False) -> None:
        self.is_unconditional = is_unconditional

    @property
    def is_on(self) -> bool:
        """Whether this one wants the trace now, and has it."""
        return self in self._wanted_by and _native.function_trace_is_on()

    def start(self) -> bool:
        """Trace from now on, unless another profiler is at work: there can be only one.

        Returns:
            Whether calls are traced now.
        """
        if not _native.function_trace_is_on():
            if sys.getprofile() is not None or threading.getprofile() is not None:
                _native.warn("function calls are not traced: another profiler is active (sys.setprofile)")
                _native.note_fact("unobserved.python_trace", "another profiler was active")
                return False
            _describe_program()
            threading.setprofile(_native.trace_this_thread)
            _native.start_function_trace()
            _native.note_fact("observed.python_trace", f"Python {sys.version.partition(' ')[0]}")
        if self not in self._wanted_by:
            self._wanted_by.append(self)
        self._settle()
        return True

    def stop(self) -> None:
        """Stop tracing, unless somebody else still wants it; calls that have not returned are written as open."""
        if self not in self._wanted_by:
            return
        self._wanted_by.remove(self)
        if self._wanted_by:
            self._settle()
            return
        _native.stop_function_trace()
        _native.note_fact("python_trace.device", _device_in_use())
        _native.write_calls_always(False)
        if threading.getprofile() == _native.trace_this_thread:
            threading.setprofile(None)

    def _settle(self) -> None:
        _native.write_calls_always(any(one.is_unconditional for one in self._wanted_by))


def _device_in_use() -> str:
    """The device whose results the trace belongs to: the one that the program uses, whether it has rows or not."""
    from msmemscope.capture.current_device import current_device

    device = current_device()
    return device_name(DEVICE_CPU if device == DEVICE_NONE else device)


def _describe_program() -> None:
    """Tell the native side which code is not the program's. Tell it again once torch is there, if it is not yet."""
    torch_is_ready = hasattr(sys.modules.get("torch"), "__version__")
    dispatch = (_dispatch_code(),) if torch_is_ready else ()
    module_call = _module_call_code() if torch_is_ready else None
    _is_described[:] = [True]
    _native.describe_program((*_untraced_codes, *dispatch), module_call, _PACKAGE)
    if not torch_is_ready and not _is_waiting_for_torch:
        from msmemscope.capture.import_hook import when_imported

        _is_waiting_for_torch.append(True)
        when_imported("torch", _describe_program)


def _dispatch_code() -> CodeType:
    """Return the code of our own dispatch function: it and its calls are not the program's."""
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

"""The sanitizer of torch_npu, and the operators that libraries report to it in marks."""

from __future__ import annotations

from msmemscope import _native
from msmemscope.capture.session import session
from msmemscope.errors import MsmemscopeError


def enable_npu_sanitizer() -> None:
    """Turn on torch_npu's sanitizer, which looks for streams that use memory without waiting for each other.

    From then on, mstx marks of the form `sanitizer-op: name=OPERATOR;read=ALIAS:ADDRESS:SIZE,...;write=...` are
    operators that read and write this memory. They become rows `OP_LAUNCH` and `ACCESS`, if `events` has launch and
    access.

    Raises:
        MsmemscopeError: If torch_npu is not installed, or has no sanitizer.
    """
    try:
        from torch_npu.npu._sanitizer import enable_npu_sanitizer as enable
    except ImportError as error:
        message = f"torch_npu has no sanitizer that could be turned on: {error}"
        raise MsmemscopeError(message, hint="it comes with torch_npu, on a machine that CANN is set up on") from error
    session.begin_launched()
    enable()
    _native.take_sanitizer_marks()

"""Marks and ranges of `torch_npu.npu.mstx`, which torch_npu turns off while its pools are observed.

torch_npu passes them on to mstx only while a profiler of its own wants them. So each function is wrapped: the original
is called, and if nothing came out of it at mstx, the mark goes to the core directly.
"""

from __future__ import annotations

import functools
import sys
import threading
from typing import TYPE_CHECKING, Any, Final

from msmemscope import _native
from msmemscope.capture.import_hook import when_imported
from msmemscope.capture.task_queue import step_begins, step_ends

if TYPE_CHECKING:
    from collections.abc import Callable

_MODULE: Final = "torch_npu.npu"
"""Where the functions are. torch_npu itself is in the middle of its import where the program imports it before torch."""
_OURS = 1 << 48
"""Added to the numbers of ranges that we began, so that they are not taken for torch_npu's own."""

_state = threading.local()
_waits = False
_wrapped: list[type] = []


def observe_with_torch_npu() -> None:
    """Wrap the functions now if the program has torch_npu already, else as soon as it imports it."""
    global _waits  # noqa: PLW0603 - there is one torch_npu
    if hasattr(sys.modules.get(_MODULE), "mstx"):
        _wrap()
    elif not _waits:
        _waits = True
        when_imported(_MODULE, _wrap)


def _wrap() -> None:
    """Put the wrappers in place, once. Never raises: it runs in the middle of the program's imports."""
    try:
        mstx: Any = sys.modules[_MODULE].mstx
        if mstx in _wrapped:
            return
        for name, wrap in _WRAPPERS.items():
            original = getattr(mstx, name)
            setattr(mstx, name, staticmethod(functools.update_wrapper(wrap(original), original)))
        _wrapped.append(mstx)
    except Exception as error:  # noqa: BLE001 - the program goes on, whatever this torch_npu is like
        _native.note_fact("unobserved.torch_npu_marks", f"{type(error).__name__}: {error}")


def _is_mark(message: object, stream: object, domain: object) -> bool:
    """Whether torch_npu would take it; a message that it refuses is no mark."""
    return (
        isinstance(message, str) and message != "" and isinstance(domain, str) and (not stream or _handle(stream) != 0)
    )


def _handle(stream: Any) -> int:
    """The runtime's handle of a stream, 0 for none.

    torch_npu waits for its task queue when it is asked for the handle, so each stream is asked once.
    """
    if not stream:
        return 0
    key = (getattr(stream, "device_index", None), getattr(stream, "stream_id", None))
    if None in key:
        return 0
    if key not in _handles:
        _handles[key] = int(stream.npu_stream)
    return _handles[key]


_handles: dict[tuple[Any, Any], int] = {}


def _mark(original: Callable[..., Any]) -> Any:
    def mark(message: Any, stream: Any = None, domain: Any = "default") -> Any:
        before = _native.mstx_calls()
        result = original(message, stream, domain)
        if _native.mstx_calls() == before and _is_mark(message, stream, domain):
            _native.mark(message, _handle(stream))
        return result

    return mark


def _range_start(original: Callable[..., Any]) -> Any:
    def range_start(message: Any, stream: Any = None, domain: Any = "default") -> Any:
        step_begins(message)
        result = original(message, stream, domain)
        if result == 0 and _is_mark(message, stream, domain):
            return _native.range_start(message, _handle(stream)) + _OURS
        return result

    return range_start


def _range_end(original: Callable[..., Any]) -> Any:
    def range_end(range_id: Any, domain: Any = "default") -> Any:
        step_ends()
        if isinstance(range_id, int) and range_id > _OURS:
            _native.range_end(range_id - _OURS)
            return None
        return original(range_id, domain)

    return range_end


def _range_push(original: Callable[..., Any]) -> Any:
    def range_push(message: Any, stream: Any = None, domain: Any = "default") -> Any:
        step_begins(message)
        result = original(message, stream, domain)
        if _is_mark(message, stream, domain):
            # None: torch_npu has this one itself.
            is_ours = isinstance(result, int) and result < 0
            _stack(domain).append(_native.range_start(message, _handle(stream)) if is_ours else None)
        return result

    return range_push


def _range_pop(original: Callable[..., Any]) -> Any:
    def range_pop(domain: Any = "default") -> Any:
        step_ends()
        result = original(domain)
        stack = _stack(domain) if isinstance(domain, str) else []
        range_id = stack.pop() if stack else None
        if range_id is not None:
            _native.range_end(range_id)
        return result

    return range_pop


def _stack(domain: str) -> list[int | None]:
    """The ranges that this thread has pushed and not popped, as of a domain."""
    stacks: dict[str, list[int | None]] = _state.__dict__.setdefault("stacks", {})
    return stacks.setdefault(domain, [])


_WRAPPERS: dict[str, Callable[[Callable[..., Any]], Any]] = {
    "mark": _mark,
    "range_start": _range_start,
    "range_end": _range_end,
    "range_push": _range_push,
    "range_pop": _range_pop,
}

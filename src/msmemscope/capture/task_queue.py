"""Kernels of chosen steps: torch_npu's task queue launches them later than the program asks for them, on its own thread.

If certain steps are wanted with their kernels, the queue is emptied before a step begins and before it ends. So the
kernels that the program asked for within a step are launched within it. Other runs never wait for the queue.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any, Final

from msmemscope import _native
from msmemscope.capture.import_hook import when_imported

if TYPE_CHECKING:
    from collections.abc import Callable

_STEP_MESSAGE: Final = "step start"
"""The text of ranges that are steps."""
_MARKS: Final = "mstx"
"""The module whose ranges programs mark steps with, apart from `torch_npu.npu.mstx`."""

_state = {"is_wanted": False, "waits_for_marks": False}


def follow_task_queue(*, is_wanted: bool) -> None:
    """Choose whether the queue is emptied where steps begin and end."""
    _state["is_wanted"] = is_wanted
    if is_wanted and not _state["waits_for_marks"]:
        _state["waits_for_marks"] = True
        if _MARKS in sys.modules:
            _wrap_marks()
        else:
            when_imported(_MARKS, _wrap_marks)


def step_begins(message: object) -> None:
    """To be called before a range begins that may be a step."""
    if _state["is_wanted"] and message == _STEP_MESSAGE:
        _empty_task_queue()


def step_ends() -> None:
    """To be called before a step ends."""
    if _state["is_wanted"] and _native.is_collecting():
        _empty_task_queue()


def between_steps() -> None:
    """To be called where a step ends and the next one begins."""
    if _state["is_wanted"]:
        _empty_task_queue()


def _empty_task_queue() -> None:
    """Wait until the queue has launched all that it holds. Never raises: the program meets its errors itself."""
    npu: Any = sys.modules.get("torch_npu.npu")
    try:
        if npu is not None and npu.is_initialized():
            _ = npu.current_stream().npu_stream  # torch_npu empties its queue when it is asked for the handle
    except Exception as error:  # noqa: BLE001 - a fault of the program's own work
        _native.note_fact("unobserved.task_queue", f"{type(error).__name__}: {error}")


def _wrap_marks() -> None:
    """Put the wrappers in place. Never raises: it runs in the middle of the program's imports."""
    marks: Any = sys.modules[_MARKS]
    try:
        marks.range_start = _with_begin(marks.range_start)
        marks.range_end = _with_end(marks.range_end)
    except (AttributeError, TypeError) as error:
        _native.note_fact("unobserved.task_queue", f"{type(error).__name__}: {error}")


def _with_begin(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def range_start(message: Any, *arguments: Any, **keywords: Any) -> Any:
        step_begins(message)
        return original(message, *arguments, **keywords)

    return range_start


def _with_end(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def range_end(*arguments: Any, **keywords: Any) -> Any:
        step_ends()
        return original(*arguments, **keywords)

    return range_end

"""Unexpected exceptions: one line, with the facts that are needed to find the cause."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from typing import TYPE_CHECKING, Final

from msmemscope.errors import MsmemscopeError
from msmemscope.reports.plain_text import cut_end

if TYPE_CHECKING:
    from collections.abc import Iterator

TRACEBACK_VARIABLE: Final = "MSMEMSCOPE_TRACEBACK"
"""Environment variable: if it is set and not empty, the traceback of a fault is shown."""

_FAULT: Final = "this is a fault of msmemscope"
_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - of frames, which are text
_LONGEST_MESSAGE: Final = 300
_OF_THE_MACHINE: Final = frozenset(
    {
        errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO, errno.ENOMEM, errno.EMFILE,
        errno.ENFILE, errno.ESTALE, errno.ENODEV, errno.ENXIO,
    }
)  # fmt: skip
"""Errors of files whose cause is the machine: a full disk, missing permissions."""
_EXPECTED: Final = (MsmemscopeError, KeyboardInterrupt, SystemExit, GeneratorExit, BrokenPipeError)


def fault_text(error: BaseException) -> str:
    """Return an unexpected exception in one line."""
    if isinstance(error, MemoryError):
        return "memory ran out"
    if isinstance(error, OSError) and error.errno in _OF_THE_MACHINE:
        return f"{error.strerror}: {error.filename}" if error.filename else f"{error.strerror}"
    # Polars adds pages of advice.
    message = cut_end(str(error).partition("\n")[0], _LONGEST_MESSAGE)
    what = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return f"{_FAULT}: {what} ({_place_of(error)})"


def fault_error(error: BaseException, *, send: str, during: str = "") -> MsmemscopeError:
    """Return the error to report for an unexpected exception, and show the traceback if that is wanted.

    Args:
        error: The exception.
        send: The input that a report must contain to reproduce it.
        during: The work that failed, for the beginning of the line.
    """
    text = fault_text(error)
    hint = None
    if isinstance(error, MemoryError):
        hint = "let other programs end first, or use a machine with more memory"
    elif _FAULT in text:
        hint = (
            f"please report it with {send}, the output of msmemscope doctor, "
            f"and the traceback that {TRACEBACK_VARIABLE}=1 shows"
        )
    show_traceback(error)
    return MsmemscopeError(f"{during}: {text}" if during else text, hint=hint)


def show_traceback(error: BaseException) -> None:
    """Print where an error was raised, if that is wanted."""
    if os.environ.get(TRACEBACK_VARIABLE):
        import traceback

        with contextlib.suppress(OSError, ValueError):
            traceback.print_exception(error, file=sys.stderr)


@contextlib.contextmanager
def faults_as_errors(*, send: str, during: str = "") -> Iterator[None]:
    """Turn unexpected exceptions into a `MsmemscopeError`, for callers that go on. Arguments as for `fault_error`."""
    try:
        yield
    except _EXPECTED:
        raise
    except BaseException as error:  # a panic of Polars is no Exception
        raise fault_error(error, send=send, during=during) from error


def _place_of(error: BaseException) -> str:
    """The innermost line of ours that an error passed through, else the innermost line."""
    place = "?"
    is_ours = False
    trace = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name.startswith(_PACKAGE + os.sep):
            place, is_ours = f"{os.path.relpath(name, _PACKAGE)}:{trace.tb_lineno}", True
        elif not is_ours:
            place = f"{name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place

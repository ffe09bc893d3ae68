"""Words to the user: one line each, on stderr, readable without colour."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from msmemscope.configuration import LogLevel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

    from msmemscope.errors import MsmemscopeError


_LEVELS = tuple(LogLevel)
_least = [LogLevel.WARN]


def print_from(level: LogLevel) -> None:
    """Leave out less important messages from now on."""
    _least[0] = level


def least_level() -> LogLevel:
    """Return the importance from which messages are printed."""
    return _least[0]


@contextlib.contextmanager
def printed_from(level: LogLevel) -> Iterator[None]:
    """Leave out less important messages meanwhile."""
    before = _least[0]
    print_from(level)
    try:
        yield
    finally:
        print_from(before)


def are_printed(level: LogLevel) -> bool:
    """Whether messages of this importance are printed."""
    return _LEVELS.index(level) >= _LEVELS.index(_least[0])


def next_command(command: str) -> None:
    """Print the command to type next, as long as anything but errors is printed."""
    if are_printed(LogLevel.WARN):
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(f"next: {command}\n")
            sys.stderr.flush()


def _print(kind: str, text: str, hint: str | None = None) -> None:
    # A closed or full stderr must not change the exit status of the observed program.
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"msmemscope: {kind}{text}\n")
        if hint is not None:
            sys.stderr.write(f"hint: {hint}\n")
        sys.stderr.flush()


def error(failure: MsmemscopeError) -> None:
    """Print an error and its hint."""
    _print("error: ", failure.message, failure.hint)


def forget_unwritten(stream: TextIO) -> None:
    """Drop text that could not be written.

    Otherwise the interpreter would try again at its end, with a traceback and a status of its own.
    """
    with contextlib.suppress(OSError, ValueError):
        stream.flush()
        return
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def failed(text: str, hint: str | None = None) -> None:
    """Print an error that is no `MsmemscopeError`."""
    _print("error: ", text, hint)


def warning(text: str, hint: str | None = None) -> None:
    """Print a warning; the run goes on."""
    if are_printed(LogLevel.WARN):
        _print("warning: ", text, hint)


def note(text: str) -> None:
    """Print a note, as long as anything but errors is printed."""
    if are_printed(LogLevel.WARN):
        _print("", text)


def information(text: str) -> None:
    """Print how the tool did something, for those who ask."""
    if are_printed(LogLevel.INFO):
        _print("", text)

"""Signals with which a user asks for something: `--trigger=SIGUSR2`."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Final

from msmemscope import _native

if TYPE_CHECKING:
    from collections.abc import Callable

_arrived: Final[dict[int, Callable[[], None]]] = {}
"""By the number of a signal."""


def await_signal(name: str, arrived: Callable[[], None]) -> None:
    """Have a function called on the main thread when a signal arrives.

    If the program has a handler for the signal, nothing happens. A handler that the program installs later is its own.

    Args:
        name: `SIGUSR2`.
        arrived: It must not raise.
    """

    def begin() -> None:
        number = signal.Signals[name]
        if number not in _arrived and signal.getsignal(number) is not signal.SIG_DFL:
            _native.warn(f"--trigger: {name} is not awaited, because the program has a handler for it")
            return
        _arrived[number] = arrived
        try:
            signal.signal(number, _handle)
            # System calls of libraries are not to fail.
            signal.siginterrupt(number, False)
        except (OSError, ValueError) as error:  # an interpreter that the program made beside its own
            _native.warn(f"--trigger: {name} is not awaited: {error}")

    if threading.current_thread() is threading.main_thread():
        begin()
    elif not _native.call_in_main_thread(begin):
        _native.warn(f"--trigger: {name} is not awaited, because the main thread has too much to do")


def _handle(number: int, _: object) -> None:
    _arrived[number]()


_native.hide_code((_handle.__code__,))

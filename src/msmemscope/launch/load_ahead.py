"""Loads what results are made with while the program still runs.

It takes most of a second, and many where packages lie on a network: at the end of a program somebody waits, or a job that is
being ended from outside has little time left. What every summary needs is loaded at once, which takes some milliseconds; for a
program that records nothing, or is over soon, nothing more is. Nothing is loaded ahead where memory is limited: libraries that
get none may end the process, which must outlive the program.
"""

from __future__ import annotations

import _thread  # not threading: most commands end before anything is loaded
import contextlib
import resource
import signal
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_LOOK_S: Final = 2.0
"""Seconds after which it is asked for the first time whether the program records anything."""
_NEXT_LOOK: Final = 1.25
"""How many times as long the next wait is, but for a minute at most."""
_LONGEST_WAIT_S: Final = 60.0
_MEMORY_LIMITS: Final = (resource.RLIMIT_AS, resource.RLIMIT_DATA)


class LoadAhead:
    """Loads in a thread of its own; the large libraries once something has been recorded."""

    def __init__(self, is_needed: Callable[[], bool]) -> None:
        """Prepare it.

        Args:
            is_needed: Whether something has been recorded; called in the thread.
        """
        self._is_needed = is_needed
        self._program_ended = _thread.allocate_lock()
        self._thread_ended = _thread.allocate_lock()

    def begin(self) -> None:
        """Start the thread. Signals that the main thread handles must be held back: what is started here never gets them."""
        if any(resource.getrlimit(limit)[0] != resource.RLIM_INFINITY for limit in _MEMORY_LIMITS):
            return
        self._program_ended.acquire()
        self._thread_ended.acquire()
        try:
            _thread.start_new_thread(self._run, ())
        except RuntimeError:  # no more threads here: all is loaded at the end
            self._thread_ended.release()

    def end(self) -> None:
        """Load nothing more; waits for what is being loaded. Without effect if it was not begun."""
        if self._program_ended.locked():
            self._program_ended.release()
        with self._thread_ended:
            pass

    def _run(self) -> None:
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            # What fails here fails once more where it is used, and is told there.
            with contextlib.suppress(BaseException):
                load_summary()
            wait_s = FIRST_LOOK_S
            while not self._program_ended.acquire(timeout=wait_s):
                with contextlib.suppress(BaseException):
                    if self._is_needed():
                        break
                wait_s = min(wait_s * _NEXT_LOOK, _LONGEST_WAIT_S)
            else:
                return  # the program has ended
            with contextlib.suppress(BaseException):
                load()
        finally:
            self._thread_ended.release()


def load_summary() -> None:
    """Load what every summary is made with, also where nothing was recorded."""
    import msmemscope.reports.run_summary
    import msmemscope.reports.terminal  # noqa: F401 - for whoever asks for them next


def load() -> None:
    """Load what results are made with."""
    load_summary()
    import msmemscope.launch.captures
    import msmemscope.reports.leaks_report
    import msmemscope.reports.summary_screen
    import msmemscope.reports.watch_report  # noqa: F401 - for whoever asks for them next

"""Loads the libraries that make results while the program still runs.

Loading takes most of a second, and many seconds where packages lie on a network. At the end of a program somebody
waits, or a job that is being ended from outside has little time left. Modules that every summary needs are loaded at
once, in some milliseconds. For a program that records nothing, or ends soon, nothing more is loaded. Nothing is loaded
ahead where memory is limited: libraries that get none may end the process, which must outlive the program.
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
"""Each wait is so many times as long as the one before, up to a minute."""
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
        """Start the thread. Signals of the main thread must be held back: threads started here never get them."""
        if any(resource.getrlimit(limit)[0] != resource.RLIM_INFINITY for limit in _MEMORY_LIMITS):
            return
        self._program_ended.acquire()
        self._thread_ended.acquire()
        try:
            _thread.start_new_thread(self._run, ())
        except RuntimeError:  # no more threads here: all is loaded at the end
            self._thread_ended.release()

    def end(self) -> None:
        """Load nothing more; waits for a load that has begun. Without effect if it was not begun."""
        if self._program_ended.locked():
            self._program_ended.release()
        with self._thread_ended:
            pass

    def _run(self) -> None:
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            # A module that fails here fails once more where it is used, and is reported there.
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
    """Load the modules that every summary needs, also where nothing was recorded."""
    import msmemscope.reports.run_summary
    import msmemscope.reports.terminal  # noqa: F401 - for whoever asks for them next


def load() -> None:
    """Load the modules that make results."""
    load_summary()
    import msmemscope.launch.finish
    import msmemscope.reports.leaks_report
    import msmemscope.reports.summary_screen
    import msmemscope.reports.watch_report  # noqa: F401 - for whoever asks for them next

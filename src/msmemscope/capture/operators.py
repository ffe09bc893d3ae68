"""Collecting operators: when to watch, in which threads, and with which torch.

Nothing here imports torch; what needs it is in `torch_operators`, which is imported once the program has imported
torch itself.
"""

from __future__ import annotations

import _thread
import re
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

from msmemscope import _native
from msmemscope.capture.import_hook import when_imported

if TYPE_CHECKING:
    from collections.abc import Callable

    from msmemscope.capture.torch_operators import OperatorMode
    from msmemscope.configuration import Config

OLDEST_TORCH = (2, 3, 1)
"""From here on a dispatch mode sees what the collector needs (the seeds ask for the same version)."""

_SOURCE = "torch_operators"
_MAIN_THREAD_S = 60.0
"""For which the main thread is asked: it can be in a long call."""
_MAIN_THREAD_POLL_S = 0.02


class OperatorCollector:
    """Puts a dispatch mode on the Python threads of the program, and takes it away again.

    Those are the calling thread, the main thread, and threads that are started later.
    """

    def __init__(self) -> None:
        self._config: Config | None = None
        self._is_enabled = False
        self._is_waiting = False
        self._mode_of_thread = threading.local()
        self._modes: weakref.WeakSet[OperatorMode] = weakref.WeakSet()
        self._original_bootstrap: Any = None

    def enable_with_torch(self, config: Config) -> None:
        """Enable now if the program has torch already, else as soon as it imports it.

        Args:
            config: Which devices are observed.
        """
        self._config = config
        if "torch" in sys.modules and hasattr(sys.modules["torch"], "__version__"):
            self.enable()
        elif not self._is_waiting:
            self._is_waiting = True
            when_imported("torch", self._torch_was_imported)

    def _torch_was_imported(self) -> None:
        if self._is_waiting:
            self._is_waiting = False
            self.enable()

    def enable(self) -> None:
        """Watch the operators of this thread, of the main one, and of threads started from now on. Never raises."""
        if self._is_enabled or self._config is None:
            return
        try:
            version = sys.modules["torch"].__version__
            if version_numbers(version) < OLDEST_TORCH:
                oldest = ".".join(map(str, OLDEST_TORCH))
                _native.note_fact(f"unobserved.{_SOURCE}", f"torch {version} is older than {oldest}")
                return
            from msmemscope.capture import torch_operators

            torch_operators.prepare(self._config)
        except Exception as error:  # noqa: BLE001 - the program goes on, whatever this torch is like
            _native.warn(f"operators are not collected: {type(error).__name__}: {error}")
            _native.note_fact(f"unobserved.{_SOURCE}", str(error))
            return
        self._is_enabled = True
        for mode in list(self._modes):
            mode.wake()
        self._enter()
        torch_operators.dispatch_boxed(is_on=True)
        self._watch_new_threads()
        _reach_main_thread(self._enter_if_outermost)
        _native.note_fact(f"observed.{_SOURCE}", f"torch {version}")

    def disable(self) -> None:
        """Stop watching. In threads other than this one and the main one the mode stays, and rests."""
        if self._is_waiting:
            self._is_waiting = False
        if not self._is_enabled:
            return
        self._is_enabled = False
        from msmemscope.capture.torch_operators import dispatch_boxed

        dispatch_boxed(is_on=False)
        threading.Thread._bootstrap_inner = self._original_bootstrap  # type: ignore[attr-defined] # noqa: SLF001
        self._leave()
        for mode in list(self._modes):
            mode.rest()
        _reach_main_thread(self._leave_if_disabled)

    def _enter_if_outermost(self) -> bool:
        """Watch this thread, unless torch would lose the mode: modes of the program, and backward passes, end in order."""
        if not self._is_enabled:
            return True
        from msmemscope.capture.torch_operators import is_outermost

        if not is_outermost():
            return False
        self._enter()
        return True

    def _leave_if_disabled(self) -> bool:
        """Take the mode away, but not in the middle of an operator, which has seen that there is one."""
        if not self._is_enabled:
            if _native.is_within_torch():
                return False
            self._leave()
        return True

    def _enter(self) -> None:
        if getattr(self._mode_of_thread, "mode", None) is not None:
            return  # it stayed when watching ended
        from msmemscope.capture.torch_operators import OperatorMode

        mode = OperatorMode()
        mode.__enter__()
        self._mode_of_thread.mode = mode
        self._modes.add(mode)

    def _leave(self) -> None:
        mode: OperatorMode | None = getattr(self._mode_of_thread, "mode", None)
        # Where the program has pushed modes of its own above it, order must be kept: it stays, and rests.
        if mode is not None and mode.is_on_top():
            mode.__exit__(None, None, None)
            self._mode_of_thread.mode = None
            self._modes.discard(mode)

    def _watch_new_threads(self) -> None:
        """Mode stacks are per thread. A mode must be gone before its thread is: torch would drop it without the GIL."""
        original = threading.Thread._bootstrap_inner  # type: ignore[attr-defined] # noqa: SLF001
        self._original_bootstrap = original
        collector = self

        def bootstrap_inner(thread: threading.Thread) -> None:
            if not collector._is_enabled:
                original(thread)
                return
            collector._enter()
            try:
                original(thread)
            finally:
                collector._leave()

        _native.hide_code((bootstrap_inner.__code__,))
        threading.Thread._bootstrap_inner = bootstrap_inner  # type: ignore[attr-defined] # noqa: SLF001


def _reach_main_thread(function: Callable[[], bool]) -> None:
    """Have the main thread call a function until it returns true; do nothing where this is the main thread.

    Whoever attaches runs our code in a thread of its own, and operators are those of the main thread.
    """
    if threading.current_thread() is threading.main_thread():
        return
    answers: list[bool] = []

    def call() -> None:
        try:
            answers.append(function())
        except Exception as error:  # noqa: BLE001 - the program goes on
            answers.append(True)
            _native.warn(f"operators of the main thread are not collected: {type(error).__name__}: {error}")

    def ask() -> None:
        until_s = time.monotonic() + _MAIN_THREAD_S
        while not (answers and answers[-1]) and time.monotonic() < until_s:
            asked = len(answers)
            if _native.call_in_main_thread(call):
                while len(answers) == asked and time.monotonic() < until_s:
                    time.sleep(_MAIN_THREAD_POLL_S)
            time.sleep(_MAIN_THREAD_POLL_S)

    # Not a threading.Thread: the program counts those.
    _thread.start_new_thread(ask, ())


def version_numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: `(2, 13, 0)` of `2.13.0+cpu`."""
    return tuple(int(number) for number in re.findall(r"\d+", version.partition("+")[0])[:3])

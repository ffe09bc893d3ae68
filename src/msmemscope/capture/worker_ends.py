"""The end of workers of multiprocessing, which leave without what Python does at its exit."""

from __future__ import annotations

import sys

from msmemscope import _native
from msmemscope.capture.import_hook import when_imported

TYPE_CHECKING = False  # typing itself is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable

_AFTER_ALL_OTHERS = -1_000_000


class _End:
    """Ends a worker in an orderly way, whatever it finalises itself before us."""

    def __init__(self, action: Callable[[], None]) -> None:
        self._action = action

    def expect(self) -> None:
        """Wait for a worker, now or when the program imports multiprocessing."""
        if "multiprocessing.util" not in sys.modules:
            when_imported("multiprocessing.util", self.expect)
            return
        sys.modules["multiprocessing.util"].register_after_fork(self, _End.at_its_end)
        if sys.modules["multiprocessing.process"].parent_process() is not None:
            self.at_its_end()  # a worker that was spawned

    def at_its_end(self) -> None:
        """This process is a worker."""
        sys.modules["multiprocessing.util"].Finalize(None, self._finish, exitpriority=_AFTER_ALL_OTHERS)

    def _finish(self) -> None:
        self._action()
        _native.close()


_expected: list[_End] = []
"""They are kept: multiprocessing knows them by weak references."""


def at_end_of_workers(action: Callable[[], None]) -> None:
    """Call something at the end of each worker, and close its log.

    Args:
        action: Must not raise. It is called once by each worker that was forked or spawned.
    """
    _expected.append(_End(action))
    _expected[-1].expect()

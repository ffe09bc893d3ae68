"""Processes of our own that share the processors of this machine.

Workers are started anew, not forked: the process that asks has threads.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msmemscope.configuration.settings import SETTINGS_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Result = TypeVar("Result")

_THREADS: Final = "POLARS_MAX_THREADS"
_SAFE_PATH: Final = "PYTHONSAFEPATH"
_PATIENCE_S: Final = 2.0


def can_have_workers() -> bool:
    """Whether workers are harmless here: not where we are observed ourselves, and where no file stands in for a module.

    A worker of Python 3.10 would take a `queue.py` of the folder that it begins in for the module of that name, and run
    it. Later ones leave that folder out.
    """
    if SETTINGS_VARIABLE in os.environ:
        return False
    if sys.version_info >= (3, 11):
        return True
    with contextlib.suppress(OSError):
        return not any(path.stem in sys.stdlib_module_names for path in Path.cwd().iterdir())
    return False


class Workers:
    """Takes work; a worker that is killed breaks it: `BrokenProcessPool` of all that is not done."""

    def __init__(self, pool: concurrent.futures.ProcessPoolExecutor) -> None:
        """Give work to the processes of a pool."""
        self._pool = pool

    def submit(self, work: Callable[..., Result], *arguments: Any) -> concurrent.futures.Future[Result]:
        """Let the next free worker call a function, which it finds by its name."""
        return self._pool.submit(_unless_interrupted, work, arguments)


@contextlib.contextmanager
def worker_processes(count: int) -> Iterator[Workers]:
    """Start workers, with one thread for tables each. They end with the block, and with this process.

    If an exception ends the block, the work at hand is interrupted, so that it can remove unfinished files.

    Args:
        count: How many there are at most.

    Yields:
        What to give work to.
    """
    with _environment_of_workers():
        pool = concurrent.futures.ProcessPoolExecutor(
            count, mp_context=multiprocessing.get_context("spawn"), initializer=_prepare_worker
        )
        try:
            yield Workers(pool)
        except BaseException:
            _end_workers()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def _end_workers() -> None:
    for worker in multiprocessing.active_children():
        worker.terminate()
    for worker in multiprocessing.active_children():
        worker.join(_PATIENCE_S)
        worker.kill()


def _prepare_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal interrupts the whole group: the parent decides
    signal.signal(signal.SIGTERM, _interrupt)
    threading.Thread(target=_end_with_parent, daemon=True).start()


class _State:
    """Of a worker."""

    is_working = False
    is_interrupted = False


def _interrupt(_number: int, _frame: object) -> None:
    if not _State.is_working:
        os._exit(1)
    _State.is_interrupted = True
    raise KeyboardInterrupt


def _unless_interrupted(work: Callable[..., Result], arguments: tuple[Any, ...]) -> Result:
    if _State.is_interrupted:
        raise KeyboardInterrupt
    _State.is_working = True
    try:
        return work(*arguments)
    finally:
        _State.is_working = False


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)  # nobody takes the results any more


@contextlib.contextmanager
def _environment_of_workers() -> Iterator[None]:
    """Workers read it when they begin.

    They share the processors: each has one thread for its tables. They import nothing from the folder they begin in.
    """
    before = {name: os.environ.get(name) for name in (_THREADS, _SAFE_PATH)}
    os.environ.setdefault(_THREADS, "1")
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value

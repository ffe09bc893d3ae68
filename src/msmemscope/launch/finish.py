"""Results of many captures at once: by this process, or by several where that ends sooner."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import resource
import sys
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from msmemscope.errors import MsmemscopeError
from msmemscope.formats.available_memory import available_memory_bytes
from msmemscope.formats.event_log import Capture
from msmemscope.launch import messages
from msmemscope.launch.captures import finish_one
from msmemscope.launch.worker_processes import can_have_workers, worker_processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from msmemscope.configuration import Config, LogLevel
    from msmemscope.reports.run_summary import ProcessSummary

_SECONDS_PER_CAPTURE: Final = 0.07
_SECONDS_PER_MIB: Final = 0.03
"""Of an event log."""
_SECONDS_OF_A_WORKER: Final = 1.0
"""Until it has loaded what it needs."""
_BYTES_OF_A_WORKER: Final = 256 << 20
_BYTES_PER_LOG_BYTE: Final = 5
_MEMORY_LIMITS: Final = (resource.RLIMIT_AS, resource.RLIMIT_DATA)


@dataclasses.dataclass(frozen=True)
class Finished:
    """The outcome of some captures."""

    processes: tuple[ProcessSummary, ...]
    """Each of them, in their order."""
    unwritten: int
    """How many have no dump files because those could not be written."""


def finish(captures: list[Capture], settings: Mapping[Path, Config]) -> Finished:
    """Write the dump files of captures, with a progress bar if stderr is a terminal, and sum them up.

    A fault of one capture is reported, and the others are still finished.

    Args:
        captures: Any.
        settings: The settings of the dump files, by the directory of each capture that gets some.
    """
    done: dict[Path, tuple[ProcessSummary, bool]] = {}
    workers = _worker_count([capture.header.log_bytes for capture in captures])
    with _progress(len(captures), len(settings)) as progress:
        if workers > 1:
            # Those that no worker could finish are left to this process: all of them where no worker can be started.
            # Semaphores, threads or processes may be missing for that.
            with contextlib.suppress(OSError, RuntimeError):
                for directory, outcome in _by_workers(captures, settings, workers):
                    if outcome is not None:
                        done[directory] = outcome
                        progress.count(len(done))
        number = 0
        for capture in captures:
            own = settings.get(capture.directory)
            if capture.directory not in done:
                events_of = progress.events_of(number, capture) if own is not None else None
                done[capture.directory] = finish_one(capture, own, events_of)
            number += own is not None
    outcomes = [done[capture.directory] for capture in captures]
    return Finished(tuple(summary for summary, _ in outcomes), sum(not is_written for _, is_written in outcomes))


def _worker_count(log_bytes: list[int]) -> int:
    """Return how many workers end soonest; 1 where this process alone does.

    Args:
        log_bytes: Of each capture.
    """
    if (
        not log_bytes
        or not can_have_workers()
        or any(resource.getrlimit(limit)[0] != resource.RLIM_INFINITY for limit in _MEMORY_LIMITS)
    ):
        return 1
    processors = len(os.sched_getaffinity(0))
    memory = available_memory_bytes()
    each = _BYTES_OF_A_WORKER + _BYTES_PER_LOG_BYTE * max(log_bytes)
    most = min(processors, len(log_bytes), processors if memory is None else memory // 2 // each)
    seconds = [_SECONDS_PER_CAPTURE + _SECONDS_PER_MIB * count / (1 << 20) for count in log_bytes]

    def needed(workers: int) -> float:
        # The processors are busy with loading, too. One capture is not divided.
        return sum(seconds) if workers == 1 else _SECONDS_OF_A_WORKER + max(sum(seconds) / workers, *seconds)

    return min(range(1, max(most, 1) + 1), key=needed)


def _by_workers(
    captures: list[Capture], settings: Mapping[Path, Config], workers: int
) -> Iterator[tuple[Path, tuple[ProcessSummary, bool] | None]]:
    """Finish captures, the largest first; None for those that a worker cannot finish."""
    from concurrent.futures import as_completed

    level = messages.least_level()
    largest_first = sorted(captures, key=lambda capture: -capture.header.log_bytes)
    with worker_processes(workers) as pool:
        futures = {
            pool.submit(_finished, capture.directory, settings.get(capture.directory), level): capture.directory
            for capture in largest_first
        }
        for future in as_completed(futures):
            try:
                outcome = future.result()
            except BrokenProcessPool:
                raise
            except Exception:  # noqa: BLE001 - this process does it again, and reports what is wrong
                outcome = None
            yield futures[future], outcome


def _finished(directory: Path, settings: Config | None, level: LogLevel) -> tuple[ProcessSummary, bool] | None:
    """The work of a worker."""
    messages.print_from(level)
    try:
        capture = Capture(directory)
    except MsmemscopeError:
        return None
    return finish_one(capture, settings)


class _Quiet:
    """Shows nothing."""

    def count(self, done: int) -> None:
        """Take note of finished captures."""

    def events_of(self, _number: int, _capture: Capture) -> Callable[[int, int], None] | None:
        """Return what shows how many events of a capture were written."""
        return None


class _Bars(_Quiet):
    """Shows on a terminal how far the results are."""

    def __init__(self, progress: Progress, captures: int, written: int) -> None:
        self._progress = progress
        self._captures = captures
        self._written = written
        self._task = None if captures == 1 else progress.add_task("Processes", total=captures, visible=False)

    def count(self, done: int) -> None:
        if self._task is not None:
            self._progress.update(self._task, completed=done, visible=True)

    def events_of(self, number: int, capture: Capture) -> Callable[[int, int], None] | None:
        place = f" ({number + 1} of {self._written})" if self._written > 1 else ""
        task = self._progress.add_task(f"Writing events of process {capture.header.process_id}{place}", total=None)
        return lambda done, total: self._progress.update(task, completed=done, total=total)


@contextlib.contextmanager
def _progress(captures: int, written: int) -> Iterator[_Quiet]:
    if not sys.stderr.isatty():
        yield _Quiet()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield _Bars(progress, captures, written)

"""Keeps what the processes of a launch have in use, every hour, while the launched program runs.

Another process of ours does it and ends: the launcher itself has to stay small over weeks. The thread here only waits.
"""

from __future__ import annotations

import _thread  # not threading: most commands end before the first moment
import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msmemscope.configuration import SETTINGS_VARIABLE
from msmemscope.configuration.history_interval import DEFAULT_INTERVAL, NO_HISTORY, parse_interval
from msmemscope.launch import messages
from msmemscope.launch.capture_folders import has_event_log
from msmemscope.launch.ended_by import memory_group
from msmemscope.model.capture_files import HISTORY_FOLDER
from msmemscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from msmemscope.configuration.options import GivenOption

_OPTION: Final = "history"
_FIRST_S: Final = 600
"""Seconds until the first moment, where the others are not closer: it shows soon whether it works."""
_PATIENCE_S: Final = 10.0
"""The longest that the launcher waits for the last moment, when its own results are written."""
_LEAST_ROOM_BYTES: Final = 512 << 20
"""Of a control group: a moment of the largest logs needs less. A group without it could lose all its processes."""
_CODE: Final = "import sys; sys.path = [*filter(None, sys.path)]; from msmemscope.cli.main import command; command()"
"""Without the folder that it begins in: the program's may hold files with the names of modules."""
_MOST_WORDS: Final = 4096
_MOST_ARGUMENTS: Final = 1000


def interval_of(given: Iterable[GivenOption], maximum_size: int) -> int | None:
    """Return the seconds between two moments; None where none are to be taken.

    Args:
        given: The options on the command line; the last one counts.
        maximum_size: Bytes of an event log that gives old events back; 0 for one that keeps all of them.

    Raises:
        UsageError: If the value of the option is no time.
    """
    chosen = [one for one in given if one.option.name == _OPTION]
    if not chosen:
        return parse_interval("", "", DEFAULT_INTERVAL) if maximum_size else None
    last = chosen[-1]
    return None if last.value == NO_HISTORY else parse_interval(last.option.accepted, last.spelling, last.value)


class HistoryTimer:
    """Has moments taken in a thread of its own.

    Args:
        interval_s: Seconds between two moments; None to take none.
        captures: Returns the folders of the launch's captures, and the process of each; called in the thread.
    """

    def __init__(self, interval_s: int | None, captures: Callable[[], Mapping[Path, int]]) -> None:
        """Prepare it."""
        self._interval_s = interval_s
        self._captures = captures
        self._program_ended = _thread.allocate_lock()
        self._thread_ended = _thread.allocate_lock()
        self._child = 0
        self._has_failed = False

    def begin(self) -> None:
        """Start the thread. Signals of the main thread must be held back: threads started here never get them."""
        if self._interval_s is None or SETTINGS_VARIABLE in os.environ:
            return  # within another launch, a process of ours would be observed
        self._program_ended.acquire()
        self._thread_ended.acquire()
        try:
            _thread.start_new_thread(self._run, (self._interval_s,))
        except RuntimeError:  # no more threads here: the newest events have to do
            self._thread_ended.release()

    def program_ended(self) -> None:
        """Have a last moment taken; returns at once. Without effect if it was not begun."""
        if self._program_ended.locked():
            self._program_ended.release()

    def end(self) -> None:
        """Wait for the last moment, but not long."""
        if not self._thread_ended.acquire(timeout=_PATIENCE_S):
            if self._child:
                with contextlib.suppress(OSError):
                    os.kill(self._child, signal.SIGKILL)
            return
        self._thread_ended.release()

    def _run(self, interval_s: int) -> None:
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            wait_s = min(interval_s, _FIRST_S)
            while not self._program_ended.acquire(timeout=wait_s):
                self._take(_is_running)
                wait_s = interval_s
            self._take(_was_killed)
        finally:
            self._thread_ended.release()

    def _take(self, is_meant: Callable[[Path, int], bool]) -> None:
        """Have one moment of some captures taken; what goes wrong is one line, until it goes right again.

        Args:
            is_meant: Whether a capture of a process is one of them.
        """
        try:
            captures = self._captures().items()
            folders = [folder for folder, process in captures if has_event_log(folder) and is_meant(folder, process)]
            why = self._history_of(folders[:_MOST_ARGUMENTS]) if folders else ""
        except Exception as error:  # noqa: BLE001 - a fault of ours must not look like a fault of the program
            why = f"{type(error).__name__}: {error}"
        if why and not self._has_failed:
            messages.warning(f"the history of the run lacks a moment: {why}")
        self._has_failed = bool(why)

    def _history_of(self, folders: list[Path]) -> str:
        """Run `msmemscope history --once`, and return why it failed; empty if it did not."""
        group = memory_group()
        if group is not None and group.room_bytes is not None and group.room_bytes < _LEAST_ROOM_BYTES:
            left, needed = format_bytes(max(group.room_bytes, 0)), format_bytes(_LEAST_ROOM_BYTES)
            return f"{left} are left of the limit of the control group, and {needed} have to be"
        reader, writer = os.pipe()
        command = [sys.executable, "-c", _CODE, "history", "--once", *map(str, folders)]
        with os.fdopen(reader, "rb") as words:
            try:
                self._child = os.posix_spawn(
                    sys.executable,
                    command,
                    os.environ,
                    file_actions=[
                        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                        (os.POSIX_SPAWN_DUP2, writer, 2),
                    ],
                    setsigmask=[],
                )
            finally:
                os.close(writer)
            text = words.read().decode(errors="replace")
            _, status = os.waitpid(self._child, 0)
        self._child = 0
        if status == 0:
            return ""
        lines = text[-_MOST_WORDS:].strip().splitlines() or [
            f"it ended with status {os.waitstatus_to_exitcode(status)}"
        ]
        first = next((line for line in lines if line.startswith("msmemscope: ")), lines[-1])
        return first.removeprefix("msmemscope: ").removeprefix("warning: ").removeprefix("error: ")


def _is_running(_: Path, process_id: int) -> bool:
    """Whether the process is there. Its log says more, but what reads it may need more memory than there is here."""
    return Path("/proc", str(process_id)).is_dir()


def _was_killed(capture: Path, _: int) -> bool:
    """Whether a last moment says something: there are others, and the program has not freed its memory in order."""
    if not (capture / HISTORY_FOLDER).is_dir():
        return False
    from msmemscope.formats.event_log import CaptureState
    from msmemscope.formats.event_log.followed_log import FollowedLog

    return FollowedLog(capture).header.state == CaptureState.OPEN

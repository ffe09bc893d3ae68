"""Runs a program as a child that cannot tell the difference.

The child shares our process group, terminal and standard streams. Ctrl-C reaches it through the terminal, as it would
without us: we only have to survive it. Signals that are sent to us alone are passed on. In the end our parent sees the
child's exit status, or its death by a signal, as if it had been its own child.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import resource
import select
import signal
import sys
import time
from typing import TYPE_CHECKING

from msmemscope.errors import EXIT_STATUS_CANNOT_EXECUTE, EXIT_STATUS_NOT_FOUND, LaunchError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType

_SHELL = "/bin/sh"
_SIGNAL_STATUS_BASE = 128
_PR_SET_DUMPABLE = 4
_ENDS = (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED)
_STOP_S = 0.01
"""About as long as an order stops a process."""

FORWARDED_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""Sent to us alone as a rule, so that the child would not see them."""

TERMINAL_SIGNALS = (signal.SIGINT, signal.SIGQUIT)
"""Sent by the terminal to the whole foreground group: the child has them already."""

_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
"""Ignored by every Python interpreter from its start, which a child would inherit."""


@dataclasses.dataclass(frozen=True)
class ProgramEnd:
    """How the program ended: by exiting, or by a signal."""

    exit_status: int
    """The argument of its `exit`; 0 if a signal ended it."""
    signal_number: int = 0
    """The signal that ended it; 0 if it exited."""
    process_id: int = 0
    limit_bytes: int | None = None
    """The limit of its control group, 0 without one, where the kernel ended it for lack of memory; None elsewhere."""
    end_ns: int = 0
    """CLOCK_REALTIME."""

    @property
    def shell_status(self) -> int:
        """The status that a shell shows in `$?`."""
        return _SIGNAL_STATUS_BASE + self.signal_number if self.signal_number else self.exit_status


def run_program(
    path: str, arguments: Sequence[str], environment: Mapping[str, str], started: Callable[[], None] | None = None
) -> ProgramEnd:
    """Run a program to its end, with our standard streams and in our process group.

    Must be called from the main thread, as it changes how signals are handled; everything
    is as before when it returns.

    Args:
        path: The program's file.
        arguments: Its whole argument list, name included.
        environment: Its whole environment.
        started: Called when it runs, while signals for it are held back: threads that are started then never get one.

    Raises:
        LaunchError: If the system cannot execute it.
    """
    relay = _SignalRelay()
    relay.begin()
    try:
        process_id = _spawn(path, arguments, environment, relay)
        if started is not None:
            started()
        relay.pass_on_to(process_id)
        # Reaped only after signals are no longer passed on: its process id may belong to another one then.
        _wait_for_end(process_id)
    finally:
        relay.end()
    _, status = os.waitpid(process_id, 0)
    end_ns = time.time_ns()
    if os.WIFSIGNALED(status):
        return ProgramEnd(0, os.WTERMSIG(status), process_id, end_ns=end_ns)
    return ProgramEnd(os.WEXITSTATUS(status), 0, process_id, end_ns=end_ns)


def _wait_for_end(process_id: int) -> None:
    """Wait until a child has ended, and leave it to be reaped.

    An order that comes through the folder of results stops the child for a moment, as a debugger does. Every wait of
    this process returns then, whatever it waits for. Only an end makes the descriptor of a process readable.
    """
    try:
        descriptor = os.pidfd_open(process_id)
    except (OSError, AttributeError):  # Linux before 5.3, a sandbox, or a Python that was built for an older one
        while (found := os.waitid(os.P_PID, process_id, os.WEXITED | os.WNOWAIT)) and found.si_code not in _ENDS:
            time.sleep(_STOP_S)
        return
    try:
        ended = select.poll()
        ended.register(descriptor, select.POLLIN)
        ended.poll()
    finally:
        os.close(descriptor)


def _spawn(path: str, arguments: Sequence[str], environment: Mapping[str, str], relay: _SignalRelay) -> int:
    try:
        # A variable without a name, which `env =1` makes and nobody can ask for, is refused by posix_spawn of Python.
        named = {name: value for name, value in environment.items() if name}
        return os.posix_spawn(path, list(arguments), named, setsigmask=relay.child_mask, setsigdef=relay.child_defaults)
    except OSError as error:
        if error.errno == errno.ENOEXEC and path != _SHELL:
            # A script without a first line that names its interpreter: execvp gives it to the shell.
            return _spawn(_SHELL, [_SHELL, path, *arguments[1:]], environment, relay)
        status = EXIT_STATUS_NOT_FOUND if error.errno == errno.ENOENT else EXIT_STATUS_CANNOT_EXECUTE
        hint = "the interpreter named in its first line may be missing" if error.errno == errno.ENOENT else None
        message = f"cannot execute {path!r}: {error.strerror}"
        raise LaunchError(message, exit_status=status, hint=hint) from error


class _SignalRelay:
    """The handling of signals while the child runs.

    The child gets the dispositions and the mask that we were started with. A signal that was
    ignored from the start (`nohup`, a background job) stays ignored, for us and for the child.
    """

    def __init__(self) -> None:
        self._previous = {number: signal.getsignal(number) for number in (*TERMINAL_SIGNALS, *FORWARDED_SIGNALS)}
        self._process_id = 0
        self.child_mask: set[int] = set()
        self.child_defaults = [
            *_IGNORED_BY_PYTHON,
            *(number for number, previous in self._previous.items() if previous is not signal.SIG_IGN),
        ]

    def begin(self) -> None:
        """Hold signals back until the child exists."""
        self.child_mask = set(signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED_SIGNALS))
        for number in TERMINAL_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        # Ignored by whoever started us, it would make the system forget how the child ended.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in FORWARDED_SIGNALS:
            if self._previous[number] is not signal.SIG_IGN:
                signal.signal(number, self._pass_on)

    def pass_on_to(self, process_id: int) -> None:
        """Let signals through to the child, those held back included."""
        self._process_id = process_id
        signal.pthread_sigmask(signal.SIG_SETMASK, self.child_mask)

    def end(self) -> None:
        """Put everything back."""
        self._process_id = 0
        for number, previous in self._previous.items():
            # None: a handler that is not Python's, which cannot be put back and is not ours.
            signal.signal(number, signal.SIG_DFL if previous is None else previous)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.child_mask)

    def _pass_on(self, number: int, _frame: FrameType | None) -> None:
        if self._process_id:
            os.kill(self._process_id, number)


def end_like(end: ProgramEnd) -> int:
    """End as the program ended.

    Returns:
        The exit status to leave with. If a signal ended the program, this does not return as
        a rule: the same signal ends us, without a core file of our own.
    """
    if not end.signal_number:
        return end.exit_status
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        import ctypes

        # A core_pattern that is a pipe does not look at the limit.
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        if end.signal_number not in {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(end.signal_number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [end.signal_number])
        os.kill(os.getpid(), end.signal_number)
    return end.shell_status

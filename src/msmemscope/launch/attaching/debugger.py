"""gdb, driven line by line: it stops a process for a moment, loads a library into it, calls a function, and lets it go.

The thread that loads the library must hold no lock of the C library's allocator or loader. One that waits in a system
call holds none. Where none waits, gdb lets the process run until a thread is about to allocate.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from typing import IO, TYPE_CHECKING, Final, cast

from msmemscope.errors import MsmemscopeError

if TYPE_CHECKING:
    from pathlib import Path

    from msmemscope.launch.attaching.target_process import TargetProcess

NO_DEBUGGER: Final = "attaching needs gdb, which is not installed"
_MARK: Final = "msmemscope: said"
_ANSWER_S: Final = 60.0
"""For one command: gdb reads the symbols of large libraries."""
_ALLOCATION_S: Final = 5.0
_ALLOCATING: Final = ("malloc", "calloc", "PyObject_Malloc", "PyMem_Malloc", "PyObject_Free")
"""Functions at whose begin a thread holds no lock of an allocator. Python's own call those of the C library rarely."""
_TRIES: Final = 20
_BETWEEN_TRIES_S: Final = 0.037
_RESULT: Final = re.compile(r"\$\d+ = (-?\d+)\s*$", re.MULTILINE)
_SETTINGS: Final = (
    "pagination off",
    "confirm off",
    "unwindonsignal on",
    "breakpoint pending on",
    "print thread-events off",
)
_REFUSALS: Final = ("not permitted", "ptrace:", "Could not attach")
_STATUSES: Final = {
    1: "there is no Python in it, or it has not begun or is ending",
    2: "the path of the folder for temporary files is too long",
    3: "somebody is attached to it already",
    4: "it can start no further thread",
    5: "it cannot read the folder for temporary files",
}
"""Of `msmemscope_attach` in native/attach/run_in_process.cpp."""


class AttachError(MsmemscopeError):
    """A process could not be attached to; it goes on as it was."""


def load_and_call(target: TargetProcess, library: Path, argument: str) -> float:
    """Load the library into a process and have it begin.

    Args:
        target: The process.
        library: `libmsmemscope_attach.so`.
        argument: Of `msmemscope_attach`: a path.

    Returns:
        The seconds for which the process stood still, at most.

    Raises:
        AttachError: It could not be done. The process goes on.
    """
    if shutil.which("gdb") is None:
        hint = "apt-get install gdb, or pip install gdb-static; or start the program as msmemscope python ..."
        raise AttachError(NO_DEBUGGER, hint=hint)
    reason = why_no_calls()
    if reason is not None:
        message = f"gdb cannot call functions on this processor: {reason}"
        raise AttachError(
            message, hint="a newer gdb may know its registers; or start the program as msmemscope python ..."
        )
    with contextlib.closing(_Gdb()) as gdb:
        gdb.prepare()
        began_s = time.monotonic()
        if not _attach(gdb, target):
            message = f"process {target.process_id} may not be traced"
            hint = (
                "a container needs --cap-add=SYS_PTRACE; elsewhere sysctl kernel.yama.ptrace_scope=0, or run msmemscope as "
                "root; nobody else may trace it at the same time"
            )
            raise AttachError(message, hint=hint)
        try:
            for name in ("libc", "libdl", "ld-linux", "musl"):
                gdb.ask(f"sharedlibrary {name}")
            # A call that a signal of the program stops half way would keep the loader's lock.
            gdb.ask("handle all nostop noprint pass")
            _choose_thread(gdb, target)
            gdb.ask("handle SIGINT nostop noprint pass")
            if not gdb.number(f"call (long)((void*(*)(const char*,int))dlopen)({_literal(str(library))}, 2)"):
                message = f"process {target.process_id} could not load {library}"
                raise AttachError(message, hint="is that file readable for the process?")
            gdb.ask("sharedlibrary libmsmemscope_attach")
            status = gdb.number(f"call (int)((int(*)(const char*))msmemscope_attach)({_literal(argument)})")
        finally:
            gdb.ask("delete")
            gdb.ask("detach")
        if status:
            message = f"process {target.process_id} was left alone: {_STATUSES.get(status, f'status {status}')}"
            raise AttachError(message)
        return time.monotonic() - began_s


def why_no_calls() -> str | None:
    """Say why gdb cannot call functions here; None if it can, or if that is not known.

    It is tried on a process of our own. An older gdb does not know all registers of a newer processor, such as those
    of AMX. It notices that in the middle of a call: the thread that it has stopped then fails in its system call.
    """
    command = [sys.executable, "-I", "-S", "-c", "print(flush=True); input()"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as tried:
        try:
            if tried.stdout is None or not tried.stdout.readline():
                return None
            with contextlib.closing(_Gdb()) as gdb:
                gdb.prepare()
                said = gdb.ask(f"attach {tried.pid}")
                gdb.ask("sharedlibrary libc")
                answer = gdb.ask("call (int)((int(*)(void))getpid)()")
        finally:
            tried.kill()
    if any(word in said for word in _REFUSALS):
        return None  # whoever attaches next is told why
    return None if _RESULT.search(answer) is not None else _line_of(answer)


def _line_of(answer: str) -> str:
    """Return an answer of gdb in one line, without its prompts."""
    return " ".join(answer.replace("(gdb)", " ").split())[:200]


def _literal(path: str) -> str:
    """Return a path as a string of C, whatever letters it has."""
    return '"' + re.sub(rb"[^A-Za-z0-9/._-]", lambda one: b"\\%03o" % one[0][0], os.fsencode(path)).decode() + '"'


def _attach(gdb: _Gdb, target: TargetProcess) -> bool:
    """Stop the process; a profiler that samples it holds it for moments only."""
    for _ in range(_TRIES):
        said = gdb.ask(f"attach {target.process_id}")
        if not any(word in said for word in _REFUSALS):
            return True
        time.sleep(_BETWEEN_TRIES_S)
    return False


def _choose_thread(gdb: _Gdb, target: TargetProcess) -> None:
    """Make gdb look at a thread that holds no lock."""
    for thread in target.waiting_threads():
        found = re.search(r"Thread (\d+) has target id", gdb.ask(f"thread find LWP {thread}"), re.MULTILINE)
        if found is not None and "Switching to thread" in gdb.ask(f"thread {found[1]}"):
            return
    gdb.ask("sharedlibrary libpython")
    for function in _ALLOCATING:
        gdb.ask(f"tbreak {function}")
    if not gdb.runs_until_stop(_ALLOCATION_S):
        message = f"process {target.process_id} gave no safe moment within {_ALLOCATION_S:.0f} s"
        raise AttachError(message, hint="no thread of it waits or allocates; try again")
    gdb.ask("delete")


class _Gdb:
    """A gdb that reads commands from us."""

    def __init__(self) -> None:
        command = ["gdb", "-nx", "-nh", "-q", "-iex", "set auto-solib-add off", "-iex", "set auto-load off"]
        self._process = subprocess.Popen(
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # The keys of a terminal are for us. A debugger that asks servers for symbols takes minutes.
            start_new_session=True,
            env={**os.environ, "DEBUGINFOD_URLS": "", "LC_ALL": "C"},
        )
        self._input, self._output = cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)
        self._marks = 0

    def prepare(self) -> None:
        """Have it ask and announce nothing."""
        for setting in _SETTINGS:
            self.ask(f"set {setting}")

    def close(self) -> None:
        """End it; it lets the process go."""
        with contextlib.suppress(OSError, AttachError):
            self._send("quit")
        try:
            self._process.wait(timeout=_ANSWER_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for stream in (self._input, self._output):
            with contextlib.suppress(OSError):
                stream.close()

    def ask(self, command: str) -> str:
        """Return what a command prints."""
        self._send(command)
        return self._answer(_ANSWER_S)

    def number(self, command: str) -> int:
        """Return the number that a call returns.

        Raises:
            AttachError: It returned none.
        """
        said = self.ask(command)
        found = _RESULT.search(said)
        if found is None:
            message = f"gdb could not call into the process: {_line_of(said)}"
            raise AttachError(message)
        return int(found[1])

    def runs_until_stop(self, seconds: float) -> bool:
        """Let the process run until a breakpoint; stop it and return False if none came in time."""
        self._send("continue")
        try:
            self._answer(seconds)
        except AttachError:
            self._process.send_signal(signal.SIGINT)
            self._answer(_ANSWER_S)
            return False
        return True

    def _send(self, command: str) -> None:
        self._marks += 1
        try:
            self._input.write(f"{command}\necho {_MARK} {self._marks}\\n\n".encode())
            self._input.flush()
        except OSError as error:
            message = "gdb has ended unexpectedly"
            raise AttachError(message) from error

    def _answer(self, seconds: float) -> str:
        """Return the lines that gdb prints until the mark behind the last command."""
        mark = f"{_MARK} {self._marks}\n".encode()
        descriptor = self._output.fileno()
        until_s = time.monotonic() + seconds
        said = b""
        while mark not in said:
            left_s = until_s - time.monotonic()
            if left_s <= 0 or not select.select([descriptor], [], [], left_s)[0]:
                message = f"gdb did not answer within {seconds:.0f} s"
                raise AttachError(message)
            more = os.read(descriptor, 1 << 16)
            if not more:
                message = "gdb has ended unexpectedly"
                raise AttachError(message)
            said += more
        return said.partition(mark)[0].decode(errors="replace")

"""The known facts of a process before anything is done to it, and why it cannot be attached to."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msmemscope.configuration import SETTINGS_VARIABLE
from msmemscope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

PROC: Final = Path("/proc")
PID: Final = "PID"
_BLOCKING: Final = frozenset(
    {
        0,  # read
        7,  # poll
        23,  # select
        35,  # nanosleep
        43,  # accept
        45,  # recvfrom
        47,  # recvmsg
        61,  # wait4
        128,  # rt_sigtimedwait
        202,  # futex
        230,  # clock_nanosleep
        232,  # epoll_wait
        247,  # waitid
        270,  # pselect6
        271,  # ppoll
        281,  # epoll_pwait
        288,  # accept4
        441,  # epoll_pwait2
    }
)
_BLOCKING_ON_ARM: Final = frozenset({22, 63, 72, 73, 95, 98, 101, 115, 137, 202, 207, 212, 242, 260, 441})
_FUTEX: Final = {"x86_64": 202, "aarch64": 98}


@dataclasses.dataclass(frozen=True)
class TargetProcess:
    """A process of this machine."""

    process_id: int
    program: str
    """Its command line."""
    user_id: int

    @property
    def folder(self) -> Path:
        """Its folder in /proc."""
        return PROC / str(self.process_id)

    def is_alive(self) -> bool:
        """Whether it is there, and no zombie."""
        try:
            status = (self.folder / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False
        return status.rpartition(")")[2].split()[0] not in "ZX"

    def waiting_threads(self) -> list[int]:
        """Return the threads that wait in a system call, those first that wait for no other thread.

        None of them holds a lock of the C library's allocator, as one that runs can.
        """
        found = [(number == _FUTEX.get(os.uname().machine), thread) for thread, number in self._system_calls()]
        return [thread for _, thread in sorted(found)]

    def _system_calls(self) -> Iterator[tuple[int, int]]:
        blocking = _BLOCKING if os.uname().machine == "x86_64" else _BLOCKING_ON_ARM
        for task in sorted((self.folder / "task").iterdir()):
            try:
                word = (task / "syscall").read_text(encoding="ascii").split()[0]
            except (OSError, IndexError):
                continue
            if word.isdecimal() and int(word) in blocking:
                yield int(task.name), int(word)


def target_process(text: str) -> TargetProcess:
    """Return a process that can be attached to, as far as that is known before it is tried.

    Args:
        text: Its number, as the user typed it.

    Raises:
        UsageError: There is none, or it cannot be attached to.
    """
    accepted = "the number of a Python process of yours"
    if not text.isdecimal() or not 0 < int(text) < 1 << 31:
        message = "is no number of a process"
        raise UsageError(message, option=PID, value=text, accepted=accepted)
    folder = PROC / str(int(text))
    try:
        user_id = folder.stat().st_uid
        words = (folder / "cmdline").read_bytes().split(b"\0")
        maps = (folder / "maps").read_text(encoding="utf-8", errors="replace")
        environment = (folder / "environ").read_bytes().split(b"\0")
        is_here = (folder / "root").stat() == Path("/").stat() and _namespace(folder) == _namespace(PROC / "self")
    except FileNotFoundError as error:
        message = "is no process that runs"
        raise UsageError(message, option=PID, value=text, accepted=accepted) from error
    except PermissionError as error:
        message = "belongs to another user, or may not be traced"
        hint = "run msmemscope as that user or as root; a container needs --cap-add=SYS_PTRACE"
        raise UsageError(message, option=PID, value=text, accepted=accepted, hint=hint) from error
    except OSError as error:
        message = f"cannot be looked at: {error.strerror}"
        raise UsageError(message, option=PID, value=text, accepted=accepted) from error
    if int(text) == os.getpid():
        message = "is msmemscope itself"
        raise UsageError(message, option=PID, value=text, accepted=accepted)
    if any(variable.startswith(f"{SETTINGS_VARIABLE}=".encode()) for variable in environment):
        message = "runs under msmemscope already"
        raise UsageError(
            message, option=PID, value=text, accepted=accepted, hint=f"msmemscope live {text}, or summary {text}"
        )
    if "/libpython" not in maps and "/python" not in maps:
        message = "has no Python in it"
        raise UsageError(message, option=PID, value=text, accepted=accepted)
    if not is_here:
        message = "runs in a container of its own"
        hint = "run msmemscope attach in that container, which needs --cap-add=SYS_PTRACE and gdb"
        raise UsageError(message, option=PID, value=text, accepted="a process of this container", hint=hint)
    program = " ".join(word.decode(errors="replace") for word in words if word)
    return TargetProcess(int(text), program, user_id)


def _namespace(folder: Path) -> str:
    return str((folder / "ns" / "mnt").readlink())

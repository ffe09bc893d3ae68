"""The known facts of a process before anything is done to it, and why it cannot be attached to."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Final

from msmemscope.configuration import SETTINGS_VARIABLE
from msmemscope.errors import UsageError

PROC: Final = Path("/proc")
PID: Final = "PID"


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


def target_process(text: str, *, records: bool = False) -> TargetProcess:
    """Return a process that can be attached to, as far as that is known before it is tried.

    Args:
        text: Its number, as the user typed it.
        records: Whether it may run under msmemscope.

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
    if not records and any(variable.startswith(f"{SETTINGS_VARIABLE}=".encode()) for variable in environment):
        message = "runs under msmemscope already"
        raise UsageError(
            message, option=PID, value=text, accepted=accepted, hint=f"msmemscope live {text}, or summary {text}"
        )
    if "/libpython" not in maps and "/python" not in maps:
        message = "has no Python in it"
        raise UsageError(message, option=PID, value=text, accepted=accepted)
    if not is_here:
        message = "runs in a container of its own"
        hint = "run msmemscope attach in that container, which needs --cap-add=SYS_PTRACE"
        raise UsageError(message, option=PID, value=text, accepted="a process of this container", hint=hint)
    program = " ".join(word.decode(errors="replace") for word in words if word)
    return TargetProcess(int(text), program, user_id)


def _namespace(folder: Path) -> str:
    return str((folder / "ns" / "mnt").readlink())

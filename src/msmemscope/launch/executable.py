"""Finding the program to run, and telling whether it can be observed."""

from __future__ import annotations

import errno
import os
import stat
import struct
from pathlib import Path

from msmemscope.errors import EXIT_STATUS_CANNOT_EXECUTE, EXIT_STATUS_NOT_FOUND, LaunchError

_MAXIMUM_INTERPRETERS = 5
_SCRIPT_LINE_BYTES = 4096
MUSL = "the C library musl"
"""In the reason of programs that must not even be asked to preload: musl refuses to start with a library that it cannot
resolve.
"""

_ELF_MAGIC = b"\x7fELF"
_PROGRAM_HEADER_INTERPRETER = 3
_ELF_CLASS = {1: "32-bit", 2: "64-bit"}


def find_program(name: str, search_path: str) -> str:
    """Find a program the way `execvp` does.

    Args:
        name: As the user wrote it; with a slash it is a path, without one it is searched for.
        search_path: The value of PATH.

    Returns:
        A path that can be executed.

    Raises:
        LaunchError: With exit status 127 if there is none, 126 if it cannot be executed.
    """
    if "/" in name:
        candidates = [name]
    else:
        candidates = [f"{directory or '.'}/{name}" for directory in search_path.split(":")] if name else []
    refused = False
    for candidate in candidates:
        try:
            mode = os.stat(candidate).st_mode  # noqa: PTH116 - the text is passed on to exec as it is
        except OSError as error:
            refused = refused or error.errno in {errno.EACCES, errno.EPERM}
            continue
        if stat.S_ISREG(mode) and os.access(candidate, os.X_OK):
            return candidate
        refused = refused or "/" in name or not stat.S_ISDIR(mode)
    if refused:
        message = f"cannot execute {name!r}: {_why_not_executable(name)}"
        raise LaunchError(message, exit_status=EXIT_STATUS_CANNOT_EXECUTE, hint=_hint(name))
    message = f"program not found: {name!r}"
    raise LaunchError(message, exit_status=EXIT_STATUS_NOT_FOUND, hint=_hint(name))


def _why_not_executable(name: str) -> str:
    return "it is a directory" if Path(name).is_dir() else "permission denied"


def _hint(name: str) -> str | None:
    if not name or not Path(name).is_file():
        return None
    if name.endswith(".py"):
        return f"msmemscope python {name}"
    if name.endswith(".sh"):
        return f"msmemscope bash {name}"
    return f"write ./{name} for the file in the current directory" if "/" not in name else None


def why_not_observable(path: str) -> str | None:
    """Tell why the program at a path cannot be observed by preloading; None if it can.

    Scripts are followed to their interpreter. A file that cannot be read is taken to be observable.
    """
    for _ in range(_MAXIMUM_INTERPRETERS):
        reason = _changes_identity(path)
        if reason is not None:
            return reason
        try:
            with Path(path).open("rb") as file:
                head = file.read(_SCRIPT_LINE_BYTES)
                if head.startswith(_ELF_MAGIC):
                    return _elf_reason(path, head, file.fileno())
        except OSError:
            return None
        interpreter = _script_interpreter(head)
        if interpreter is None:
            return None
        path = interpreter
    return None


def _script_interpreter(head: bytes) -> str | None:
    if not head.startswith(b"#!"):
        return None
    words = os.fsdecode(head.split(b"\n", 1)[0][2:]).split()
    return words[0] if words else None


def _changes_identity(path: str) -> str | None:
    """The dynamic linker ignores preloading where a program gains rights."""
    try:
        status = os.stat(path)  # noqa: PTH116
        is_without_effect = bool(os.statvfs(path).f_flag & os.ST_NOSUID)
    except OSError:
        return None
    if is_without_effect or _gains_no_rights():
        return None
    if status.st_mode & stat.S_ISUID and status.st_uid != os.getuid():
        return f"{path} runs under another user's identity (set-user-ID)"
    if status.st_mode & stat.S_ISGID and status.st_mode & stat.S_IXGRP and status.st_gid != os.getgid():
        return f"{path} runs under another group's identity (set-group-ID)"
    try:
        has_capabilities = os.getuid() != 0 and bool(os.getxattr(path, "security.capability"))
    except OSError:
        has_capabilities = False
    return f"{path} has file capabilities" if has_capabilities else None


def _gains_no_rights() -> bool:
    """Whether this process and its children can gain no rights by executing a program, as in many containers."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return False
    return "NoNewPrivs:\t1" in lines


def _elf_reason(path: str, head: bytes, descriptor: int) -> str | None:
    own = Path("/proc/self/exe").open("rb")  # noqa: SIM115 - closed right below
    with own:
        own_head = own.read(20)
    order = "<" if head[5] == 1 else ">"
    if head[4] not in _ELF_CLASS or head[4:6] != own_head[4:6] or head[18:20] != own_head[18:20]:
        return f"{path} is a {_ELF_CLASS.get(head[4], 'strange')} program for another kind of machine than msmemscope"
    if head[4] == 1:
        table, entry_bytes, count = (
            *struct.unpack_from(f"{order}I", head, 28),
            *struct.unpack_from(f"{order}HH", head, 42),
        )
        offset_at, size_at, word = 4, 16, "I"
    else:
        table, entry_bytes, count = (
            *struct.unpack_from(f"{order}Q", head, 32),
            *struct.unpack_from(f"{order}HH", head, 54),
        )
        offset_at, size_at, word = 8, 32, "Q"
    headers = os.pread(descriptor, entry_bytes * count, table)
    for begin in range(0, len(headers) - entry_bytes + 1, entry_bytes):
        if struct.unpack_from(f"{order}I", headers, begin)[0] == _PROGRAM_HEADER_INTERPRETER:
            offset = struct.unpack_from(f"{order}{word}", headers, begin + offset_at)[0]
            size = struct.unpack_from(f"{order}{word}", headers, begin + size_at)[0]
            linker = os.fsdecode(os.pread(descriptor, size, offset).rstrip(b"\0"))
            return f"{path} uses {MUSL}" if "/ld-musl" in linker else None
    # The dynamic linker itself has no interpreter and obeys LD_PRELOAD for the program that it runs.
    return None if Path(path).name.startswith("ld-") else f"{path} is statically linked"

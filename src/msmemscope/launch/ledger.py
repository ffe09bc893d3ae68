"""The ledger of a launch: which processes started, and where their captures are.

Every observed process image appends lines to `<launch directory>/processes`; the
launcher reads them at the end. Tab-separated::

    start    <process id>  <parent's process id>  <CLOCK_REALTIME ns>  <executable>
    capture  <process id>  <capture directory>
    fact     <process id>  <key>=<value>        of a process that ends without a capture
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING

from msmemscope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

LEDGER_NAME = "processes"
LAUNCH_DIRECTORY_PREFIX = ".launch_"
_START_FIELDS = 5
_FIELDS = 3
_MOST_LAUNCHES = 1000
"""Of equal process ids that begin within a second: containers that share a folder."""


@dataclasses.dataclass(frozen=True)
class StartedProcess:
    """One process image that loaded the native core."""

    process_id: int
    parent_process_id: int
    start_ns: int
    """CLOCK_REALTIME."""
    executable: str


@dataclasses.dataclass(frozen=True)
class Ledger:
    """The content of the ledger of one launch."""

    started: tuple[StartedProcess, ...] = ()
    captures: Mapping[Path, int] = dataclasses.field(default_factory=dict)
    """Capture directories in the order in which they were opened, and the process of each."""
    facts: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    """The facts of processes without a capture, each value once: as `Capture.facts` of those with one."""


def create_launch_directory(output: str) -> Path:
    """Make the directory of a launch with an empty ledger in it.

    Raises:
        UsageError: If the output root does not let it.
    """
    try:
        directory = _new_directory(output)
        # The core only appends: a launch whose directory is gone must not leave a stray file.
        descriptor = os.open(directory / LEDGER_NAME, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
        os.close(descriptor)
    except OSError as error:
        message = f"cannot be written ({error.strerror})"
        raise UsageError(message, option="--output", value=output) from error
    return directory


def _new_directory(output: str) -> Path:
    timestamp = time.strftime("%Y%m%d%H%M%S")
    name = f"{LAUNCH_DIRECTORY_PREFIX}{os.getpid()}_{timestamp}"
    for number in range(_MOST_LAUNCHES):
        directory = Path(output) / (f"{name}_{number}" if number else name)
        with contextlib.suppress(FileExistsError):
            # Another launch may have taken the root away meanwhile, because it was empty.
            directory.mkdir(mode=0o700, parents=True)
            return directory
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))


def remove_launch_directory(directory: Path) -> None:
    """Take the directory of a launch away: the ledger, and links to the preloaded libraries.

    Other files there stay, and the directory with them: others could have put one of the user into its place.
    """
    with contextlib.suppress(OSError):
        folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            for name in os.listdir(folder):  # noqa: PTH208 - pathlib has no descriptors
                if name == LEDGER_NAME or stat.S_ISLNK(os.lstat(name, dir_fd=folder).st_mode):
                    os.unlink(name, dir_fd=folder)
        finally:
            os.close(folder)
        directory.rmdir()


def read_ledger(directory: Path) -> Ledger:
    """Read the ledger; a missing one is empty, and a torn last line does not count."""
    try:
        content = _content(directory / LEDGER_NAME)
    except OSError:
        return Ledger()
    started: list[StartedProcess] = []
    captures: dict[Path, int] = {}
    facts: dict[str, dict[str, None]] = {}
    for line in content.split(b"\n")[:-1]:
        fields = os.fsdecode(line).split("\t")
        with contextlib.suppress(ValueError):
            if fields[0] == "start" and len(fields) == _START_FIELDS:
                started.append(StartedProcess(int(fields[1]), int(fields[2]), int(fields[3]), fields[4]))
            elif fields[0] == "capture" and len(fields) == _FIELDS:
                captures[Path(fields[2])] = int(fields[1])
            elif fields[0] == "fact" and len(fields) >= _FIELDS:
                key, _, value = "\t".join(fields[2:]).partition("=")
                facts.setdefault(key, {})[value] = None
    return Ledger(tuple(started), captures, {key: tuple(values) for key, values in facts.items()})


def _content(path: Path) -> bytes:
    """The bytes of a ledger of our own: others could have put one of theirs there, with any names in it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        return file.read() if _is_ours(descriptor) else b""


def _is_ours(descriptor: int) -> bool:
    status = os.fstat(descriptor)
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_nlink == 1


def append_captures(directory: Path, captures: dict[Path, int]) -> None:
    """Tell the ledger of an enclosing launch about captures that a nested one made.

    Args:
        directory: The enclosing launch directory.
        captures: Capture directories and the process id of each.
    """
    text = "".join(f"capture\t{process_id}\t{capture}\n" for capture, process_id in captures.items())
    with contextlib.suppress(OSError):
        descriptor = os.open(directory / LEDGER_NAME, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if _is_ours(descriptor):
                os.write(descriptor, os.fsencode(text))
        finally:
            os.close(descriptor)

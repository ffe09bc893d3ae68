"""Which captures `msmemscope live` is about: those of a process that runs, or those in a folder."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msmemscope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WHAT: Final = "PID|DIR"
ACCEPTED: Final = "the number of an observed process, a capture folder (msmemscope_*_ascend), or a folder of several"

_HEADER_PATH: Final = re.compile(r"/.*/msmemscope_[0-9]+_[0-9]+_ascend/event_log(?=/process\.header$)")
_SETTINGS_VARIABLE: Final = b"MSMEMSCOPE_SETTINGS="
_MOST_DIGITS: Final = 10


def is_process_number(given: str) -> bool:
    """Whether a text is a number: a folder whose name is one is written `./123`."""
    return given.isascii() and given.isdecimal()


def captures_of_process(given: str) -> list[Path]:
    """Return the captures that a process and those that it has started are writing now.

    Read from `/proc`, once: a process has the header of its capture mapped. A process that is not observed itself can be a shell,
    or a launcher, of some that are.

    Args:
        given: The number of the process, as it was typed.

    Raises:
        UsageError: There is no such process, it may not be looked at, or neither it nor those below it are observed.
    """
    found = [capture for captures in _captures_by_process(given).values() for capture in captures]
    if found:
        return list(dict.fromkeys(found))
    if _is_prepared(_folder_of(given)):
        message = "the process is observed, and has not recorded anything yet"
        raise UsageError(message, option=WHAT, value=given, hint="try again once it has allocated memory")
    message = "the process is not observed, nor is any that it has started"
    hint = "a program is observed from its start on: msmemscope python train.py"
    raise UsageError(message, option=WHAT, value=given, accepted=ACCEPTED, hint=hint)


def recording_processes(given: str) -> list[int]:
    """Return a process and those that it has started, as far as they record; one that will record if none does.

    Args:
        given: The number of the process, as it was typed.

    Raises:
        UsageError: There is no such process, it may not be looked at, or neither it nor those below it are observed.
    """
    found = [number for number, captures in _captures_by_process(given).items() if captures]
    if found or _is_prepared(_folder_of(given)):
        return found or [int(given)]
    captures_of_process(given)  # says why there is none
    return []


def _folder_of(given: str) -> Path:
    return Path("/proc", given.lstrip("0") or "0")


def _captures_by_process(given: str) -> dict[int, list[Path]]:
    """Of a process and those that it has started, by their numbers; empty for those that record nothing.

    Raises:
        UsageError: There is no such process, or it may not be looked at.
    """
    process = _folder_of(given)
    if len(given) > _MOST_DIGITS or not process.is_dir():
        message = "no such process runs on this machine"
        hint = "name the folder of its capture, msmemscope_*_ascend; without an argument it is the latest run"
        raise UsageError(message, option=WHAT, value=given, accepted=ACCEPTED, hint=hint)
    try:
        found = {int(process.name): _mapped_captures(process)}
    except PermissionError as error:
        message = "the process belongs to another user, and may not be looked at"
        raise UsageError(message, option=WHAT, value=given, hint="name the folder of its capture") from error
    for below in _below(int(process.name)):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            found[below] = _mapped_captures(Path("/proc", str(below)))
    return found


def checked_captures(path: Path, folders: Sequence[Path]) -> list[Path]:
    """Return the captures at a path.

    Args:
        path: The path that was named.
        folders: The captures in it, if it is a folder of several.

    Raises:
        UsageError: There is none.
    """
    found = [folder for folder in folders or [path] if _is_capture(folder)]
    if not found:
        message = "no capture lies there" if path.is_dir() else "is neither a process nor a folder"
        hint = "dumps, archives and snapshots do not change: msmemscope report shows them" if path.is_file() else None
        raise UsageError(message, option=WHAT, value=str(path), accepted=ACCEPTED, hint=hint)
    return found


def _is_capture(folder: Path) -> bool:
    return folder.is_dir() and ((folder / "event_log").is_dir() or folder.name == "event_log")


def _mapped_captures(process: Path) -> list[Path]:
    """Return the capture folders whose header a process has mapped.

    Raises:
        PermissionError: The process is another user's.
    """
    found = []
    for line in (process / "maps").read_text(errors="surrogateescape").splitlines():
        match = _HEADER_PATH.search(line)
        if match:
            log = Path(match[0])
            # In a container its paths begin elsewhere.
            seen = log if log.is_dir() else process / "root" / match[0].lstrip("/")
            found.append(seen.parent)
    return found


def _is_prepared(process: Path) -> bool:
    try:
        return _SETTINGS_VARIABLE in (process / "environ").read_bytes()
    except OSError:
        return False


def _below(process_id: int) -> Iterator[int]:
    """Yield the processes that a process has started, and those that these have, in the order of their numbers."""
    parents = {}
    for name in sorted(filter(is_process_number, os.listdir("/proc")), key=int):  # noqa: PTH208 - names, not paths
        with contextlib.suppress(OSError, ValueError, IndexError):  # it has ended meanwhile
            content = Path("/proc", name, "stat").read_bytes()
            # Behind the program's name in parentheses: its state, and its parent.
            parents[int(name)] = int(content[content.rfind(b")") + 1 :].split()[1])
    known = {process_id}
    while True:
        new = [child for child, parent in parents.items() if parent in known and child not in known]
        if not new:
            return
        known.update(new)
        yield from new

"""The format of a path, decided by its content. Names of files serve only to find files in folders."""

from __future__ import annotations

import os
import re
import stat
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from msmemscope.errors import InputError, MissingInputError
from msmemscope.formats.event_log.archive.contents import ARCHIVE_SUFFIX, begins_like_archive
from msmemscope.formats.event_log.layout import (
    DEFINITION_SEGMENT_MAGIC,
    EVENT_SEGMENT_MAGIC,
    PACKED_SEGMENT_MAGIC,
    PROCESS_MAGIC,
)
from msmemscope.formats.event_log.log_folder import EVENT_LOG_DIRECTORY, process_directory
from msmemscope.formats.file_formats import FILE_FORMATS, FileFormat

if TYPE_CHECKING:
    from pathlib import Path

_CAPTURES: Final = "msmemscope_*_ascend"
_ARCHIVES: Final = f"*{ARCHIVE_SUFFIX}"
_DUMP_NAME: Final = re.compile(r"(?:memscope|leaks)_dump_(\d+)\.(?:csv|db)")
_DUMPS_BELOW: Final = ("*", "dump/*", "device_*/dump/*", "*/*", "*/device_*/dump/*", "*/dump/*")
"""Where dump files lie below a folder: in it, in the folder of a device, of a process, of several processes."""
_START_BYTES: Final = 1 << 16
_HINT: Final = (
    "give a capture folder msmemscope_{pid}_{timestamp}_ascend, an archive of one, a folder of those, a dump (CSV or DB), "
    "or a memory snapshot of torch"
)


@dataclass(frozen=True)
class Found:
    """One input: an event log, a file, or the dump files of one process."""

    file_format: FileFormat | None
    """None of an event log, which is a folder or an archive."""
    paths: tuple[Path, ...]
    """The directory of the process, or its archive, or files; dumps of several devices of a process belong together."""
    fallback: tuple[Path, ...] = ()
    """Of an event log: dump files of the same process, if it turns out to be unreadable."""
    failure: InputError | None = None
    """Why one of several inputs cannot be read at all."""


def recognise(path: Path) -> tuple[Found, ...]:
    """Return what lies at a path.

    Args:
        path: A file or a folder.

    Raises:
        InputError: nothing is there that can be read.
    """
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "no possible path"
        message = f"{str(path)!r} cannot be read: {reason}"
        kind = MissingInputError if isinstance(error, FileNotFoundError) else InputError
        raise kind(message, hint=_HINT) from error
    if stat.S_ISDIR(status.st_mode):
        return _in_folder(path)
    if not stat.S_ISREG(status.st_mode):
        message = f"{path} is neither a file nor a folder"
        raise InputError(message, hint=_HINT)
    parent = path.absolute().parent
    start = _start(path)
    if _is_log_file(start):
        return (Found(None, (parent,)),)
    if begins_like_archive(start):
        return (Found(None, (path,)),)
    return (Found(_file_format(path, start), (path,)),)


def captures_in(folder: Path) -> list[Path]:
    """Return the captures directly below a folder: folders of processes, and archives of processes without a folder.

    Raises:
        InputError: it cannot be read.
    """
    try:
        folders = [path for path in folder.glob(_CAPTURES) if path.is_dir()]
        archives = [path for path in folder.glob(_ARCHIVES) if path.is_file()]
    except OSError as error:
        message = f"{folder} cannot be read: {error.strerror}"
        raise InputError(message) from error
    names = {path.name for path in folders}
    return sorted([*folders, *(path for path in archives if path.name.removesuffix(ARCHIVE_SUFFIX) not in names)])


def _in_folder(path: Path) -> tuple[Found, ...]:
    if path.name == EVENT_LOG_DIRECTORY or (path / EVENT_LOG_DIRECTORY).is_dir():
        return (_capture(path),)
    captures = captures_in(path)
    if captures:
        found = list(map(_one_of_several, captures))
        kept = tuple(entry for entry in found if entry is not None)
        if kept:
            return kept
    dumps = _dumps(path, _latest_dumps(path))
    if dumps is None:
        message = f"{path} holds nothing that can be analysed"
        raise InputError(message, hint=_HINT)
    return (dumps,)


def _one_of_several(folder: Path) -> Found | None:
    if (folder / EVENT_LOG_DIRECTORY).is_dir():
        return _capture(folder)
    try:
        if folder.is_file():
            return recognise(folder)[0]
        return _dumps(folder, _latest_dumps(folder))
    except InputError as error:  # the others are read all the same
        return Found(None, (folder,), failure=error)


def _capture(folder: Path) -> Found:
    return Found(None, (folder,), tuple(_latest_dumps(process_directory(folder))))


def _dumps(folder: Path, files: list[Path]) -> Found | None:
    if not files:
        return None
    formats = {_file_format(file, _start(file)) for file in files}
    chosen = formats.pop()
    if formats or not chosen.is_dump:
        message = f"{folder} holds dumps of several forms"
        raise InputError(message, hint="give one file, or the folder of one export")
    return Found(chosen, tuple(files))


def _latest_dumps(folder: Path) -> list[Path]:
    """Return the newest dump of each device below a folder."""
    newest: dict[Path, tuple[str, Path]] = {}
    for pattern in _DUMPS_BELOW:
        for file in sorted(folder.glob(pattern)):
            match = _DUMP_NAME.fullmatch(file.name)
            if match is None or not file.is_file():
                continue
            known = newest.get(file.parent)
            if known is None or known[0] < match[1]:
                newest[file.parent] = (match[1], file)
        if newest:
            break
    return [file for _, file in sorted(newest.values(), key=lambda entry: str(entry[1]))]


def _start(path: Path) -> bytes:
    try:
        # Not blocking: what was a file a moment ago may be a pipe now.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            return file.read(_START_BYTES)
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        raise InputError(message) from error


def _file_format(path: Path, start: bytes) -> FileFormat:
    if not start:
        message = f"{path} is empty"
        raise InputError(message, hint="was the program or the disk at its end while it was written?")
    for one in FILE_FORMATS:
        if one.begins(start):
            return one
    message = f"{path} is nothing that can be analysed: it begins with {start[:40]!r}"
    raise InputError(message, hint=_HINT)


def _is_log_file(start: bytes) -> bool:
    magic = start[: struct.calcsize("Q")]
    magics = {PROCESS_MAGIC, EVENT_SEGMENT_MAGIC, PACKED_SEGMENT_MAGIC, DEFINITION_SEGMENT_MAGIC}
    return not magics.isdisjoint((int.from_bytes(magic, "little"), int.from_bytes(magic, "big")))

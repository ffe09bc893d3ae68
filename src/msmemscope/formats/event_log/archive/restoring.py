"""Making the folder of a capture again from its archive."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from msmemscope.errors import DumpError
from msmemscope.formats.event_log.archive.contents import BLOCK_ROWS
from msmemscope.formats.event_log.layout import (
    BYTE_ORDER_MARK,
    DEFINITION_SEGMENT_MAGIC,
    EVENT_SEGMENT_MAGIC,
    FORMAT_VERSION,
    SEGMENT_DATA_OFFSET,
    SEGMENT_HEADER,
    in_byte_order,
)
from msmemscope.formats.event_log.log_folder import EVENT_LOG_DIRECTORY, HEADER_FILE, SOURCE_LINES_FILE
from msmemscope.model.capture_files import END_NOTE_FILE, HISTORY_FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from msmemscope.formats.event_log.capture import Capture

_FOLDER_MODE: Final = 0o750
_FILE_MODE: Final = 0o640


def restore_folder(capture: Capture) -> Path:
    """Make the folder of a capture beside its archive, with the event log in it.

    The log holds the same events and definitions, each in one segment.

    Args:
        capture: An archive.

    Returns:
        The folder.

    Raises:
        DumpError: It cannot be made, or something has its name; then nothing of it is there.
        EventLogError: The archive is damaged; likewise.
    """
    archive = capture.directory.absolute()
    folder = archive.parent / capture.log.name
    if os.path.lexists(folder):
        message = f"{folder} is there already, and nothing is overwritten"
        raise DumpError(message, hint=f"msmemscope recover {folder} finishes what is there")
    unfinished: Path | None = None
    try:
        unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name[:64]}.", dir=folder.parent))
        _write_log(capture, unfinished / EVENT_LOG_DIRECTORY)
        unfinished.chmod(_FOLDER_MODE)
        unfinished.rename(folder)
        unfinished = None
    except OSError as error:
        message = f"{folder} cannot be written: {error.strerror or error}"
        raise DumpError(message, hint="make room, or copy the archive to another folder") from error
    finally:
        if unfinished is not None:
            shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def _write_log(capture: Capture, log: Path) -> None:
    log.mkdir(mode=_FOLDER_MODE)
    _write(log / HEADER_FILE, [capture.log.header.content])
    records = (batch.tobytes() for batch in capture.record_batches(BLOCK_ROWS))
    _write(log / "events_0.segment", records, EVENT_SEGMENT_MAGIC)
    source_lines = capture.log.source_lines()
    if source_lines:
        _write(log / SOURCE_LINES_FILE, [source_lines])
    end_note = capture.log.end_note()
    if end_note:
        _write(log.parent / END_NOTE_FILE, [end_note])
    moments = capture.log.moments()
    if moments:
        (log.parent / HISTORY_FOLDER).mkdir(mode=_FOLDER_MODE)
    for name in moments:
        _write(log.parent / HISTORY_FOLDER / name, [capture.log.moment(name)])
    for big_endian in (False, True):
        content = capture.definitions.entries(big_endian=big_endian)
        if content:
            path = log / f"definitions_{int(big_endian)}.segment"
            _write(path, [content], DEFINITION_SEGMENT_MAGIC, big_endian=big_endian)


def _write(path: Path, parts: Iterable[bytes], magic: int | None = None, *, big_endian: bool = False) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _FILE_MODE)
    with os.fdopen(descriptor, "wb") as file:
        if magic is not None:
            file.write(_segment_header(magic, big_endian=big_endian))
        for part in parts:
            file.write(part)


def _segment_header(magic: int, *, big_endian: bool) -> bytes:
    header = np.zeros(1, in_byte_order(SEGMENT_HEADER, big_endian=big_endian))
    header["magic"] = magic
    header["byte_order_mark"] = BYTE_ORDER_MARK
    header["format_version"] = FORMAT_VERSION
    return header.tobytes().ljust(SEGMENT_DATA_OFFSET, b"\0")

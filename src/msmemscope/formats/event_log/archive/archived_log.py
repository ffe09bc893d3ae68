"""Reading an archive: the parts of an event log that a folder has, from one file."""

from __future__ import annotations

import contextlib
import json
import struct
import zipfile
from typing import TYPE_CHECKING, Any, Final

from msmemscope.errors import EventLogError
from msmemscope.formats.event_log.archive.byte_tables import ByteTableError, read_table
from msmemscope.formats.event_log.archive.contents import (
    BLOCK_ROWS,
    BYTES_COLUMN,
    DEFINITIONS,
    DESCRIPTION,
    EVENTS,
    NATIVE_FRAMES,
    PART_BYTES,
    DescriptionError,
    begins_like_archive,
    piece_name,
    read_description,
)
from msmemscope.formats.event_log.archive.record_columns import COLUMNS, records_of
from msmemscope.formats.event_log.definitions import DefinitionTable
from msmemscope.formats.event_log.history_files import MOST_BYTES, moment_names
from msmemscope.formats.event_log.layout import PROCESS_HEADER
from msmemscope.formats.event_log.log_folder import (
    EVENT_LOG_DIRECTORY,
    HEADER_FILE,
    MOST_END_NOTE_BYTES,
    MOST_SOURCE_BYTES,
    SOURCE_LINES_FILE,
)
from msmemscope.formats.event_log.process_header import decode_process_header
from msmemscope.model.capture_files import END_NOTE_FILE, HISTORY_FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    import numpy as np

    from msmemscope.formats.event_log.event_segments import RecordSource

_MOST_OVERHEAD: Final = 1 << 20
"""Bytes that a member may have beyond those that it unpacks to."""
_MOST_DESCRIPTION: Final = 1 << 24
_END_RECORD: Final = struct.Struct("<4s4HIIH")
_END_MAGIC: Final = b"PK\x05\x06"
_LARGE: Final = 0xFFFFFFFF
"""The mark in the end record of a ZIP file for a number that needs 64 bits."""
_LARGE_FILE: Final = 1 << 31
"""Bytes of the smallest ZIP file that Python writes so."""
_SMALLEST_MEMBER: Final = 100
_DAMAGED: Final = "was it copied to its end? Export it again from where it was recorded"


class ArchivedLog:
    """An archive; see `log_folder.StoredLog`.

    Args:
        path: The file.

    Raises:
        EventLogError: It is none, damaged, or of a newer version.
    """

    is_archived = True

    def __init__(self, path: Path) -> None:
        self.directory = path
        with self._opened() as archive:
            content = archive.content(DESCRIPTION, _MOST_DESCRIPTION)
            self._described = read_description(content, archive.size)
            # Where an event log has its header, so that one which was never written means the same.
            place = path.parent / self._described.capture / EVENT_LOG_DIRECTORY / HEADER_FILE
            header = archive.content(HEADER_FILE, PROCESS_HEADER.itemsize)
        try:
            self.header = decode_process_header(header, place)
        except EventLogError as error:
            message = error.message.replace(str(place), f"{path}: {HEADER_FILE}")
            raise EventLogError(message, hint=error.hint) from error

    @property
    def name(self) -> str:
        """The name that the directory of the process had."""
        return self._described.capture

    @property
    def was_running(self) -> bool:
        """Whether the process was still running when it was archived."""
        return self._described.was_running

    @property
    def problems(self) -> tuple[str, ...]:
        """The parts of the event log that were left out."""
        return self._described.problems

    @property
    def events(self) -> Sequence[RecordSource]:
        """All records, as one source."""
        return [self] if self._described.events else []

    @property
    def kept(self) -> Sequence[RecordSource]:
        """None: they are among the others."""
        return []

    def definitions(self) -> DefinitionTable:
        """Read the definitions."""
        table = DefinitionTable(())
        for big_endian, content in DEFINITIONS.items():
            table.add(
                self._bytes(content, self._described.definitions(big_endian=big_endian)),
                big_endian=big_endian,
            )
        return table

    def native_frames(self) -> Mapping[tuple[int, int], str]:
        """Read the texts of native frames, by address and span of events."""
        size = self._described.native_frames
        if not size:
            return {}
        try:
            known = json.loads(self._bytes(NATIVE_FRAMES, size))
            return {(address, epoch): text for epoch, address, text in known if isinstance(text, str)}
        except (ValueError, TypeError, RecursionError) as error:
            message = f"{self.directory} is damaged: {NATIVE_FRAMES}: {error}"
            raise EventLogError(message, hint=_DAMAGED) from error

    def source_lines(self) -> bytes:
        """The content of `SOURCE_LINES_FILE`; empty if there is none, or it cannot be read."""
        return self._optional(SOURCE_LINES_FILE, MOST_SOURCE_BYTES)

    def end_note(self) -> bytes:
        """The content of `END_NOTE_FILE`; likewise."""
        return self._optional(END_NOTE_FILE, MOST_END_NOTE_BYTES)

    def moments(self) -> list[str]:
        """The names of the moments of its history, the oldest first."""
        try:
            with self._opened() as archive:
                return moment_names(archive.names_in(HISTORY_FOLDER))
        except EventLogError:
            return []  # as of `_optional`

    def moment(self, name: str) -> bytes:
        """The content of a moment; empty if it cannot be read."""
        return self._optional(f"{HISTORY_FOLDER}/{name}", MOST_BYTES)

    def _optional(self, name: str, most_bytes: int) -> bytes:
        try:
            with self._opened() as archive:
                return archive.content(name, most_bytes) if archive.has(name) else b""
        except EventLogError:
            return b""  # what is read next says what is damaged

    def is_running(self) -> bool:
        """No: it is a copy of the events that were recorded until then."""
        return False

    def records(self, rows: int) -> Iterator[np.ndarray[Any, np.dtype[Any]]]:
        """Yield the records, block by block.

        Args:
            rows: Most records of one block.
        """
        left = self._described.events
        number = 0
        with self._opened() as archive:
            while left:
                count = min(left, BLOCK_ROWS)
                block = records_of(archive.table(piece_name(EVENTS, number), COLUMNS, count))
                for start in range(0, count, rows):
                    yield block[start : start + rows]
                left -= count
                number += 1

    def _bytes(self, content: str, size: int) -> bytes:
        parts = bytearray()
        with self._opened() as archive:
            for number, start in enumerate(range(0, size, PART_BYTES)):
                count = min(size - start, PART_BYTES)
                table = archive.table(piece_name(content, number), (BYTES_COLUMN,), count)
                parts += table[BYTES_COLUMN].tobytes()
        return bytes(parts)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[_Members]:
        try:
            with self.directory.open("rb") as file:
                size = _checked_size(file)
                with zipfile.ZipFile(file) as archive:
                    yield _Members(archive, size)
        except OSError as error:
            message = f"{self.directory} cannot be read: {error.strerror or error}"
            raise EventLogError(message) from error
        except DescriptionError as error:
            message = f"{self.directory} cannot be read: {error}"
            raise EventLogError(message, hint="it is damaged, or of a newer msmemscope") from error
        # zipfile has many words for damage, and raises what it stumbles over.
        except (_DamagedError, zipfile.BadZipFile, NotImplementedError, ValueError, EOFError, struct.error) as error:
            message = f"{self.directory} is damaged: {error}"
            raise EventLogError(message, hint=_DAMAGED) from error


class _DamagedError(Exception):
    """A member is missing, or is not what it should be."""


class _Members:
    """The members of an opened archive."""

    def __init__(self, archive: zipfile.ZipFile, size: int) -> None:
        self._archive = archive
        self.size = size

    def has(self, name: str) -> bool:
        """Return whether there is such a member."""
        return name in self._archive.NameToInfo

    def names_in(self, folder: str) -> list[str]:
        """Return the names of the members in a folder."""
        start = f"{folder}/"
        return [name.removeprefix(start) for name in self._archive.NameToInfo if name.startswith(start)]

    def content(self, name: str, most: int) -> bytes:
        """Return a member that has at most so many bytes."""
        try:
            entry = self._archive.getinfo(name)
        except KeyError as error:
            message = f"{name} is missing in it"
            raise _DamagedError(message) from error
        is_stored = entry.compress_type == zipfile.ZIP_STORED and not entry.flag_bits & 1
        if not is_stored or entry.file_size != entry.compress_size or entry.file_size > most:
            message = f"{name} in it cannot be so long: {entry.file_size} bytes"
            raise _DamagedError(message)
        return self._archive.read(entry)

    def table(self, name: str, columns: Sequence[str], rows: int) -> dict[str, np.ndarray[Any, np.dtype[np.uint8]]]:
        """Return the columns of a member that is a table."""
        content = self.content(name, rows * len(columns) + _MOST_OVERHEAD)
        try:
            return read_table(content, columns, rows)
        except ByteTableError as error:
            message = f"{name} in it: {error}"
            raise _DamagedError(message) from error


def _checked_size(file: Any) -> int:
    """Return the size of an archive, after a look at its ends: Python reads a list of members of any length."""
    start = file.read(256)
    size: int = file.seek(0, 2)
    if not begins_like_archive(start):
        message = "it does not begin as an archive"
        raise _DamagedError(message)
    file.seek(max(size - _END_RECORD.size, 0))
    end = file.read()
    if len(end) < _END_RECORD.size or not end.startswith(_END_MAGIC):
        message = "its end is missing"
        raise _DamagedError(message)
    *_, list_bytes, list_start, _ = _END_RECORD.unpack(end)
    is_large = _LARGE in {list_bytes, list_start}
    if (is_large and size < _LARGE_FILE) or (not is_large and list_bytes > _SMALLEST_MEMBER * 1024 + size // 16):
        message = "its list of members is longer than it can be"
        raise _DamagedError(message)
    return size

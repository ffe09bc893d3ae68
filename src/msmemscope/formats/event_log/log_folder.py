"""An event log as the observed process leaves it: a folder of segments."""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING, Final, Protocol

from msmemscope.errors import EventLogError
from msmemscope.formats.event_log.definitions import DefinitionTable
from msmemscope.formats.event_log.history_files import kept_moments, moment_content
from msmemscope.formats.event_log.layout import (
    DEFINITION_SEGMENT_MAGIC,
    EVENT_SEGMENT_MAGIC,
    PACKED_SEGMENT_MAGIC,
    PROCESS_HEADER,
)
from msmemscope.formats.event_log.process_header import DecodedHeader, decode_process_header, is_process_alive
from msmemscope.formats.event_log.segment_file import ForeignSegmentError, SegmentFile, open_segment
from msmemscope.model.capture_files import END_NOTE_FILE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from msmemscope.formats.event_log.event_segments import RecordSource

EVENT_LOG_DIRECTORY: Final = "event_log"
"""Name of the event log inside the directory of a process."""

SOURCE_LINES_FILE: Final = "source_lines.json"
"""Beside the segments, also in archives: see `source_texts`."""
MOST_END_NOTE_BYTES: Final = 1 << 10
MOST_SOURCE_BYTES: Final = 32 << 20
HEADER_FILE: Final = "process.header"
_SEGMENT_NAME: Final = re.compile(r"(events|kept|definitions)_(\d+)\.segment")


def process_directory(path: Path) -> Path:
    """Return the directory of a process, given that or the `event_log` in it."""
    return path.parent if path.name == EVENT_LOG_DIRECTORY and not (path / EVENT_LOG_DIRECTORY).is_dir() else path


def segment_names(log: Path) -> dict[str, list[str]]:
    """Return the segments in an event log by their families `events`, `kept` and `definitions`, each by their numbers.

    Raises:
        OSError: It cannot be read.
    """
    names: dict[str, list[tuple[int, str]]] = {"events": [], "kept": [], "definitions": []}
    for name in os.listdir(log):  # noqa: PTH208 - no path is made of the names
        match = _SEGMENT_NAME.fullmatch(name)
        if match:
            names[match[1]].append((int(match[2]), name))
    return {family: [name for _, name in sorted(found)] for family, found in names.items()}


class StoredLog(Protocol):
    """The parts of an event log, wherever they are stored."""

    directory: Path
    """The identity of the log: the directory of the process, or an archive."""
    header: DecodedHeader
    is_archived: bool
    """Whether it is a copy: the process that wrote it does not go on writing it."""

    @property
    def was_running(self) -> bool:
        """Whether the process was still running when it was archived."""

    @property
    def name(self) -> str:
        """The name that the directory of the process has, or had."""

    @property
    def problems(self) -> tuple[str, ...]:
        """The parts that could not be opened, one line each; known once all parts were asked for."""

    @property
    def events(self) -> Sequence[RecordSource]:
        """Records in the order in which they happened, in each of them."""

    @property
    def kept(self) -> Sequence[RecordSource]:
        """Records in any order."""

    def definitions(self) -> DefinitionTable:
        """Read the definitions that are there now."""

    def native_frames(self) -> Mapping[tuple[int, int], str]:
        """Texts of native frames that need no symbols any more, by address and span of events (`Symbolizer.epoch`)."""

    def source_lines(self) -> bytes:
        """The content of `SOURCE_LINES_FILE`; empty if there is none, or it cannot be read."""

    def end_note(self) -> bytes:
        """The content of `END_NOTE_FILE`; likewise."""

    def moments(self) -> list[str]:
        """The names of the moments of its history, the oldest first; see `history_files`."""

    def moment(self, name: str) -> bytes:
        """The content of a moment; empty if it cannot be read."""

    def is_running(self) -> bool:
        """Tell whether the process still writes it (on this machine)."""


class LogFolder:
    """The event log in the directory of a process; see `StoredLog`.

    Args:
        path: The directory, or the `event_log` in it.

    Raises:
        EventLogError: the directory holds no event log, a damaged header, or a log of a newer format version.
    """

    is_archived = False
    was_running = False

    def __init__(self, path: Path) -> None:
        self.directory: Path = process_directory(path)
        self._log = self.directory / EVENT_LOG_DIRECTORY
        try:
            names = segment_names(self._log)
        except OSError as error:
            message = f"{self.directory} holds no event log: {error.strerror}: {self._log}"
            hint = "give the directory of one process, msmemscope_{pid}_{timestamp}_ascend"
            raise EventLogError(message, hint=hint) from error
        self.header = self._read_header(has_segments=any(names.values()))
        self.problems: tuple[str, ...] = ()
        self.events: Sequence[RecordSource] = self._open_segments(
            names["events"], EVENT_SEGMENT_MAGIC, PACKED_SEGMENT_MAGIC
        )
        self.kept: Sequence[RecordSource] = self._open_segments(names["kept"], EVENT_SEGMENT_MAGIC)
        self._definition_names = names["definitions"]

    @property
    def name(self) -> str:
        """Name of the directory."""
        path = self.directory.absolute()
        return path.resolve().name if path.name == ".." else path.name

    def definitions(self) -> DefinitionTable:
        """Read the definitions that are there now."""
        return DefinitionTable(self._open_segments(self._definition_names, DEFINITION_SEGMENT_MAGIC))

    def native_frames(self) -> Mapping[tuple[int, int], str]:
        """None: the files that were mapped have the symbols."""
        return {}

    def source_lines(self) -> bytes:
        """The content of `SOURCE_LINES_FILE`; empty if there is none, or it cannot be read."""
        return _small_file(self._log / SOURCE_LINES_FILE, MOST_SOURCE_BYTES)

    def end_note(self) -> bytes:
        """The content of `END_NOTE_FILE`; likewise."""
        return _small_file(self.directory / END_NOTE_FILE, MOST_END_NOTE_BYTES)

    def moments(self) -> list[str]:
        """The names of the moments of its history, the oldest first."""
        return kept_moments(self.directory)

    def moment(self, name: str) -> bytes:
        """The content of a moment; empty if it cannot be read."""
        return moment_content(self.directory, name)

    def is_running(self) -> bool:
        """Tell whether the process still writes it (on this machine)."""
        return is_process_alive(self.header.header)

    def _read_header(self, *, has_segments: bool) -> DecodedHeader:
        path = self._log / HEADER_FILE
        content = b""
        try:
            with path.open("rb") as file:
                content = file.read(PROCESS_HEADER.itemsize)
        except FileNotFoundError as error:
            if not has_segments and any(self._log.iterdir()):
                message = f"{self.directory} holds no event log: neither process.header nor a segment is in {self._log}"
                raise EventLogError(message) from error
        except OSError as error:
            message = f"{path} cannot be read: {error.strerror}"
            raise EventLogError(message) from error
        return decode_process_header(content, path)

    def _open_segments(self, names: Iterable[str], *magics: int) -> list[SegmentFile]:
        files = []
        for name in names:
            try:
                file = open_segment(self._log / name, *magics)
            except ForeignSegmentError as error:
                if error.message not in self.problems:
                    self.problems = (*self.problems, error.message)
                continue
            if file is not None and file.is_cut:
                self.problems = (*self.problems, f"{file.path.name} was cut short, and records are missing")
            if file is not None:
                files.append(file)
        return files


def _small_file(path: Path, most_bytes: int) -> bytes:
    """The content of a file; empty if there is none, it cannot be read, or it is larger."""
    try:
        # Not blocking: it may be a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            is_usual = stat.S_ISREG(status.st_mode) and status.st_size <= most_bytes
            return file.read(most_bytes) if is_usual else b""
    except (OSError, ValueError):
        return b""

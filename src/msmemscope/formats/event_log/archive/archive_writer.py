"""Writing an archive, from any capture: a pass over its events, then its definitions, piece by piece."""

from __future__ import annotations

import json
import zipfile
from typing import IO, TYPE_CHECKING, Final, cast

import numpy as np

from msmemscope.formats.event_log.archive.byte_tables import write_table
from msmemscope.formats.event_log.archive.contents import (
    BLOCK_ROWS,
    BYTES_COLUMN,
    DEFINITIONS,
    DESCRIPTION,
    EVENTS,
    MIME_TYPE,
    MIME_TYPE_MEMBER,
    NATIVE_FRAMES,
    PART_BYTES,
    Description,
    folder_name,
    piece_name,
)
from msmemscope.formats.event_log.archive.record_columns import columns_of
from msmemscope.formats.event_log.history_files import spaced_moments
from msmemscope.formats.event_log.log_folder import HEADER_FILE, SOURCE_LINES_FILE
from msmemscope.model.capture_files import END_NOTE_FILE, HISTORY_FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable

    from msmemscope.formats.event_log.capture import Capture
    from msmemscope.formats.event_log.definitions import DefinitionTable
    from msmemscope.formats.event_log.event_segments import Records

_FILE_MODE: Final = 0o640
_UNIX: Final = 3


def write_archive(
    capture: Capture, write: Callable[[bytes], object], progress: Callable[[int, int], None] | None = None
) -> None:
    """Write an archive: the whole event log, and the names of native frames, which need files of this machine.

    Same log, same bytes.

    Args:
        capture: The capture to archive.
        write: Takes the file piece by piece.
        progress: Told how many events of how many are written.

    Raises:
        EventLogError: The event log cannot be read.
    """
    log = capture.log
    total = capture.event_count()
    was_running = log.was_running or capture.is_running()
    events = 0
    stacks = _NativeStacks(capture)
    # Written bytes cannot be changed later: the output has no place to go back to.
    with zipfile.ZipFile(cast("IO[bytes]", _Output(write)), "w") as archive:
        _add(archive, MIME_TYPE_MEMBER, MIME_TYPE)
        _add(archive, HEADER_FILE, log.header.content)
        for number, records in enumerate(capture.record_batches(BLOCK_ROWS)):
            _add(archive, piece_name(EVENTS, number), write_table(columns_of(records)))
            stacks.note(records)
            events += len(records)
            if progress is not None:
                progress(min(events, total), total)
        # An event's definitions are written before it: read after the events, all of them are there.
        definitions = log.definitions() if capture.is_running() else capture.definitions
        sizes = {
            big_endian: _add_bytes(archive, content, definitions.entries(big_endian=big_endian))
            for big_endian, content in DEFINITIONS.items()
        }
        description = Description(
            capture=folder_name(log.name),
            events=events,
            definitions_little=sizes[False],
            definitions_big=sizes[True],
            native_frames=_add_bytes(archive, NATIVE_FRAMES, stacks.texts(definitions)),
            was_running=was_running,
            problems=capture.problems,
        )
        source_lines = log.source_lines()
        if source_lines:
            _add(archive, SOURCE_LINES_FILE, source_lines)
        end_note = log.end_note()
        if end_note:
            _add(archive, END_NOTE_FILE, end_note)
        for name in spaced_moments(log.moments()):
            _add(archive, f"{HISTORY_FOLDER}/{name}", log.moment(name))
        _add(archive, DESCRIPTION, description.to_json())


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    member = zipfile.ZipInfo(name)  # of the year 1980: a time would make equal archives differ
    member.create_system = _UNIX
    member.external_attr = _FILE_MODE << 16
    archive.writestr(member, content)


def _add_bytes(archive: zipfile.ZipFile, content: str, values: bytes) -> int:
    """Add bytes in pieces, and return how many they are."""
    for number, start in enumerate(range(0, len(values), PART_BYTES)):
        part = np.frombuffer(values[start : start + PART_BYTES], dtype=np.uint8)
        _add(archive, piece_name(content, number), write_table({BYTES_COLUMN: part}))
    return len(values)


class _NativeStacks:
    """Which native stacks events have, in which span of events, and how their frames are called.

    Args:
        capture: The capture that they are from.
    """

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._changes = np.array(capture.module_changes, dtype=np.uint64)
        self._found: set[tuple[int, int]] = set()

    def note(self, records: Records) -> None:
        """Take in the next records."""
        used = records[records["native_stack_id"] != 0]
        epochs = np.searchsorted(self._changes, used["sequence"], side="right").astype(np.uint64)
        keys = np.unique(epochs << np.uint64(32) | used["native_stack_id"])
        self._found.update(zip((keys >> np.uint64(32)).tolist(), (keys & np.uint64(0xFFFFFFFF)).tolist(), strict=True))

    def texts(self, definitions: DefinitionTable) -> bytes:
        """Return the texts of their frames: a JSON list of span, address and text; empty if there are none."""
        frames = {(epoch, address) for epoch, stack in self._found for address in definitions.native_stack(stack)}
        symbolizer = self._capture.symbolizer
        texts = [(epoch, address, symbolizer.text_in_epoch(address, epoch)) for epoch, address in sorted(frames)]
        return json.dumps(texts, separators=(",", ":")).encode() if texts else b""


class _Output:
    """As much of a file as a ZIP file needs that is written from its begin to its end.

    Args:
        write: Takes the bytes.
    """

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write

    def write(self, content: bytes) -> int:
        """Hand bytes on."""
        self._write(content)
        return len(content)

    def flush(self) -> None:
        """Do nothing: what takes the bytes knows when to."""

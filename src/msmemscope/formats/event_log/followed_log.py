"""Following the event log of a process that still runs: each event once, in sequence order, in bounded memory.

Files are opened for reading alone and closed again; nothing is locked, mapped or written, and nothing is asked of the process.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from msmemscope.errors import EventLogError
from msmemscope.formats.event_log.attributes import AttributeReader
from msmemscope.formats.event_log.definitions import DefinitionTable
from msmemscope.formats.event_log.event_segments import EventSegment, joined, merged_records
from msmemscope.formats.event_log.followed_segment import FollowedSegment
from msmemscope.formats.event_log.layout import (
    DEFINITION_SEGMENT_MAGIC,
    EVENT_SEGMENT_MAGIC,
    PROCESS_HEADER,
    RECORD,
    SEGMENT_DATA_OFFSET,
)
from msmemscope.formats.event_log.log_folder import (
    EVENT_LOG_DIRECTORY,
    HEADER_FILE,
    process_directory,
    segment_names,
)
from msmemscope.formats.event_log.process_header import ProcessHeader, decode_process_header
from msmemscope.formats.event_log.segment_file import (
    ForeignSegmentError,
    SegmentFile,
    file_bytes,
    open_segment,
    read_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import polars as pl

    Records = np.ndarray[Any, np.dtype[Any]]
    Segments = np.ndarray[Any, np.dtype[np.uint32]]

KEPT_SEGMENT: Final = np.iinfo(np.uint32).max
"""Stands for the segments that hold copies of what the flight recorder gave back."""

_PENDING_ROWS: Final = 1 << 18
"""Records that all segments may hold together: 16 MiB."""
_FEWEST_ROWS: Final = 1 << 8


class NewRecords(NamedTuple):
    """The next events of a log."""

    records: Records
    """`layout.RECORD`, in sequence order."""
    segments: Segments
    """The segment that each is from, by the number that `FollowedLog.first_sequences` has."""
    has_more: bool
    """There are events that were not handed out, beside those that have come meanwhile."""


class FollowedLog:
    """The event log of one process, read piece by piece.

    Args:
        directory: `msmemscope_{pid}_{timestamp}_ascend`, or the `event_log` in it.

    Raises:
        EventLogError: The directory holds no event log, a damaged header, or a log of a newer format version.
    """

    def __init__(self, directory: Path) -> None:
        self.directory: Path = process_directory(directory)
        self._log = self.directory / EVENT_LOG_DIRECTORY
        self.definitions = DefinitionTable(())
        self.header: ProcessHeader = self.read_header()
        self.problems: dict[str, None] = {}
        """The parts of the log that had to be left out, and why; one line each, in the order of their finding."""
        self._segments: dict[str, FollowedSegment] = {}
        self._definition_places: dict[str, _DefinitionPlace] = {}
        self._attributes = AttributeReader(self.definitions)

    def read_header(self) -> ProcessHeader:
        """Read the header again, and return it.

        Raises:
            EventLogError: It cannot be read.
        """
        path = self._log / HEADER_FILE
        try:
            with path.open("rb") as file:
                content = file.read(PROCESS_HEADER.itemsize)
        except OSError as error:
            message = f"{self.directory} holds no event log: {error.strerror}: {path}"
            hint = "give the directory of one process, msmemscope_{pid}_{timestamp}_ascend"
            raise EventLogError(message, hint=hint) from error
        self.header = decode_process_header(content, path).header
        return self.header

    @property
    def missed(self) -> int:
        """Events that the flight recorder gave back before they were read."""
        return sum(segment.missed for segment in self._segments.values()) if self.header.maximum_log_bytes else 0

    @property
    def damaged(self) -> int:
        """Records that were left out: numbers, times or sizes that cannot be."""
        return sum(segment.damaged for segment in self._segments.values())

    @property
    def strings(self) -> Mapping[int, str]:
        """String id to text, as far as `read_definitions` has come."""
        return self.definitions.strings

    def attribute_frame(self, ids: pl.Series) -> pl.DataFrame:
        """Return the attributes of some ids, each once, as `recording.schema.ATTRIBUTE_SCHEMA`."""
        return self._attributes.table(ids)

    def unread_events(self) -> int:
        """Return how many events have not been handed out, at most: room that is not written yet may count too.

        Raises:
            EventLogError: A file cannot be read.
        """
        return sum(segment.unread_events() for segment in self._segments.values())

    def read(self) -> NewRecords:
        """Return the next events, about `2**18` at most; none if all that are there were handed out.

        A thread takes a number, 4 us ahead at most, and then stores its event. Normally events come in the order of
        their numbers. The one exception is a thread that is held up right between the two, while we look twice at
        every segment. Its event can come behind one with a larger number.

        Raises:
            EventLogError: A file cannot be read.
        """
        self._find_segments()
        rows = max(_PENDING_ROWS // max(len(self._segments), 1), _FEWEST_ROWS)
        for segment in self._segments.values():
            segment.fill(rows)
        open_ended = [segment.newest_pending for segment in self._segments.values() if not segment.is_at_end]
        if open_ended:
            limit = min(open_ended)
        else:
            # Events with a smaller number than this were begun before we came to the end of the last segment.
            limit = max((segment.newest_pending for segment in self._segments.values()), default=0)
            self._find_segments()
            for segment in self._segments.values():
                segment.fill(1, up_to=limit)
        parts = [(segment.number, segment.take(limit)) for segment in self._segments.values()]
        return NewRecords(*_merged(parts), has_more=bool(open_ended))

    def read_definitions(self) -> None:
        """Take in the definitions that are new since the last time. Definitions of an event are written before it.

        Raises:
            EventLogError: A file cannot be read.
        """
        for name in self._names("definitions"):
            place = self._definition_places.get(name)
            if place is None:
                file = self._opened(name, DEFINITION_SEGMENT_MAGIC)
                if file is None:
                    continue
                place = self._definition_places[name] = _DefinitionPlace(file)
            place.read_into(self.definitions)

    def first_sequences(self) -> np.ndarray[Any, np.dtype[np.uint64]]:
        """Return the number of the first record that each segment still has, by its own number.

        Of a segment without any that is larger than all. To be asked before `kept_records`.

        Raises:
            EventLogError: A file cannot be read.
        """
        firsts = np.full(len(self._segments), np.iinfo(np.uint64).max, dtype=np.uint64)
        for segment in self._segments.values():
            first = segment.first_sequence()
            if first is not None:
                firsts[segment.number] = first
        return firsts

    def kept_records(self) -> Records:
        """Return the allocations that the flight recorder keeps because their blocks are alive, or were until recently.

        Raises:
            EventLogError: A file cannot be read.
        """
        files = [self._opened(name, EVENT_SEGMENT_MAGIC) for name in self._names("kept")]
        kept = [EventSegment(file, in_order=False) for file in files if file is not None]
        return joined([np.empty(0, dtype=RECORD), *merged_records(kept, _PENDING_ROWS)])

    def _find_segments(self) -> None:
        for name in self._names("events"):
            if name not in self._segments:
                try:
                    segment = FollowedSegment.at(self._log / name, len(self._segments))
                except ForeignSegmentError as error:
                    self.problems[error.message] = None
                    continue
                if segment is not None:
                    self._segments[name] = segment

    def _opened(self, name: str, magic: int) -> SegmentFile | None:
        try:
            return open_segment(self._log / name, magic)
        except ForeignSegmentError as error:
            self.problems[error.message] = None
            return None

    def _names(self, family: str) -> list[str]:
        try:
            return segment_names(self._log)[family]
        except OSError as error:
            message = f"{self._log} cannot be read any more: {error.strerror}"
            raise EventLogError(message, hint="the folder of the capture was removed or renamed") from error


@dataclasses.dataclass
class _DefinitionPlace:
    """How far a segment of definitions was read."""

    file: SegmentFile
    position: int = SEGMENT_DATA_OFFSET
    known_bytes: int = 0

    def read_into(self, definitions: DefinitionTable) -> None:
        size = file_bytes(self.file.path)
        is_grown, self.known_bytes = size != self.known_bytes, size
        # An entry for which the chunk is too small stands behind it, in a file that has grown.
        if not is_grown and not any(read_bytes(self.file, self.position, 8)):
            return
        content = read_bytes(self.file, self.position, size - self.position)
        self.position += definitions.add(content, big_endian=self.file.big_endian)


def _merged(parts: list[tuple[int, Records]]) -> tuple[Records, Segments]:
    """Join records of several segments, each in order; of repeated numbers the first stays."""
    taken = [(number, records) for number, records in parts if len(records)]
    if not taken:
        return np.empty(0, dtype=RECORD), np.empty(0, dtype=np.uint32)
    records = taken[0][1] if len(taken) == 1 else joined([part for _, part in taken])
    lengths = [len(part) for _, part in taken]
    segments = np.repeat(np.array([number for number, _ in taken], dtype=np.uint32), lengths)
    if len(taken) > 1:
        order = np.argsort(records["sequence"], kind="stable")
        records, segments = records.take(order), segments[order]
        is_new = np.concatenate([[True], records["sequence"][1:] != records["sequence"][:-1]])
        if not is_new.all():
            records, segments = records.compress(is_new), segments[is_new]
    return records, segments

"""One segment of events that is still being written: each of its records once, in order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from msmemscope.formats.event_log.event_segments import decoded_records, joined, sound_records, unpacked
from msmemscope.formats.event_log.layout import (
    EVENT_SEGMENT_MAGIC,
    PACKED_BLOCK_ALIGNMENT,
    PACKED_BLOCKS_OFFSET,
    PACKED_SEGMENT_MAGIC,
    RECORD,
    SEGMENT_DATA_OFFSET,
)
from msmemscope.formats.event_log.segment_file import (
    SegmentFile,
    aligned_to_blocks,
    file_bytes,
    next_data,
    open_segment,
    opened_for_reading,
    read_block_header,
    read_from,
    read_tail,
)

if TYPE_CHECKING:
    from pathlib import Path

    Records = np.ndarray[Any, np.dtype[Any]]

_PAGE_BYTES: Final = 4096
_BLOCK_BYTES: Final = 1 << 20
"""Read at once. It is more than the largest chunk: a block without any record is then no chunk that is being filled. It
is little, because some file systems let the writer wait with the growth of a file until it has been read."""
_NO_RECORDS: Final[Records] = np.empty(0, dtype=RECORD)


class FollowedSegment(ABC):
    """The records of a segment that were read and not yet taken.

    Args:
        file: Of the family `events`.
        number: Which of the followed segments it is.
    """

    def __init__(self, file: SegmentFile, number: int) -> None:
        self.number = number
        self.pending: Records = _NO_RECORDS
        self.is_at_end = False
        """No further record was there when it was looked last."""
        self.missed = 0
        """Records that the file has no more and that were never read."""
        self.damaged = 0
        """Records that were left out."""
        self._file = file
        self._newest = 0

    @staticmethod
    def at(path: Path, number: int) -> FollowedSegment | None:
        """Return the segment at a path; None if its header is not written yet.

        Raises:
            EventLogError: It is no segment, or of a newer format.
        """
        file = open_segment(path, EVENT_SEGMENT_MAGIC, PACKED_SEGMENT_MAGIC)
        if file is None:
            return None
        return PackedFollowedSegment(file, number) if file.is_packed else PlainFollowedSegment(file, number)

    @property
    def newest_pending(self) -> int:
        """Sequence number of the last record that was not taken yet; 0 if there is none."""
        return int(self.pending["sequence"][-1]) if len(self.pending) else 0

    @abstractmethod
    def unread_events(self) -> int:
        """Return how many records were not taken, at most: room that is not written yet may count too.

        Raises:
            EventLogError: The file cannot be read.
        """

    def fill(self, rows: int, up_to: int | None = None) -> None:
        """Read on until so many records are pending, or all there are.

        Args:
            rows: Records.
            up_to: A sequence number: read on, beyond `rows`, until it is passed.

        Raises:
            EventLogError: The file cannot be read.
        """
        self.is_at_end = False
        with opened_for_reading(self._file.path) as descriptor:
            while len(self.pending) < rows or (up_to is not None and self.newest_pending <= up_to):
                block = self._next_block(descriptor)
                if block is None:
                    self.is_at_end = True
                    return
                self.pending = joined([self.pending, block]) if len(self.pending) else block

    def take(self, limit: int) -> Records:
        """Hand out the pending records up to and including a sequence number."""
        count = int(np.searchsorted(self.pending["sequence"], np.uint64(limit), side="right"))
        taken, self.pending = self.pending[:count], self.pending[count:]
        return taken

    @abstractmethod
    def first_sequence(self) -> int | None:
        """Return the number of the first record that the file still has; None if it has none.

        Raises:
            EventLogError: The file cannot be read.
        """

    @abstractmethod
    def _next_block(self, descriptor: int) -> Records | None:
        """Return the next records, at most a block of them; None if there are none."""

    def _rising(self, records: Records) -> Records:
        """Return the records that a process can have written: sound ones, whose numbers rise."""
        sound = sound_records(records)
        sequences = sound["sequence"]
        latest = np.maximum.accumulate(np.concatenate([[np.uint64(self._newest)], sequences]))
        is_rising = sequences > latest[:-1]
        self._newest = int(latest[-1])
        rising = sound if is_rising.all() else sound.compress(is_rising)
        self.damaged += len(records) - len(rising)
        return rising


class PackedFollowedSegment(FollowedSegment):
    """A segment whose records come in its tail and stay in blocks.

    A tail becomes a block slot by slot: how many of its records were read says where to go on in either.
    """

    def __init__(self, file: SegmentFile, number: int) -> None:
        super().__init__(file, number)
        self._position = PACKED_BLOCKS_OFFSET
        """Of the next block, which the tail will become if there is none yet."""
        self._records_before = 0
        """In all blocks before that."""
        self._taken = 0
        """Records that were read of it while it was the tail."""

    def unread_events(self) -> int:
        """Return how many records were not taken."""
        unread = len(self.pending) - self._taken
        with opened_for_reading(self._file.path) as descriptor:
            tail = read_tail(descriptor, big_endian=self._file.big_endian)
            position = self._position
            while position < tail.position:
                block = read_block_header(descriptor, position, big_endian=self._file.big_endian)
                if block is None:
                    break  # given back: nobody can read it any more
                unread += block.record_count
                position += block.bytes
        return max(unread + len(tail.content) // RECORD.itemsize, 0)

    def first_sequence(self) -> int | None:
        """Return the number of the first record that the file still has."""
        with opened_for_reading(self._file.path) as descriptor:
            tail = read_tail(descriptor, big_endian=self._file.big_endian)
            position = next_data(descriptor, PACKED_BLOCKS_OFFSET)
            while position < min(tail.position, file_bytes(descriptor)):
                block = read_block_header(descriptor, position, big_endian=self._file.big_endian)
                if block is not None:
                    return block.first_sequence
                position = next_data(descriptor, position + PACKED_BLOCK_ALIGNMENT)
        sequences = decoded_records(tail.content, self._file)["sequence"]
        return int(sequences[np.argmax(sequences != 0)]) if sequences.any() else None

    def _next_block(self, descriptor: int) -> Records | None:
        while True:
            content = read_from(descriptor, self._position, _BLOCK_BYTES)
            found = unpacked(content, 1, big_endian=self._file.big_endian)
            self.damaged += found.damaged
            if found.records_before is not None:
                new = self._beyond_taken(found.records, found.records_before)
                self._position += found.consumed
                if len(new):
                    return self._rising(new)
                continue
            tail = read_tail(descriptor, big_endian=self._file.big_endian)
            if tail.position > self._position:
                # It has become a block meanwhile. Or the flight recorder gave it back: then it is a hole, which can be
                # far larger than the rest of the log.
                position = aligned_to_blocks(next_data(descriptor, self._position))
                if found.damaged or position > self._position:
                    self._leave_for(min(max(position, self._position + found.consumed), tail.position))
                    continue
                if read_block_header(descriptor, self._position, big_endian=self._file.big_endian) is None:
                    self._leave_for(min(self._position + PACKED_BLOCK_ALIGNMENT, tail.position))
                continue
            slots = decoded_records(tail.content[self._taken * RECORD.itemsize :], self._file)
            self._taken += len(slots)
            return self._rising(slots) if len(slots) else None

    def _beyond_taken(self, records: Records, records_before: int) -> Records:
        """Return the records of a block that were not read while it was the tail."""
        read = self._records_before + self._taken
        self.missed += max(records_before - read, 0)
        self._records_before, self._taken = records_before + len(records), 0
        return records[max(read - records_before, 0) :]

    def _leave_for(self, position: int) -> None:
        """Go on behind what cannot be read any more; how many records that were, the next block says."""
        self._position = position
        self._records_before, self._taken = self._records_before + self._taken, 0


class PlainFollowedSegment(FollowedSegment):
    """A segment, until version 7 of the format, whose records lie one behind the other.

    Slots are committed in the order in which they lie in the file. A slot that is not, in front of one that is, was torn when
    the process died, or given back by the flight recorder.
    """

    def __init__(self, file: SegmentFile, number: int) -> None:
        super().__init__(file, number)
        self._position = SEGMENT_DATA_OFFSET
        self._known_bytes = 0
        self._is_behind_writer = False

    def unread_events(self) -> int:
        """Return how many slots lie behind the ones that were read."""
        unread = max(file_bytes(self._file.path) - self._position, 0) // RECORD.itemsize
        return unread + len(self.pending)

    def first_sequence(self) -> int | None:
        """Return the number of the first record that the file still has."""
        with opened_for_reading(self._file.path) as descriptor:
            found = self._committed_block(descriptor, SEGMENT_DATA_OFFSET)
        if found is None:
            return None
        _, slots = found
        sequences = slots["sequence"]
        return int(sequences[np.argmax(sequences != 0)])

    def _next_block(self, descriptor: int) -> Records | None:
        size = file_bytes(descriptor)
        is_grown, self._known_bytes = size != self._known_bytes, size
        if self._is_behind_writer and not is_grown:
            # The writer goes on where we stopped: of a chunk that is still empty there not every byte need be read.
            slots = decoded_records(read_from(descriptor, self._position, RECORD.itemsize), self._file)
            if not len(slots) or slots["sequence"][0] == 0:
                return None
        found = self._committed_block(descriptor, self._position)
        self._is_behind_writer = found is None
        if found is None:
            return None
        start, slots = found
        committed = np.flatnonzero(slots["sequence"])
        end = start + (int(committed[-1]) + 1) * RECORD.itemsize
        self.missed += (end - self._position) // RECORD.itemsize - len(committed)
        self._position = end
        self._is_behind_writer = end < start + slots.nbytes or end == size
        return self._rising(self._settled(descriptor, slots[: committed[-1] + 1], end))

    def _committed_block(self, descriptor: int, start: int) -> tuple[int, Records] | None:
        """Return the first block from a position on that has a record, and where it begins; None if there is none."""
        while True:
            content = read_from(descriptor, start, _BLOCK_BYTES)
            slots = decoded_records(content, self._file)
            if slots["sequence"].any():
                return start, slots
            if len(content) < _BLOCK_BYTES:
                return None
            # The flight recorder leaves a hole where it gave space back. It can be far larger than the rest of the log.
            start = next_data(descriptor, (start + len(content)) // _PAGE_BYTES * _PAGE_BYTES)

    def _settled(self, descriptor: int, slots: Records, end: int) -> Records:
        """Return records as they are once all of them have been committed.

        Processors that reorder can show us parts of a record in another order than they were written in. That can
        happen to a record that is committed right when we come by. So the last page is read once more.
        """
        count = min(len(slots), _PAGE_BYTES // RECORD.itemsize)
        again = decoded_records(
            read_from(descriptor, end - count * RECORD.itemsize, count * RECORD.itemsize), self._file
        )
        rest = len(slots) - count
        settled = slots if np.array_equal(slots[rest:], again) else joined([slots[:rest], again])
        is_committed = settled["sequence"] != 0
        return settled if is_committed.all() else settled.compress(is_committed)

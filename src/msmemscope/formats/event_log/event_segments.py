"""Event records of all segments of a capture, merged into their one order.

Each `events` segment is in order by itself, so merging needs only one block of each in memory. Two kinds of records are
skipped: those that were not committed, with sequence 0, and those that no process can have recorded. `kept` segments of
the flight recorder are small and in no order: they are loaded whole.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import numpy as np

from msmemscope import _native
from msmemscope.formats.event_log.event_frame import devices_of
from msmemscope.formats.event_log.layout import FIRST_VERSION_WITH_KINDS, RECORD, in_byte_order
from msmemscope.formats.event_log.segment_file import SegmentFile, lost_records, read_bytes
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.events import LAST_VALUE_KINDS, ROWLESS_KINDS, EventKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from msmemscope.formats.event_log.events_in_memory import EventsInMemory

Records: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
"""An array of `layout.RECORD`."""

MOST_BYTES: Final = 1 << 50
"""Of one event. No machine has so much memory: a record with a larger size is damaged, and sums would not fit 64 bits."""
_NOT_KNOWN: Final = -1
"""Size of a last value that is not known."""
_LAST_VALUES: Final = np.array([int(kind) for kind in LAST_VALUE_KINDS])

_ROWLESS: Final = np.array([int(kind) for kind in ROWLESS_KINDS])
_NEGATIVE: Final = np.uint32(0xFF000000)
_SURVEY_ROWS: Final = 1 << 16
_BUFFERED_ROWS: Final = 1 << 18
"""Records that all open blocks may hold together: 16 MiB."""
_SMALLEST_BLOCK_ROWS: Final = 1 << 8
_LARGEST_BLOCK_ROWS: Final = 1 << 15
_PACKED_BYTES: Final = 1 << 20
"""Of packed blocks, read at once: more than one of them ever has."""


class ArchivedRecords(Protocol):
    """Records that do not lie in a segment."""

    def records(self, rows: int) -> Iterator[Records]:
        """Yield them, in our byte order and as the newest version has them; at most so many at once."""


RecordSource: TypeAlias = "SegmentFile | ArchivedRecords"
"""Where records are from."""


@dataclass(frozen=True)
class EventSegment:
    """One segment, and how it is merged with the others."""

    file: RecordSource
    in_order: bool
    """Sequence numbers rise from each committed record to the next."""
    first: int = 0
    """Records with a smaller sequence number do not count."""


@dataclass(frozen=True)
class EventSurvey:
    """The results of a first pass over all segments of a capture."""

    segments: tuple[EventSegment, ...]
    event_count: int
    """Committed events, each once."""
    kind_counts: dict[int, int]
    """Events by kind, each once."""
    damaged: int
    """Records that were left out: their numbers, times or sizes are none."""
    devices: frozenset[int]
    """Accelerators, and the cpu, that events name which are rows of a dump."""


def survey_events(
    files: Sequence[RecordSource],
    kept_files: Sequence[RecordSource],
    memory: EventsInMemory | None = None,
    first: int = 0,
) -> EventSurvey:
    """Read every record once, to know how many there are and how they can be merged.

    Args:
        files: The `events` segments.
        kept_files: The `kept` segments.
        memory: Gets the events that are to stay in memory.
        first: The smallest sequence number that counts.
    """
    # Where a record can be repeated, the merge has to find it: rare, and never large.
    kept = [EventSegment(file, in_order=False, first=first) for file in kept_files]
    try:
        return _surveyed([*(EventSegment(file, in_order=True, first=first) for file in files), *kept], memory)
    except _OutOfOrderError:
        # Damaged, and read twice more: to see which segments are, and then with those sorted.
        checked = [EventSegment(file, in_order=_is_in_order(file), first=first) for file in files]
        return _surveyed([*checked, *kept], memory)


def _surveyed(segments: Sequence[EventSegment], memory: EventsInMemory | None) -> EventSurvey:
    kinds = np.zeros(256, dtype=np.int64)
    devices = np.zeros(1 << 16, dtype=np.int64)
    check = _Check()
    if memory is not None:
        memory.clear()
    for merged in merged_records(segments, _SURVEY_ROWS, check):
        _count(merged, kinds, devices)
        if memory is not None:
            memory.add(merged)
    found = np.flatnonzero(devices).astype(np.uint16).view(np.int16)
    return EventSurvey(
        segments=tuple(segments),
        event_count=int(kinds.sum()),
        kind_counts={int(kind): int(kinds[kind]) for kind in np.flatnonzero(kinds)},
        damaged=check.damaged,
        devices=frozenset(int(device) for device in found if device >= 0 or device == DEVICE_CPU),
    )


def _is_in_order(file: RecordSource) -> bool:
    check = _Check()
    try:
        for _ in _blocks(EventSegment(file, in_order=True), _SURVEY_ROWS, check):
            pass
    except _OutOfOrderError:
        return False
    return True


class _OutOfOrderError(Exception):
    """Sequence numbers of a segment do not rise: it is damaged."""


@dataclass
class _Check:
    """The checks of the first pass over all segments. Later passes do not repeat them."""

    damaged: int = 0
    """Records that were left out."""


def merged_records(segments: Sequence[EventSegment], rows: int, check: _Check | None = None) -> Iterator[Records]:
    """Yield the records of all segments in sequence order, each once.

    Args:
        segments: The segments that `survey_events` found.
        rows: Most records of one yielded array; only the last one has fewer.
        check: Given in the first pass, which finds out whether segments are in order.

    Raises:
        _OutOfOrderError: one of them is not, and `check` was given.
    """
    block_rows = _BUFFERED_ROWS // max(len(segments), 1)
    block_rows = min(max(block_rows, _SMALLEST_BLOCK_ROWS), _LARGEST_BLOCK_ROWS)
    cursors = [cursor for segment in segments if (cursor := _Cursor(segment, block_rows, check)).refill()]
    waiting: list[Records] = []
    waiting_rows = 0
    while cursors:
        # Up to the nearest end of a loaded block, nothing can come in between.
        limit = min(cursor.last for cursor in cursors)
        part = _in_order([cursor.take(limit) for cursor in cursors if cursor.first <= limit])
        cursors = [cursor for cursor in cursors if len(cursor.pending) or cursor.refill()]
        waiting.append(part)
        waiting_rows += len(part)
        while waiting_rows >= rows:
            merged = waiting[0] if len(waiting) == 1 else joined(waiting)
            yield merged[:rows]
            waiting = [merged[rows:]]
            waiting_rows -= rows
    if waiting_rows:
        yield joined(waiting)


class _Cursor:
    """A position in one segment, with the records from there to the end of a block in memory."""

    def __init__(self, segment: EventSegment, block_rows: int, check: _Check | None) -> None:
        """Start before the first record; `refill` loads the first block."""
        self._blocks = _blocks(segment, block_rows, check) if segment.in_order else _sorted_whole(segment, check)
        self.pending: Records = np.empty(0, dtype=RECORD)
        self.first = 0
        self.last = 0

    def refill(self) -> bool:
        """Load the next block. Return False at the end of the segment."""
        for block in self._blocks:
            self._hold(block)
            return True
        return False

    def take(self, limit: int) -> Records:
        """Hand out the pending records up to and including sequence number `limit`."""
        if self.last <= limit:
            taken, self.pending = self.pending, self.pending[:0]
            return taken
        count = int(np.searchsorted(self.pending["sequence"], np.uint64(limit), side="right"))
        taken = self.pending[:count]
        self._hold(self.pending[count:])
        return taken

    def _hold(self, block: Records) -> None:
        self.pending = block
        self.first = int(block["sequence"][0])
        self.last = int(block["sequence"][-1])


def joined(parts: Sequence[Records]) -> Records:
    """Return records one behind the other.

    NumPy copies structured arrays field by field where they are joined (`concatenate`) or indexed by an array: some ten
    times as slow. `take` and `compress` move whole records, and so does this.

    Args:
        parts: At least one array; all of one structured type.
    """
    kind = parts[0].dtype
    whole = np.dtype((np.void, kind.itemsize))
    return np.concatenate([part.view(whole) for part in parts]).view(kind)


def _in_order(parts: list[Records]) -> Records:
    """Join records of several segments; a repeated one is left out."""
    if len(parts) == 1:
        return parts[0]
    records = joined(parts)
    sequences = np.ascontiguousarray(records["sequence"])
    order = np.argsort(sequences, kind="stable")  # merges the runs that the parts are
    records = records.take(order)
    sequences = sequences[order]
    repeated = sequences[1:] == sequences[:-1]
    if repeated.any():
        records = records.compress(np.concatenate(([True], ~repeated)))
    return records


def _blocks(segment: EventSegment, rows: int, check: _Check | None) -> Iterator[Records]:
    """Yield the records of a segment that count and are not damaged, block by block; no block is empty.

    Args:
        segment: If it is in order, sequence numbers must rise, where there is a check.
        rows: Most records of one block.
        check: Counts the damaged ones, if given.
    """
    previous = 0
    for records in _committed_records(segment.file, rows, check):
        block = sound_records(records)
        if check is not None:
            check.damaged += len(records) - len(block)
            if segment.in_order and len(block):
                sequences = block["sequence"]
                if previous >= int(sequences[0]) or not (sequences[1:] > sequences[:-1]).all():
                    raise _OutOfOrderError
                previous = int(sequences[-1])
        if segment.first:
            block = block.compress(block["sequence"] >= segment.first)
        if len(block):
            yield block


def sound_records(records: Records) -> Records:
    """Return the records that a process can have recorded: what reads them may reckon with 63 bits."""
    is_damaged = (records["sequence"] | records["timestamp_ns"]) >> np.uint64(63) != 0
    # As numbers without a sign, negative sizes are the largest ones.
    odd = np.flatnonzero(records["size"].view(np.uint64) > MOST_BYTES)
    if len(odd):
        sizes, kinds = records["size"][odd], records["kind"][odd]
        may_be = ((kinds == EventKind.OOM) & (sizes >= 0)) | (np.isin(kinds, _LAST_VALUES) & (sizes == _NOT_KNOWN))
        is_damaged[odd] |= ~may_be
    return records.compress(~is_damaged) if is_damaged.any() else records


def _committed_records(source: RecordSource, rows: int, check: _Check | None) -> Iterator[Records]:
    """Yield the committed records of a segment, block by block; no block is empty."""
    for block in _slots(source, rows, check) if isinstance(source, SegmentFile) else source.records(rows):
        committed = block["sequence"] != 0
        found = block if committed.all() else block.compress(committed)
        if len(found):
            yield found


def _slots(file: SegmentFile, rows: int, check: _Check | None) -> Iterator[Records]:
    """Yield the slots of a segment, block by block."""
    if file.is_packed:
        yield from _unpacked_slots(file, rows, check)
        return
    dtype = in_byte_order(RECORD, big_endian=file.big_endian)
    for extent in file.extents:
        position = extent.start
        while position + dtype.itemsize <= extent.end:
            # Extents begin at multiples of the page size, hence at a record.
            count = min(rows, (extent.end - position) // dtype.itemsize)
            yield decoded_records(read_bytes(file, position, count * dtype.itemsize), file)
            position += count * dtype.itemsize


def _unpacked_slots(file: SegmentFile, rows: int, check: _Check | None) -> Iterator[Records]:
    """Yield the records of blocks and the slots of the tail, as `_slots`."""
    for extent in file.extents:
        position = extent.start
        while position < extent.end:
            content = read_bytes(file, position, min(_PACKED_BYTES, extent.end - position))
            if not content:
                break  # the file was cut short meanwhile
            found = unpacked(content, rows, big_endian=file.big_endian)
            position += found.consumed or len(content)  # a block that does not end is where the file was cut
            if check is not None:
                check.damaged += found.damaged
            yield from _parts(found.records, rows)
    if check is not None:
        check.damaged += file.damaged_in_tail + lost_records(file)
    yield from _parts(decoded_records(file.tail or b"", file), rows)


def _parts(records: Records, rows: int) -> Iterator[Records]:
    return (records[start : start + rows] for start in range(0, len(records), rows))


@dataclass(frozen=True)
class Unpacked:
    """The records read of the blocks of a packed segment."""

    records: Records
    consumed: int
    """Bytes that were read, or are no block."""
    records_before: int | None
    """In the segment, before the first block that was read; None if none was."""
    damaged: int
    """Records in blocks that cannot be read."""


def unpacked(content: bytes, rows: int, *, big_endian: bool) -> Unpacked:
    """Return the records of the whole blocks in a part of a packed segment.

    Args:
        content: A part that begins where a block can.
        rows: Most records, but at least a block is read if there is one.
        big_endian: The byte order of the segment.
    """
    is_swapped = big_endian != (sys.byteorder == "big")
    records, consumed, before, damaged = _native.unpack_blocks(content, rows, is_swapped)
    return Unpacked(np.frombuffer(records, RECORD), consumed, before, damaged)


def decoded_records(content: bytes, file: SegmentFile) -> Records:
    """Return the slots of a part of a segment, committed or not, in our byte order and in the newest version."""
    dtype = in_byte_order(RECORD, big_endian=file.big_endian)
    block: Records = np.frombuffer(content[: len(content) - len(content) % dtype.itemsize], dtype=dtype)
    if file.big_endian:
        block = block.astype(RECORD)
    return _with_kinds(block) if file.format_version < FIRST_VERSION_WITH_KINDS else block


def _with_kinds(records: Records) -> Records:
    """Return records of older logs as newer ones have them: devices were one signed byte there, and all of them NPUs."""
    is_negative = records["device_low"] > np.iinfo(np.int8).max
    if not is_negative.any():
        return records
    changed: Records = records.copy()
    changed["thread_and_device"] |= np.where(is_negative, _NEGATIVE, np.uint32(0))
    return changed


def _sorted_whole(segment: EventSegment, check: _Check | None) -> Iterator[Records]:
    """Yield all records of a segment at once, in order and each once."""
    blocks = list(_blocks(segment, _LARGEST_BLOCK_ROWS, check))
    if blocks:
        records = joined(blocks)
        _, first_positions = np.unique(records["sequence"], return_index=True)
        yield records.take(first_positions)


def _count(
    records: Records, kinds: np.ndarray[Any, np.dtype[np.int64]], devices: np.ndarray[Any, np.dtype[np.int64]]
) -> None:
    found = records["kind"]
    kinds += np.bincount(found, minlength=256)
    placed = devices_of(records).view(np.uint16)
    if any(kinds[kind] for kind in ROWLESS_KINDS):
        placed = placed[~np.isin(found, _ROWLESS)]
    devices += np.bincount(placed, minlength=len(devices))

"""One segment file: is it one, in which byte order, and where does it hold data.

Files are read with `pread` and never mapped. If a file is cut short while we read it, a read gives fewer bytes, and no
SIGBUS comes. The content that was read does not stay in our resident memory, however large the log is.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from msmemscope import _native
from msmemscope.errors import EventLogError
from msmemscope.formats.event_log.layout import (
    PACKED_BLOCK_ALIGNMENT,
    PACKED_BLOCK_COMMIT,
    PACKED_BLOCK_HEADER,
    PACKED_BLOCKS_OFFSET,
    PACKED_SEGMENT_MAGIC,
    RECORD,
    SEGMENT_DATA_OFFSET,
    SEGMENT_HEADER,
    in_byte_order,
    struct_format,
)
from msmemscope.formats.event_log.process_header import byte_order_of, check_version

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


_SHORTEST_HOLE_BYTES: Final = 1 << 20
"""Shorter holes are read, as the zeros that they are: that costs less than a mistake of the file system would."""


@dataclass(frozen=True)
class Extent:
    """Consecutive bytes of a file that hold data; what lies between two of them is a hole, read as zeros."""

    start: int
    end: int


@dataclass(frozen=True)
class SegmentFile:
    """A segment whose header was read, as it was at that moment."""

    path: Path
    big_endian: bool
    format_version: int
    number: int
    extents: tuple[Extent, ...]
    """Data after the segment's header, in file order; of a packed segment its blocks."""
    tail: bytes | None = None
    """Of a packed segment the records behind those of its blocks; else None."""
    is_cut: bool = False
    """Whether the file ends before what its header says that it holds."""
    damaged_in_tail: int = 0
    """Records of the tail that were left out, because they are not those that the process ended with."""

    @property
    def is_packed(self) -> bool:
        """Whether most records are in blocks."""
        return self.tail is not None


@dataclass(frozen=True)
class Tail:
    """The last records of a packed segment, as they were at one moment."""

    position: int
    """Where they will stand as a block: the blocks before it hold all others."""
    content: bytes
    """Slots up to the last one that was committed."""
    damaged: int = 0
    """Slots that were left out, because they are not those that the process ended with."""


@dataclass(frozen=True)
class BlockHeader:
    """The header of a block of packed records."""

    record_count: int
    bytes: int
    """From where it begins to where the next one can."""
    records_before: int
    """In all blocks of the segment before it, whether they are still there or not."""
    first_sequence: int


class ForeignSegmentError(EventLogError):
    """A file that is named like a segment and is none; a capture is read without it."""


def open_segment(path: Path, *magics: int) -> SegmentFile | None:
    """Read the header of a segment and find its data.

    Args:
        path: The file.
        magics: Of the kinds of segments that it may be.

    Returns:
        None if the segment was created and never written, which is what a
        process leaves that was killed right then.

    Raises:
        ForeignSegmentError: the file is no segment of this kind, or cannot be opened.
        EventLogError: it is one of a newer format version.
    """
    with opened_for_reading(path) as descriptor:
        size = os.fstat(descriptor).st_size
        content = os.pread(descriptor, SEGMENT_HEADER.itemsize, 0)
        if not content.strip(b"\0"):
            return None
        big_endian = byte_order_of(content[8:16])
        order: Literal["big", "little"] = "big" if big_endian else "little"
        is_known = any(content[:8] == magic.to_bytes(8, order) for magic in magics)
        if big_endian is None or not is_known or len(content) < SEGMENT_HEADER.itemsize:
            names = " or ".join(repr(magic.to_bytes(8, "little")) for magic in magics)
            message = f"{path} is not a segment of an event log: it begins with {content[:8]!r}, not {names}"
            raise ForeignSegmentError(message)
        header = np.frombuffer(content, dtype=in_byte_order(SEGMENT_HEADER, big_endian=big_endian))[0]
        version = int(header["format_version"])
        check_version(version, path)
        number = int(header["segment_number"])
        if int(header["magic"]) != PACKED_SEGMENT_MAGIC:
            return SegmentFile(path, big_endian, version, number, _extents(descriptor, SEGMENT_DATA_OFFSET, size))
        tail = read_tail(descriptor, big_endian=big_endian)
        blocks = _extents(descriptor, PACKED_BLOCKS_OFFSET, min(tail.position, file_bytes(descriptor)))
        said = int(header["tail_position"])
        is_cut = size < SEGMENT_DATA_OFFSET + int(header["tail_bytes"])
        is_cut |= said > PACKED_BLOCKS_OFFSET and aligned_to_blocks(size) < said
        return SegmentFile(path, big_endian, version, number, blocks, tail.content, is_cut, tail.damaged)


def read_tail(descriptor: int, *, big_endian: bool) -> Tail:
    """Return the tail of a packed segment, which may be written meanwhile.

    A tail that has become a block is cleared, and then the header says so. The header is read before and after
    tail and block. If it says the same each time, the tail is no block yet and whole, or it is a block and does not
    count.
    """
    dtype = in_byte_order(RECORD, big_endian=big_endian)
    while True:
        position, tail_bytes = _said_of_tail(descriptor, big_endian=big_endian)
        first = read_from(descriptor, SEGMENT_DATA_OFFSET, tail_bytes)
        slots = np.frombuffer(first[: len(first) - len(first) % RECORD.itemsize], dtype)
        committed = np.flatnonzero(slots["sequence"])
        size = (int(committed[-1]) + 1) * RECORD.itemsize if len(committed) else 0
        # On processors that reorder, a record that was committed right then is whole when it is read again.
        content = read_from(descriptor, SEGMENT_DATA_OFFSET, size)
        block = read_block_header(descriptor, position, big_endian=big_endian)
        if _said_of_tail(descriptor, big_endian=big_endian)[0] == position:
            if block is not None:
                return Tail(position + block.bytes, b"")
            sealed = _unsound_slots(descriptor, content, big_endian=big_endian)
            return Tail(position, content[sealed * RECORD.itemsize :], sealed)


def _unsound_slots(descriptor: int, content: bytes, *, big_endian: bool) -> int:
    """Return how many slots of a tail were sealed and do not check; those behind them came later.

    Checksums are over bytes of memory: of the other byte order they mean nothing here.
    """
    beginning = read_from(descriptor, 0, SEGMENT_HEADER.itemsize)
    if len(beginning) < SEGMENT_HEADER.itemsize or big_endian != (sys.byteorder == "big"):
        return 0
    header = np.frombuffer(beginning, SEGMENT_HEADER)[0]
    checksum, count = int(header["sealed_checksum"]), int(header["sealed_records"])
    if checksum == 0 or header["sealed_position"] != header["tail_position"]:
        return 0
    size = count * RECORD.itemsize
    if size <= len(content) and _native.checksum_of_records(content[:size]) == checksum:
        return 0
    return min(count, len(content) // RECORD.itemsize)


def read_block_header(descriptor: int, position: int, *, big_endian: bool) -> BlockHeader | None:
    """Return the header of the block at a position; None if there is no committed one."""
    content = read_from(descriptor, position, PACKED_BLOCK_HEADER.itemsize)
    if len(content) < PACKED_BLOCK_HEADER.itemsize:
        return None
    commit, count, payload, _, before, first = struct.unpack(
        struct_format(PACKED_BLOCK_HEADER, big_endian=big_endian), content
    )
    if commit != PACKED_BLOCK_COMMIT:
        return None
    size = aligned_to_blocks(len(content) + payload)
    return BlockHeader(count, size, before, first)


def lost_records(file: SegmentFile) -> int:
    """Return how many records the blocks of a segment lack, as far as it is known, and at least 1 where some are missing.

    Each block says how many records stand before it, and the segment where the last one ends. The flight recorder gives
    back the oldest blocks. They are all zeros.

    Args:
        file: A packed segment. Blocks that are there and do not check are not counted.
    """
    lost = 0
    counted: int | None = None
    is_gap = has_rest = False
    with opened_for_reading(file.path) as descriptor:
        for extent in file.extents:
            position = extent.start
            while position < extent.end:
                block = read_block_header(descriptor, position, big_endian=file.big_endian)
                if block is None:
                    rest = read_from(descriptor, position, min(PACKED_BLOCK_ALIGNMENT, extent.end - position))
                    is_gap, has_rest = True, has_rest or any(rest)
                    position += PACKED_BLOCK_ALIGNMENT
                    continue
                if counted is not None or has_rest:
                    lost += max(block.records_before - (counted or 0), 0)
                counted = block.records_before + block.record_count
                is_gap = has_rest = False
                position += max(block.bytes, PACKED_BLOCK_ALIGNMENT)
    return lost + (is_gap and (has_rest or counted is not None))


def aligned_to_blocks(position: int) -> int:
    """Return the first place at a position or behind it where a block can begin."""
    return -(-position // PACKED_BLOCK_ALIGNMENT) * PACKED_BLOCK_ALIGNMENT


def _said_of_tail(descriptor: int, *, big_endian: bool) -> tuple[int, int]:
    """Return where the tail will stand as a block, and how many bytes it has at most."""
    content = read_from(descriptor, 0, SEGMENT_HEADER.itemsize)
    if len(content) < SEGMENT_HEADER.itemsize:
        return PACKED_BLOCKS_OFFSET, 0  # cut short meanwhile
    header = np.frombuffer(content, dtype=in_byte_order(SEGMENT_HEADER, big_endian=big_endian))[0]
    position = int(header["tail_position"])
    # Blocks are never said to end behind the file: else nothing would bound the search for them.
    latest = max(PACKED_BLOCKS_OFFSET, aligned_to_blocks(file_bytes(descriptor)))
    if not PACKED_BLOCKS_OFFSET <= position <= latest or position % PACKED_BLOCK_ALIGNMENT:
        position = latest
    return position, min(int(header["tail_bytes"]), PACKED_BLOCKS_OFFSET - SEGMENT_DATA_OFFSET)


def read_bytes(segment: SegmentFile, start: int, size: int) -> bytes:
    """Return up to `size` bytes of a segment from byte `start` of its file."""
    with opened_for_reading(segment.path) as descriptor:
        return read_from(descriptor, start, size)


def read_from(descriptor: int, start: int, size: int) -> bytes:
    """Return up to `size` bytes of an opened file from byte `start`."""
    parts = []
    while size > 0:
        # One call reads at most 2 GiB on Linux.
        part = os.pread(descriptor, min(size, 1 << 30), start)
        if not part:
            break
        parts.append(part)
        start += len(part)
        size -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def file_bytes(file: Path | int) -> int:
    """Return the size of a file, given by its path or by its descriptor.

    Raises:
        EventLogError: there is none at the path any more.
    """
    try:
        return os.stat(file).st_size  # noqa: PTH116 - also of a descriptor
    except OSError as error:
        message = f"{file} cannot be read: {error.strerror}"
        raise EventLogError(message) from error


def next_data(descriptor: int, position: int) -> int:
    """Return where the first page with data begins at a position or behind it; the end of the file if none does.

    Args:
        descriptor: Of a segment.
        position: The begin of a page.
    """
    size = os.fstat(descriptor).st_size
    # Asked twice, see `_extents`.
    return min(min((extent.start for extent in _data(descriptor, size, position)), default=size) for _ in range(2))


@contextmanager
def opened_for_reading(path: Path) -> Iterator[int]:
    """Open a regular file for reading, and not through a symbolic link, a pipe or a device.

    Yields:
        Its descriptor.

    Raises:
        ForeignSegmentError: it cannot be opened, or is no regular file.
        EventLogError: something within the block fails to read it.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        message = f"{path} cannot be opened: {error.strerror}"
        raise ForeignSegmentError(message) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            message = f"{path} is not a regular file"
            raise ForeignSegmentError(message)
        yield descriptor
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        raise EventLogError(message) from error
    finally:
        os.close(descriptor)


def _extents(descriptor: int, begin: int, size: int) -> tuple[Extent, ...]:
    """Find the bytes to read from one byte up to another: all but long holes.

    The flight recorder punches holes where old chunks were. These can be far larger than the data. A page can be stored
    through a mapping into reserved space. The file system takes it for data in two states: while it is in memory, and
    once it was written back. Kernels ask for the one and then for the other. A page that is written back and leaves
    memory in between is neither. So a hole counts if it is found twice.
    """
    if size <= begin:
        return ()
    found = [Extent(begin, begin), Extent(size, size)]
    for _ in range(2):
        found.extend(_data(descriptor, size, begin))
    joined: list[Extent] = []
    for extent in sorted(found, key=lambda extent: extent.start):
        if joined and extent.start - joined[-1].end < _SHORTEST_HOLE_BYTES:
            joined[-1] = Extent(joined[-1].start, max(joined[-1].end, extent.end))
        else:
            joined.append(extent)
    return tuple(extent for extent in joined if extent.start < extent.end)


def _data(descriptor: int, size: int, position: int) -> Iterator[Extent]:
    """Yield the parts that the file system calls data, from a position on and in whole pages."""
    while position < size:
        try:
            start = os.lseek(descriptor, position, os.SEEK_DATA)
            end = os.lseek(descriptor, start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole up to the end of the file
                return
            start, end = position, size  # this file system does not tell
        # A hole can begin inside an entry of a damaged file: include that entry.
        start = max(start - start % SEGMENT_DATA_OFFSET, position)
        end = min(-(-end // SEGMENT_DATA_OFFSET) * SEGMENT_DATA_OFFSET, size)
        if end <= position:
            return
        yield Extent(start, end)
        position = end

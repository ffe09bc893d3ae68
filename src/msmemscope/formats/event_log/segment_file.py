"""One segment file: is it one, in which byte order, and where does it hold data.

Files are read with `pread` and never mapped: a file that is cut short while we
read it gives fewer bytes instead of a SIGBUS, and what was read does not stay
in our resident memory, however large the log is.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from msmemscope.errors import EventLogError
from msmemscope.formats.event_log.layout import SEGMENT_DATA_OFFSET, SEGMENT_HEADER, in_byte_order
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
    """Data after the segment's header, in file order."""


class ForeignSegmentError(EventLogError):
    """A file that is named like a segment and is none; a capture is read without it."""


def open_segment(path: Path, magic: int) -> SegmentFile | None:
    """Reads the header of a segment and finds its data.

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
        expected = magic.to_bytes(8, "big" if big_endian else "little")
        if big_endian is None or content[:8] != expected or len(content) < SEGMENT_HEADER.itemsize:
            name = magic.to_bytes(8, "little")
            message = f"{path} is not a segment of an event log: it begins with {content[:8]!r}, not {name!r}"
            raise ForeignSegmentError(message)
        header = np.frombuffer(content, dtype=in_byte_order(SEGMENT_HEADER, big_endian=big_endian))[0]
        version = int(header["format_version"])
        check_version(version, path)
        return SegmentFile(path, big_endian, version, int(header["segment_number"]), _extents(descriptor, size))


def read_bytes(segment: SegmentFile, start: int, size: int) -> bytes:
    """Returns up to `size` bytes of a segment from byte `start` of its file."""
    with opened_for_reading(segment.path) as descriptor:
        return read_from(descriptor, start, size)


def read_from(descriptor: int, start: int, size: int) -> bytes:
    """Returns up to `size` bytes of an opened file from byte `start`."""
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
    """Returns the size of a file, given by its path or by its descriptor.

    Raises:
        EventLogError: there is none at the path any more.
    """
    try:
        return os.stat(file).st_size  # noqa: PTH116 - also of a descriptor
    except OSError as error:
        message = f"{file} cannot be read: {error.strerror}"
        raise EventLogError(message) from error


def next_data(descriptor: int, position: int) -> int:
    """Returns where the first page with data begins at a position or behind it; the end of the file if none does.

    Args:
        descriptor: Of a segment.
        position: The begin of a page.
    """
    size = os.fstat(descriptor).st_size
    # Asked twice, see `_extents`.
    return min(min((extent.start for extent in _data(descriptor, size, position)), default=size) for _ in range(2))


@contextmanager
def opened_for_reading(path: Path) -> Iterator[int]:
    """Opens a regular file for reading, and not through a symbolic link, a pipe or a device.

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


def _extents(descriptor: int, size: int) -> tuple[Extent, ...]:
    """Finds what has to be read behind the header: all but long holes.

    The flight recorder punches holes where old chunks were, which can be far larger than the data. A page that was
    stored through a mapping into reserved space is data to the file system only while it is in memory or once it
    was written back. Kernels ask for the one and then for the other, so that a page which is written back and
    leaves memory in between is neither: a hole is one if it is found twice.
    """
    if size <= SEGMENT_DATA_OFFSET:
        return ()
    found = [Extent(SEGMENT_DATA_OFFSET, SEGMENT_DATA_OFFSET), Extent(size, size)]
    for _ in range(2):
        found.extend(_data(descriptor, size))
    joined: list[Extent] = []
    for extent in sorted(found, key=lambda extent: extent.start):
        if joined and extent.start - joined[-1].end < _SHORTEST_HOLE_BYTES:
            joined[-1] = Extent(joined[-1].start, max(joined[-1].end, extent.end))
        else:
            joined.append(extent)
    return tuple(extent for extent in joined if extent.start < extent.end)


def _data(descriptor: int, size: int, position: int = SEGMENT_DATA_OFFSET) -> Iterator[Extent]:
    """Yields what the file system calls data, from a position on and in whole pages."""
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

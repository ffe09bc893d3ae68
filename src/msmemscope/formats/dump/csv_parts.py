"""Where a CSV dump is cut into parts, so that it is read in constant memory: rows can take several lines, or have no end."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from msmemscope import _native
from msmemscope.formats.dump.broken_rows import MOST_LINES_OF_ROW
from msmemscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader

    from msmemscope.formats.problems import Problems

PIECE_BYTES: Final = 16 << 20
"""About as much text as is read at once."""
ROW_BEGIN: Final = re.compile(rb"\n(?=\d{1,20},[A-Z_]{1,64},)")
"""Where a row begins, in files whose first columns are ID and Event."""

_LINE_END: Final = re.compile(rb"\n")
_ROW_BEGIN_BYTES: Final = 256
"""More than is looked at to see where a row begins."""
_MOST_ROW_BYTES: Final = 16 << 20
"""Two stacks of a thousand frames each do not take a tenth of it."""
_READ_AT_ONCE_BYTES: Final = 1 << 20
_LONGEST_LINE: Final = 1 << 16


class RowsStart(NamedTuple):
    """The start of the rows, behind the header line."""

    begin: int
    """Where the rows begin, in bytes."""
    is_canonical: bool
    """Whether the columns are the usual ones, in their usual order, so that the begin of a row can be seen."""


def whole_rows(
    file: BufferedReader, start: RowsStart, buffers: list[bytearray], too_long: Problems
) -> Iterator[tuple[bytearray, int, int]]:
    """Yield parts of a file, where the last whole row of each ends, and the line number of the first row.

    Args:
        file: The file.
        start: Where the rows begin, and what they look like.
        buffers: Parts that nobody needs any more: memory that has been written to before is much cheaper than new one.
        too_long: Gets a line for each row that is too long for one.
    """
    line = 2
    # A byte more than there is shows the end of the file; a small file needs no large memory.
    usual = min(PIECE_BYTES, max(os.fstat(file.fileno()).st_size - start.begin, 0) + 1)
    begin, wanted = start.begin, usual
    while True:
        # The end of a row is read again with the rows behind it: cheaper than putting pieces together.
        file.seek(begin)
        content = buffers.pop() if buffers else bytearray(wanted)
        if len(content) != wanted:
            content = bytearray(wanted)
        length = file.readinto(content)
        if not length:
            return
        cut = _last_row_end(content, start) if length == wanted else length
        if cut == 0 and length < _MOST_ROW_BYTES:
            wanted += PIECE_BYTES
            continue
        if cut:
            yield content, cut, line
            line += _native.count_byte(content, 0, cut, b"\n")
            begin, wanted = begin + cut, usual
        else:
            too_long.add(f"line {line}: not a row of a dump: it has more than {format_bytes(_MOST_ROW_BYTES)}")
            begin, lines = _next_row(file, start, begin)
            line, wanted = line + lines, usual


def _next_row(file: BufferedReader, start: RowsStart, begin: int) -> tuple[int, int]:
    """Find what looks like the begin of a row behind another one.

    Returns:
        Where it is, or the end of the file; and how many lines are passed over.
    """
    lines = 0
    pattern = ROW_BEGIN if start.is_canonical else _LINE_END
    while True:
        file.seek(begin)
        content = file.read(PIECE_BYTES)
        found = pattern.search(content)
        is_end = len(content) < PIECE_BYTES
        # A piece of text that looks like a row can begin at the end of a part, and go on in the next one.
        passed = (
            found.end() if found is not None else len(content) if is_end else max(len(content) - _ROW_BEGIN_BYTES, 1)
        )
        lines += content.count(b"\n", 0, passed)
        begin += passed
        if found is not None or is_end:
            return begin, lines


def _last_row_end(content: bytearray, start: RowsStart) -> int:
    """Return where the last whole row ends; 0 if none does."""
    quotes = _native.count_byte(content, 0, len(content), b'"')
    cut = end = len(content)
    likely = 0
    for _ in range(MOST_LINES_OF_ROW):
        newline = content.rfind(b"\n", 0, cut)
        if newline < 0:
            break
        quotes -= _native.count_byte(content, newline, cut, b'"')
        cut = newline
        begins = cut + 1 < end and (not start.is_canonical or ROW_BEGIN.match(content, cut) is not None)
        if begins and quotes % 2 == 0:
            return cut + 1
        if begins and start.is_canonical and not likely:
            likely = cut + 1
    # A quote too many somewhere: what looks like a row is one.
    return likely


def small_parts(content: bytes) -> Iterator[bytes]:
    """Yield whole lines, and as far as quotes tell whole rows. Each line becomes an object: there can be millions."""
    begin = 0
    while begin < len(content):
        end = begin + _READ_AT_ONCE_BYTES
        if end < len(content):
            end = _end_of_part(content, begin, end)
        yield content[begin:end]
        begin = end


def _end_of_part(content: bytes, begin: int, end: int) -> int:
    quotes = content.count(b'"', begin, end)
    latest = place = content.rfind(b"\n", begin, end)
    last = end
    for _ in range(MOST_LINES_OF_ROW):
        if place < 0:
            break
        quotes -= content.count(b'"', place, last)
        if quotes % 2 == 0:
            return place + 1
        place, last = content.rfind(b"\n", begin, place), place
    newline = latest if latest >= 0 else content.find(b"\n", end)
    return newline + 1 if newline >= 0 else len(content)


def has_long_line(content: bytes) -> bool:
    """Whether a line is longer than any tool writes one; stacks take many lines."""
    place = 0
    while place + _LONGEST_LINE < len(content):
        newline = content.rfind(b"\n", place, place + _LONGEST_LINE)
        if newline < 0:
            return True
        place = newline + 1
    return False

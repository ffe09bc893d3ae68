"""Line numbers of bytecode offsets, from the line tables of CPython 3.10 and later.

The recorder copies a code object's table as it is and this module reads it, so that no line is computed inside the
observed process. Both formats describe a code object from its first bytecode on, entry after entry:

- 3.10 (PEP 626, `co_linetable`): pairs of an unsigned bytecode delta in bytes and a signed line delta. -128 means "no
  line".
- 3.11 and later (PEP 657, the location table): each entry has a first byte, then the operands of its code. The first
  byte is 1, four bits of code, and three bits of length in code units minus one. Further bytes have the top bit clear.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from msmemscope.formats.event_log.layout import LineTableFormat

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_LONGEST_TABLE: Final = 1 << 20
"""Bytes that are decoded: of longer ones, which no program has, the begin."""
_MOST_VARINT_BITS: Final = 36
"""Of a line delta; the recorder and CPython know lines of 32 bits."""
_NO_LINE: Final = -1 << 62
"""Stands for no line in decoded tables."""
_NO_LINE_310: Final = -128
_CODE_UNIT_BYTES: Final = 2

# Codes of the location table: 0..9 are short forms (no line change). Each of 10..12 is a one line form, for a delta of
# 0..2 lines. Then come the three below.
_FIRST_ONE_LINE_CODE: Final = 10
_LAST_ONE_LINE_CODE: Final = 12
_CODE_NO_COLUMNS: Final = 13
_CODE_LONG: Final = 14
_CODE_NO_LOCATION: Final = 15


def line_of_offset(table: bytes, table_format: int, first_line: int, offset: int) -> int | None:
    """Find the line of one bytecode instruction.

    Args:
        table: The table as the interpreter keeps it.
        table_format: A `LineTableFormat`; of any other value nothing is known.
        first_line: `co_firstlineno`.
        offset: The place of the instruction, in bytes from the start of the bytecode.

    Returns:
        The line, or None if the instruction has none, or if the table is
        damaged before it gets there.
    """
    ends, lines = _decoded(table[:_LONGEST_TABLE], table_format, first_line)
    place = bisect_right(ends, offset)
    line = lines[place] if place < len(lines) else _NO_LINE
    return None if line == _NO_LINE else line


# A table of a long function is asked for many of its instructions.
@lru_cache(maxsize=64)
def _decoded(table: bytes, table_format: int, first_line: int) -> tuple[array[int], array[int]]:
    """Returns, per entry of a table, where the bytecode that it is about ends, and the line."""
    entries: Iterable[tuple[int, int | None]] = ()
    if table_format == LineTableFormat.PYTHON311:
        entries = _entries_of_location_table(table, first_line)
    elif table_format == LineTableFormat.PYTHON310:
        entries = _entries_of_line_table_310(table, first_line)
    ends, lines = array("q"), array("q")
    for end, line in entries:
        ends.append(end)
        lines.append(_NO_LINE if line is None else line)
    return ends, lines


def _entries_of_line_table_310(table: bytes, first_line: int) -> Iterator[tuple[int, int | None]]:
    line = first_line
    end = 0
    for position in range(0, len(table) - 1, 2):
        line_delta = table[position + 1]
        if line_delta >= 128:  # noqa: PLR2004 - two's complement of one byte
            line_delta -= 256
        if line_delta != _NO_LINE_310:
            line += line_delta
        end += table[position]
        yield end, None if line_delta == _NO_LINE_310 else line


def _entries_of_location_table(table: bytes, first_line: int) -> Iterator[tuple[int, int | None]]:
    line = first_line
    end = 0
    position = 0
    size = len(table)
    while position < size:
        first = table[position]
        code = (first >> 3) & 15
        end += ((first & 7) + 1) * _CODE_UNIT_BYTES
        if _FIRST_ONE_LINE_CODE <= code <= _LAST_ONE_LINE_CODE:
            line += code - _FIRST_ONE_LINE_CODE
        elif code in (_CODE_NO_COLUMNS, _CODE_LONG):
            line += _signed_varint(table, position + 1)
        yield end, None if code == _CODE_NO_LOCATION else line
        position += 1
        # Only the first byte of an entry has the top bit set.
        while position < size and table[position] < 128:  # noqa: PLR2004
            position += 1


def _signed_varint(table: bytes, position: int) -> int:
    """Read six bits per byte, least significant first, 64 marking that more follow; bit 0 is the sign."""
    value = 0
    for shift in range(0, _MOST_VARINT_BITS, 6):
        if position == len(table):
            break
        byte = table[position]
        value |= (byte & 63) << shift
        if not byte & 64:
            break
        position += 1
    return -(value >> 1) if value & 1 else value >> 1

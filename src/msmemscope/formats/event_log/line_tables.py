"""Line numbers of bytecode offsets, from the line tables of CPython 3.10 and later.

The recorder copies a code object's table as it is and this module reads it, so that no line is computed inside the
observed process. Both formats describe a code object from its first bytecode on, entry after entry:

- 3.10 (PEP 626, `co_linetable`): pairs of an unsigned bytecode delta in bytes and a signed line delta. -128 means "no
  line".
- 3.11 and later (PEP 657, the location table): each entry has a first byte, then the operands of its code. The first
  byte is 1, four bits of code, and three bits of length in code units minus one. Further bytes have the top bit clear.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np

from msmemscope.formats.event_log.layout import LineTableFormat

_Int64s: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

_LONGEST_TABLE: Final = 1 << 20
"""Bytes that are decoded: of longer ones, which no program has, the begin."""
_VARINT_BYTES: Final = 6
"""The most of a line delta, six bits each; the recorder and CPython know lines of 32 bits."""
_NO_LINE: Final = -1 << 62
"""Stands for no line in decoded tables."""
_LONGEST_BYTECODE: Final = 1 << 62
"""Bytes; an offset beyond belongs to a damaged log, and has no line."""
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
    place = int(ends.searchsorted(min(offset, _LONGEST_BYTECODE), side="right"))
    line = int(lines[place]) if place < len(lines) else _NO_LINE
    return None if line == _NO_LINE else line


# Each function is asked for many of its instructions: when its lines are listed, and again for each of its stacks.
@lru_cache(maxsize=4096)
def _decoded(table: bytes, table_format: int, first_line: int) -> tuple[_Int64s, _Int64s]:
    """Returns, per entry of a table, where the bytecode that it is about ends, and the line."""
    content = np.frombuffer(table, np.uint8)
    if table_format == LineTableFormat.PYTHON311:
        return _decoded_location_table(content, first_line)
    if table_format == LineTableFormat.PYTHON310:
        return _decoded_line_table_310(content, first_line)
    return np.empty(0, np.int64), np.empty(0, np.int64)


def _decoded_line_table_310(content: np.ndarray[Any, np.dtype[np.uint8]], first_line: int) -> tuple[_Int64s, _Int64s]:
    pairs = content[: len(content) // 2 * 2].reshape(-1, 2)
    deltas = pairs[:, 1].view(np.int8).astype(np.int64)
    has_line = deltas != _NO_LINE_310
    lines = first_line + np.cumsum(deltas * has_line)
    return np.cumsum(pairs[:, 0], dtype=np.int64), np.where(has_line, lines, _NO_LINE)


def _decoded_location_table(content: np.ndarray[Any, np.dtype[np.uint8]], first_line: int) -> tuple[_Int64s, _Int64s]:
    # Only the first byte of an entry has the top bit set.
    begins = np.flatnonzero(content >= 128)  # noqa: PLR2004
    firsts = content[begins]
    codes = (firsts >> 3) & 15
    is_one_line = (codes >= _FIRST_ONE_LINE_CODE) & (codes <= _LAST_ONE_LINE_CODE)
    deltas = np.where(is_one_line, codes.astype(np.int64) - _FIRST_ONE_LINE_CODE, 0)
    is_long = (codes == _CODE_NO_COLUMNS) | (codes == _CODE_LONG)
    deltas[is_long] = _signed_varints(content, begins[is_long] + 1)
    lines = first_line + np.cumsum(deltas)
    ends = np.cumsum((firsts & 7).astype(np.int64) + 1) * _CODE_UNIT_BYTES
    return ends, np.where(codes == _CODE_NO_LOCATION, _NO_LINE, lines)


def _signed_varints(content: np.ndarray[Any, np.dtype[np.uint8]], positions: _Int64s) -> _Int64s:
    """Read six bits per byte, least significant first, 64 marking that more follow; bit 0 is the sign."""
    padded = np.append(content, np.zeros(_VARINT_BYTES, np.uint8))
    values = np.zeros(len(positions), np.int64)
    has_more = np.ones(len(positions), bool)
    for index in range(_VARINT_BYTES):
        read = padded[positions + index].astype(np.int64)
        values |= np.where(has_more, (read & 63) << (6 * index), 0)
        has_more &= (read & 64) != 0
        if not has_more.any():
            break
    return np.where(values & 1, -(values >> 1), values >> 1)

"""Line numbers of bytecode offsets, from the line tables of CPython 3.10 and later.

The formats are described beside the decoder, in `native/offline/line_tables/line_tables.h`.
"""

from __future__ import annotations

from typing import Final

from msmemscope import _native

_LONGEST_BYTECODE: Final = 1 << 62
"""Bytes; an offset beyond belongs to a damaged log, and has no line."""


def line_of_offset(table: bytes, table_format: int, first_line: int, offset: int) -> int | None:
    """Find the line of one bytecode instruction.

    Args:
        table: The table as the interpreter keeps it.
        table_format: A `layout.LineTableFormat`; of any other value nothing is known.
        first_line: `co_firstlineno`.
        offset: The place of the instruction, in bytes from the start of the bytecode.

    Returns:
        The line, or None if the instruction has none, or if the table is
        damaged before it gets there.
    """
    return _native.line_of_offset(table, table_format, first_line, min(offset, _LONGEST_BYTECODE))

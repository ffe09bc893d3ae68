"""Rows of CSV that did not parse together: each by itself, as it was meant if that can be told."""

from __future__ import annotations

import csv
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.formats.dump.columns import COLUMNS, INTEGERS
from msmemscope.formats.dump.row_reader import NULL_VALUES, excerpt, text_schema

if TYPE_CHECKING:
    from msmemscope.formats.problems import Problems

MOST_LINES_OF_ROW: Final = 5_000
"""Lines that a row with its stacks may take."""

_MOST_TEXT_OF_ROW: Final = 1 << 18
_MOST_TEXT_READ: Final = 1 << 20
"""Letters that are read in all to find the end of one row."""

_CANONICAL_ROW: Final = re.compile(
    r"(\d+),([^,\n]*),([^,\n]*),(.*?),(\d+),(\d+|N/A),(\d+|N/A),([^,\n]*),((?:0x)?[0-9a-fA-F]+|N/A),(.*)", re.DOTALL
)
"""A row of the usual columns whose name holds quotes or commas that were never escaped."""
_NAME_PLACE: Final = 3
_LINE_BEGINS_ROW: Final = re.compile(r"\d+,[A-Z_]+,")
_ENDS_ROW: Final = re.compile(r'[,"]\r?$')
"""The last of the usual columns is empty or in quotes."""
_INTEGER: Final = re.compile(r"\d{1,18}|[1-8]\d{18}")


class RowsOneByOne:
    """Reads rows of one file, slowly and with patience.

    Args:
        columns: The columns of the file in their order, as COLUMNS names them; None for others.
    """

    def __init__(self, columns: list[str | None]) -> None:
        self._columns = columns
        self.is_canonical = columns == [*COLUMNS]
        """Whether the columns are the usual ones, in their usual order."""
        self.schema = text_schema(columns)

    def read(self, text: str, line: int, problems: Problems) -> list[tuple[int, pl.DataFrame]]:
        """Return the rows of some lines.

        Args:
            text: The lines.
            line: Number of the first one.
            problems: Gets a line per broken row.

        Returns:
            Line number of the first row and rows, for each run of rows without a gap.
        """
        lines = text.split("\n")
        if lines[-1] == "":
            del lines[-1]
        numbers: list[int] = []
        rows: list[list[str]] = []
        index = 0
        while index < len(lines):
            row, count = self._row_at(lines, index)
            if row is not None:
                numbers.append(line + index)
                rows.append(row)
            elif lines[index].strip("\r"):
                # Everything up to where the next row begins belongs to the broken one.
                count = self._lines_to_next_row(lines, index)
                if problems.room:
                    problems.add(f"line {line + index}: not a row of a dump: {excerpt(lines[index])}")
                else:
                    problems.count(1)
            index += count
        if not rows:
            return []
        frame = self._frame(rows)
        # Line numbers are counted from the begin of a frame.
        behind = [number + _line_count(row) for number, row in zip(numbers, rows, strict=True)]
        starts = [0, *(i for i in range(1, len(rows)) if numbers[i] != behind[i - 1]), len(rows)]
        return [(numbers[begin], frame[begin:end]) for begin, end in pairwise(starts)]

    def _frame(self, rows: list[list[str]]) -> pl.DataFrame:
        texts = pl.DataFrame(rows, schema=dict.fromkeys(self.schema, pl.String()), orient="row")
        return texts.with_columns(
            pl.col(name).cast(pl.Int64, strict=False) if kind == pl.Int64 else pl.col(name).replace("", None)
            for name, kind in self.schema.items()
        )

    def _row_at(self, lines: list[str], index: int) -> tuple[list[str] | None, int]:
        """Return the fields of the row that begins with a line, None if there is no such row, and how many lines."""
        quotes = size = 0
        left_to_read = _MOST_TEXT_READ
        for count in range(1, MOST_LINES_OF_ROW):
            line = lines[index + count - 1]
            quotes += line.count('"')
            size += len(line) + 1
            if size > _MOST_TEXT_OF_ROW:
                return None, count
            following = index + count
            is_last = following >= len(lines) or self._begins_row(lines[following])
            if is_last or (quotes % 2 == 0 and (not self.is_canonical or _ENDS_ROW.search(line))):
                fields = self._fields("\n".join(lines[index:following]))
                left_to_read -= size
                # Quotes that were never escaped can be repaired in rows of the usual columns only.
                if fields is not None or is_last or not self.is_canonical or left_to_read < 0:
                    return fields, count
        return None, count

    def _lines_to_next_row(self, lines: list[str], index: int) -> int:
        count = 1
        while (
            self.is_canonical
            and index + count < len(lines)
            and count < MOST_LINES_OF_ROW
            and not self._begins_row(lines[index + count])
        ):
            count += 1
        return count

    def _begins_row(self, line: str) -> bool:
        return self.is_canonical and _LINE_BEGINS_ROW.match(line) is not None

    def _fields(self, record: str) -> list[str] | None:
        """Return the fields of one row; None if it is broken."""
        if record.count(",") < len(self._columns) - 1:
            return None
        record = record.removesuffix("\r")
        fields: list[str] | None = None
        try:
            fields = next(csv.reader([record], strict=True), None)
        except csv.Error:
            fields = None
        if fields is not None and self._is_row(fields):
            return fields
        return self._unescaped_fields(record) if self.is_canonical else None

    def _unescaped_fields(self, record: str) -> list[str] | None:
        match = _CANONICAL_ROW.fullmatch(record)
        if match is None:
            return None
        *fields, behind = match.groups()
        try:
            fields.extend(next(csv.reader([behind], strict=True), []))
        except csv.Error:
            return None
        name = fields[_NAME_PLACE]
        if len(name) > 1 and name.startswith('"') and name.endswith('"'):
            fields[_NAME_PLACE] = name[1:-1]
        return fields if self._is_row(fields) else None

    def _is_row(self, fields: list[str]) -> bool:
        if len(fields) != len(self._columns):
            return False
        return all(
            _INTEGER.fullmatch(field) is not None or field == NULL_VALUES.get(name)
            for name, field in zip(self._columns, fields, strict=True)
            if name in INTEGERS
        )


def _line_count(fields: list[str]) -> int:
    return 1 + sum(field.count("\n") for field in fields)

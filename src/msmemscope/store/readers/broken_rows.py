"""Rows of CSV that did not parse together: each by itself, as it was meant if that can be told."""

from __future__ import annotations

import csv
import re
from itertools import pairwise
from typing import Final

import polars as pl

from msmemscope.store.readers.dump_rows import COLUMNS, INTEGERS, NULL_VALUES, excerpt, text_schema

MOST_LINES_OF_ROW: Final = 5_000
"""Lines that a row with its stacks may take."""

_MOST_TEXT_OF_ROW: Final = 1 << 18

_CANONICAL_ROW: Final = re.compile(
    r"(\d+),([^,\n]*),([^,\n]*),(.*?),(\d+),(\d+|N/A),(\d+|N/A),([^,\n]*),((?:0x)?[0-9a-fA-F]+|N/A),(.*)", re.DOTALL
)
"""A row of the usual columns whose name holds quotes or commas that were never escaped."""
_NAME_PLACE: Final = 3
_LINE_BEGINS_ROW: Final = re.compile(r"\d+,[A-Z_]+,")
_INTEGER: Final = re.compile(r"\d{1,18}|[1-8]\d{18}")


class RowsOneByOne:
    """Reads rows of one file, slowly and with patience.

    Args:
        columns: The columns of the file in their order, as COLUMNS names them; None for others.
    """

    def __init__(self, columns: list[str | None]) -> None:
        """Prepare what is the same for all rows."""
        self._columns = columns
        self._is_canonical = columns == [*COLUMNS]
        self._schema = text_schema(columns)

    def read(self, text: str, line: int) -> tuple[list[tuple[int, pl.DataFrame]], list[str]]:
        """Returns the rows of some lines, and what was skipped.

        Args:
            text: The lines.
            line: Number of the first one.

        Returns:
            Line number of the first row and rows, for each run of rows without a gap; and one problem per broken row.
        """
        lines = text.split("\n")
        if lines[-1] == "":
            del lines[-1]
        numbers: list[int] = []
        rows: list[list[str]] = []
        problems: list[str] = []
        index = 0
        while index < len(lines):
            row, count = self._row_at(lines, index)
            if row is not None:
                numbers.append(line + index)
                rows.append(row)
            elif lines[index].strip("\r"):
                # Everything up to where the next row begins belongs to the broken one.
                count = self._lines_to_next_row(lines, index)
                problems.append(f"line {line + index}: not a row of a dump: {excerpt(lines[index])}")
            index += count
        if not rows:
            return [], problems
        frame = self._frame(rows)
        # Line numbers are counted from the begin of a frame.
        behind = [number + _line_count(row) for number, row in zip(numbers, rows, strict=True)]
        starts = [0, *(i for i in range(1, len(rows)) if numbers[i] != behind[i - 1]), len(rows)]
        return [(numbers[begin], frame[begin:end]) for begin, end in pairwise(starts)], problems

    def _frame(self, rows: list[list[str]]) -> pl.DataFrame:
        texts = pl.DataFrame(rows, schema=dict.fromkeys(self._schema, pl.String()), orient="row")
        return texts.with_columns(
            pl.col(name).cast(pl.Int64, strict=False) if kind == pl.Int64 else pl.col(name).replace("", None)
            for name, kind in self._schema.items()
        )

    def _row_at(self, lines: list[str], index: int) -> tuple[list[str] | None, int]:
        """Returns the fields of the row that begins with a line, None if there is no such row, and how many lines."""
        record = lines[index]
        for count in range(1, MOST_LINES_OF_ROW):
            if record.count('"') % 2 == 0:
                fields = self._fields(record)
                if fields is not None:
                    return fields, count
            following = index + count
            if following >= len(lines) or len(record) > _MOST_TEXT_OF_ROW or self._begins_row(lines[following]):
                break
            record = f"{record}\n{lines[following]}"
        return self._fields(record), max(count, 1)

    def _lines_to_next_row(self, lines: list[str], index: int) -> int:
        count = 1
        while (
            self._is_canonical
            and index + count < len(lines)
            and count < MOST_LINES_OF_ROW
            and not self._begins_row(lines[index + count])
        ):
            count += 1
        return count

    def _begins_row(self, line: str) -> bool:
        return self._is_canonical and _LINE_BEGINS_ROW.match(line) is not None

    def _fields(self, record: str) -> list[str] | None:
        """Returns the fields of one row; None if it is broken."""
        record = record.removesuffix("\r")
        fields: list[str] | None = None
        try:
            fields = next(csv.reader([record], strict=True), None)
        except csv.Error:
            fields = None
        if fields is not None and self._is_row(fields):
            return fields
        return self._unescaped_fields(record) if self._is_canonical else None

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

"""CSV dumps of any tool and age, in constant memory: pieces of whole rows, two at a time.

A stack takes several lines inside its quotes, so a piece may only end where a row ends. Older tools do not double the
quotes inside a name and do not quote names with commas. Such a piece is halved until the rows concerned are alone. They
are then read one by one. Each row that cannot be understood is reported with its line number.
"""

from __future__ import annotations

import csv
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import polars as pl

from msmemscope.errors import InputError
from msmemscope.formats.dump.broken_rows import RowsOneByOne
from msmemscope.formats.dump.columns import COLUMNS, missing_columns
from msmemscope.formats.dump.csv_parts import ROW_BEGIN, RowsStart, has_long_line, small_parts, whole_rows
from msmemscope.formats.dump.row_reader import (
    NULL_VALUES,
    DumpPiece,
    parse_piece,
    text_columns,
)
from msmemscope.formats.dump.usual_rows import usual_rows
from msmemscope.formats.problems import Problems
from msmemscope.model.cell_texts import text_of_cell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader
    from pathlib import Path

_WORKERS: Final = 2
_READ_ONE_BY_ONE_BYTES: Final = 1 << 15
_MOST_HEADER_BYTES: Final = 1 << 16

_CELLS: Final = ("name", "python_stack", "native_stack")
"""Texts of the observed program; those of Attr stand behind a brace."""
_SWALLOWED_ROW: Final = r"\n\d+,[A-Z_]+,[A-Za-z_ ]+,"


class Header(NamedTuple):
    """The first line of a dump."""

    columns: list[str | None]
    """The columns of the file in their order, as COLUMNS names them; None for others."""
    size_bytes: int
    """Where the rows begin."""


def read_header(start: bytes) -> Header | None:
    """Return the header line of a dump; None if the text begins with none.

    Args:
        start: The first bytes of a file.
    """
    line, newline, _ = start[:_MOST_HEADER_BYTES].partition(b"\n")
    if not newline and len(start) > _MOST_HEADER_BYTES:
        return None
    text = line.decode("utf-8-sig", errors="replace").rstrip("\r")
    try:
        fields = next(csv.reader([text]), [])
    except csv.Error:
        return None
    columns = text_columns(fields)
    if "Event" not in columns or "Event Type" not in columns:
        return None
    return Header(columns, len(line) + len(newline))


def csv_pieces(path: Path) -> Iterator[DumpPiece]:
    """Yield the rows of a CSV dump, in the order of the file.

    Args:
        path: The file.

    Raises:
        InputError: it cannot be read, or has no header or lacks columns of a dump.
    """
    try:
        with path.open("rb") as file:
            yield from _pieces(file, path)
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        raise InputError(message) from error


def _pieces(file: BufferedReader, path: Path) -> Iterator[DumpPiece]:
    header = read_header(file.read(_MOST_HEADER_BYTES))
    if header is None:
        message = f"{path} is not a dump: its first line is no header"
        raise InputError(message, hint=f"expected columns: {','.join(COLUMNS)}")
    missing = missing_columns(header.columns)
    if missing:
        message = f"{path} lacks columns of a dump: {', '.join(missing)}"
        raise InputError(message, hint=f"expected columns: {','.join(COLUMNS)}")
    reader = _PieceReader(header.columns)
    start = RowsStart(header.size_bytes, reader.is_canonical)
    with ThreadPoolExecutor(max_workers=_WORKERS) as workers:
        waiting: deque[tuple[Future[DumpPiece], bytearray]] = deque()
        buffers: list[bytearray] = []
        too_long = Problems()
        try:
            for content, end, line in whole_rows(file, start, buffers, too_long):
                waiting.append((workers.submit(reader.read, content, end, line), content))
                if len(waiting) > _WORKERS:
                    future, content_read = waiting.popleft()
                    yield future.result()
                    buffers.append(content_read)
            while waiting:
                yield waiting.popleft()[0].result()
            yield DumpPiece(pl.DataFrame(), {}, too_long, {})
        finally:
            for future, _ in waiting:
                future.cancel()


class _PieceReader:
    """Reads pieces of one file.

    Args:
        columns: The columns of the file in their order, as COLUMNS names them; None for others.
    """

    def __init__(self, columns: list[str | None]) -> None:
        self._one_by_one = RowsOneByOne(columns)
        self.is_canonical = self._one_by_one.is_canonical

    def read(self, content: bytearray, end: int, line: int) -> DumpPiece:
        """Return what whole lines say; rows may take several.

        Args:
            content: The lines, up to `end`.
            end: Number of bytes.
            line: Number of the first line.
        """
        if self.is_canonical:
            piece = usual_rows(content, end)
            if piece is not None:
                return _with_texts_of_cells(piece)
        frames: list[tuple[int, pl.DataFrame]] = []
        problems = Problems()
        self._read(bytes(memoryview(content)[:end]), line, frames, problems)
        return _with_texts_of_cells(parse_piece(frames, problems, place="line"))

    def _read(self, content: bytes, line: int, frames: list[tuple[int, pl.DataFrame]], problems: Problems) -> None:
        frame = self._parsed(content)
        if frame is not None:
            frames.append((line, frame))
            return
        if len(content) > _READ_ONE_BY_ONE_BYTES and self.is_canonical:
            middle = ROW_BEGIN.search(content, len(content) // 2)
            if middle is not None:
                cut = middle.end()
                self._read(content[:cut], line, frames, problems)
                self._read(content[cut:], line + content.count(b"\n", 0, cut), frames, problems)
                return
        for part in small_parts(content):
            frames.extend(self._one_by_one.read(part.decode("utf-8", errors="replace"), line, problems))
            line += part.count(b"\n")

    def _parsed(self, content: bytes) -> pl.DataFrame | None:
        """Return the rows of a piece; None if any of them is broken."""
        if not content.endswith(b"\n"):
            return None  # cut off within a row, for all that can be seen
        if has_long_line(content):
            return None  # Polars takes half a kilobyte for each comma of a line, however many columns there should be
        try:
            frame = pl.read_csv(
                content, has_header=False, schema=self._one_by_one.schema, null_values=NULL_VALUES, encoding="utf8-lossy",
                truncate_ragged_lines=False,
            )  # fmt: skip
        except (pl.exceptions.PolarsError, UnicodeDecodeError):
            return None
        return None if _hides_rows(frame, content) else frame


def _with_texts_of_cells(piece: DumpPiece) -> DumpPiece:
    """Take away the mark that was put in front of texts for spreadsheets (see `cell_texts`)."""
    texts = {name: list(map(text_of_cell, cells)) if name in _CELLS else cells for name, cells in piece.texts.items()}
    return replace(piece, texts=texts)


def _hides_rows(frame: pl.DataFrame, content: bytes) -> bool:
    """Tell whether rows were taken for a part of a field, or fields are missing."""
    if frame.select(pl.any_horizontal(pl.col("ID", "Event", "Event Type", "Timestamp(ns)").is_null().any())).item():
        return True
    if len(frame) == content.count(b"\n"):
        return False
    texts = [name for name, kind in frame.schema.items() if kind == pl.String]
    return any(
        frame[name].drop_nulls().unique().str.contains(_SWALLOWED_ROW).any()
        for name in texts
        if frame[name].str.contains("\n", literal=True).any()
    )

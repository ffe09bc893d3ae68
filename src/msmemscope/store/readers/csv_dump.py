"""CSV dumps of any tool and age, in constant memory: pieces of whole rows, two at a time.

A stack takes several lines inside its quotes, so a piece may only end where a row ends. Older tools do not double the
quotes inside a name and do not quote names with commas. Such a piece is halved until the rows concerned are alone; they
are read one by one, and those that nothing can be made of are reported with their line numbers.
"""

from __future__ import annotations

import csv
import re
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, NamedTuple

import polars as pl

from msmemscope import _native
from msmemscope.errors import InputError
from msmemscope.store.readers.broken_rows import MOST_LINES_OF_ROW, RowsOneByOne
from msmemscope.store.readers.dump_rows import (
    COLUMNS,
    NULL_VALUES,
    DumpPiece,
    parse_piece,
    text_columns,
    text_schema,
)
from msmemscope.store.readers.usual_rows import usual_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader
    from pathlib import Path

PIECE_BYTES: Final = 16 << 20
"""About as much text as is read at once."""

_WORKERS: Final = 2
_READ_ONE_BY_ONE_BYTES: Final = 1 << 15
_MOST_HEADER_BYTES: Final = 1 << 16
_MOST_ROW_BYTES: Final = 64 << 20

_ROW_BEGIN: Final = re.compile(rb"\n(?=\d+,[A-Z_]+,)")
"""Where a row begins, in files whose first columns are ID and Event."""
_SWALLOWED_ROW: Final = r"\n\d+,[A-Z_]+,[A-Za-z_ ]+,"


class Header(NamedTuple):
    """The first line of a dump."""

    columns: list[str | None]
    """The columns of the file in their order, as COLUMNS names them; None for others."""
    size_bytes: int
    """Where the rows begin."""

    @property
    def is_canonical(self) -> bool:
        """Whether the columns are those of COLUMNS, in that order."""
        return self.columns == [*COLUMNS]


def read_header(start: bytes) -> Header | None:
    """Returns the header line of a dump; None if the text begins with none.

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
    """Yields the rows of a CSV dump, in the order of the file.

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
    start = file.read(_MOST_HEADER_BYTES)
    header = read_header(start)
    if header is None:
        message = f"{path} is not a dump: its first line is no header"
        raise InputError(message, hint=f"expected columns: {','.join(COLUMNS)}")
    missing = [name for name, is_needed in COLUMNS.items() if is_needed and name not in header.columns]
    if missing:
        message = f"{path} lacks columns of a dump: {', '.join(missing)}"
        raise InputError(message, hint=f"expected columns: {','.join(COLUMNS)}")
    file.seek(header.size_bytes)
    reader = _PieceReader(header.columns)
    with ThreadPoolExecutor(max_workers=_WORKERS) as workers:
        waiting: deque[tuple[Future[DumpPiece], bytearray]] = deque()
        buffers: list[bytearray] = []
        try:
            for content, end, line in _whole_rows(file, header, buffers):
                waiting.append((workers.submit(reader.read, content, end, line), content))
                if len(waiting) > _WORKERS:
                    future, content_read = waiting.popleft()
                    yield future.result()
                    buffers.append(content_read)
            while waiting:
                yield waiting.popleft()[0].result()
        finally:
            for future, _ in waiting:
                future.cancel()


def _whole_rows(file: BufferedReader, header: Header, buffers: list[bytearray]) -> Iterator[tuple[bytearray, int, int]]:
    """Yields parts of a file, where the last whole row of each ends, and the line number of the first row.

    Args:
        file: The file.
        header: What it begins with.
        buffers: Parts that nobody needs any more: memory that has been written to before is much cheaper than new one.
    """
    line = 2
    begin, wanted = header.size_bytes, PIECE_BYTES
    while True:
        # The end of a row is read again with the rows behind it: cheaper than putting pieces together.
        file.seek(begin)
        content = buffers.pop() if buffers else bytearray(wanted)
        if len(content) != wanted:
            content = bytearray(wanted)
        length = file.readinto(content)
        if not length:
            return
        cut = _last_row_end(content, header) if length == wanted else length
        if cut == 0 and length < _MOST_ROW_BYTES:
            wanted += PIECE_BYTES
            continue
        cut = cut or length  # a row of this size is no row: reported as broken
        begin, wanted = begin + cut, PIECE_BYTES
        yield content, cut, line
        line += _native.count_byte(content, 0, cut, b"\n")


def _last_row_end(content: bytearray, header: Header) -> int:
    """Returns where the last whole row ends; 0 if none does."""
    quotes = _native.count_byte(content, 0, len(content), b'"')
    cut = end = len(content)
    likely = 0
    for _ in range(MOST_LINES_OF_ROW):
        newline = content.rfind(b"\n", 0, cut)
        if newline < 0:
            break
        quotes -= _native.count_byte(content, newline, cut, b'"')
        cut = newline
        begins = cut + 1 < end and (not header.is_canonical or _ROW_BEGIN.match(content, cut) is not None)
        if begins and quotes % 2 == 0:
            return cut + 1
        if begins and header.is_canonical and not likely:
            likely = cut + 1
    # A quote too many somewhere: what looks like a row is one.
    return likely


class _PieceReader:
    """Reads pieces of one file.

    Args:
        columns: The columns of the file in their order, as COLUMNS names them; None for others.
    """

    def __init__(self, columns: list[str | None]) -> None:
        """Prepare what is the same for all pieces."""
        self._columns = columns
        self._is_canonical = columns == [*COLUMNS]
        self._schema = text_schema(columns)
        self._one_by_one = RowsOneByOne(columns)

    def read(self, content: bytearray, end: int, line: int) -> DumpPiece:
        """Returns what whole lines say; rows may take several.

        Args:
            content: The lines, up to `end`.
            end: Number of bytes.
            line: Number of the first line.
        """
        if self._is_canonical:
            piece = usual_rows(content, end)
            if piece is not None:
                return piece
        frames: list[tuple[int, pl.DataFrame]] = []
        problems: list[str] = []
        self._read(bytes(memoryview(content)[:end]), line, frames, problems)
        return parse_piece(frames, problems, place="line")

    def _read(self, content: bytes, line: int, frames: list[tuple[int, pl.DataFrame]], problems: list[str]) -> None:
        frame = self._parsed(content)
        if frame is not None:
            frames.append((line, frame))
            return
        if len(content) > _READ_ONE_BY_ONE_BYTES and self._is_canonical:
            middle = _ROW_BEGIN.search(content, len(content) // 2)
            if middle is not None:
                cut = middle.end()
                self._read(content[:cut], line, frames, problems)
                self._read(content[cut:], line + content.count(b"\n", 0, cut), frames, problems)
                return
        found, broken = self._one_by_one.read(content.decode("utf-8", errors="replace"), line)
        frames.extend(found)
        problems.extend(broken)

    def _parsed(self, content: bytes) -> pl.DataFrame | None:
        """Returns the rows of a piece; None if any of them is broken."""
        if not content.endswith(b"\n"):
            return None  # cut off within a row, for all that can be seen
        try:
            frame = pl.read_csv(
                content, has_header=False, schema=self._schema, null_values=NULL_VALUES, encoding="utf8-lossy",
                truncate_ragged_lines=False,
            )  # fmt: skip
        except (pl.exceptions.PolarsError, UnicodeDecodeError):
            return None
        return None if _hides_rows(frame, content) else frame


def _hides_rows(frame: pl.DataFrame, content: bytes) -> bool:
    """Tells whether rows were taken for a part of a field, or fields are missing."""
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

"""Files of whole answers: made and sent in pieces, so that neither a table nor a file is ever held as a whole."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl
from polars.io.plugins import register_io_source

from msmemscope.errors import MsmemscopeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PIECE_ROWS: Final = 1 << 17
"""Of a piece of a table."""
_PIECE_BYTES: Final = 1 << 20
_OF_THE_MACHINE: Final = " (os error "
"""Polars puts this behind its words about a file that cannot be written, whatever the class of its error."""


@dataclasses.dataclass(frozen=True)
class Download:
    """A file that is sent."""

    name: str
    content: Iterator[bytes]
    byte_count: int | None = None
    """None if nobody knows before the end."""


@dataclasses.dataclass(frozen=True)
class Rows:
    """A table that can be made in parts.

    Args:
        count: Its rows.
        part: Makes the rows from one number to another.
    """

    count: int
    part: Callable[[int, int], pl.DataFrame]

    @classmethod
    def of(cls, table: pl.DataFrame) -> Rows:
        """The rows of a table that is there."""
        return cls(table.height, lambda begin, end: table[begin:end])

    def pieces(self) -> Iterator[pl.DataFrame]:
        """Make all of them, piece by piece; one without rows if there are none."""
        for begin in range(0, max(self.count, 1), PIECE_ROWS):
            yield self.part(begin, min(begin + PIECE_ROWS, self.count))


def download(name: str, file_format: str, rows: Rows) -> Download:
    """Return a table as a file.

    Args:
        name: Of the file, without the ending.
        file_format: One of FILE_FORMATS.
        rows: The table.
    """
    return FILE_FORMATS[file_format](f"{name}.{file_format}", rows)


def _csv(name: str, rows: Rows) -> Download:
    def content() -> Iterator[bytes]:
        for number, piece in enumerate(rows.pieces()):
            yield piece.write_csv(include_header=number == 0).encode()

    return Download(name, content())


def _parquet(name: str, rows: Rows) -> Download:
    """A row group for each piece.

    The writer cannot wait for whoever reads: it would hold threads that other answers need. So the file is made first.

    Raises:
        MsmemscopeError: It has no room.
    """

    def pieces(*_: object) -> Iterator[pl.DataFrame]:
        return rows.pieces()  # of a table that is saved whole, neither rows nor columns are chosen

    with tempfile.TemporaryDirectory(prefix="msmemscope_view_") as folder:
        path = Path(folder) / name
        try:
            register_io_source(pieces, schema=rows.part(0, 0).schema).sink_parquet(path, row_group_size=PIECE_ROWS)
        except (OSError, pl.exceptions.PolarsError) as error:
            if _OF_THE_MACHINE not in str(error):
                raise
            reason = str(error).partition(_OF_THE_MACHINE)[0].rpartition(": ")[2]
            message = f"the file cannot be made in {Path(folder).parent}: {reason}"
            raise MsmemscopeError(message, hint="make room there, or set TMPDIR to another folder") from error
        file = path.open("rb")

    def content() -> Iterator[bytes]:
        with file:
            while piece := file.read(_PIECE_BYTES):
                yield piece

    byte_count = file.seek(0, 2)
    file.seek(0)
    return Download(name, content(), byte_count)


FILE_FORMATS: Final = {"parquet": _parquet, "csv": _csv}

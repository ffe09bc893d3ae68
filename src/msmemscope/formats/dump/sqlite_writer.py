"""DB dumps: SQLite files that MindStudio Insight opens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msmemscope import _native
from msmemscope.formats.dump.columns import database_types
from msmemscope.formats.dump.csv_writer import CONTENT_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import polars as pl

    from msmemscope.formats.dump.cells import TableRows
    from msmemscope.formats.dump.output_files import OutputFile


class SqliteFile:
    """Tables that grow in a SQLite file, which is none before it is finished.

    Args:
        file: Where it is written.
    """

    def __init__(self, file: OutputFile) -> None:
        self._file = file
        self._writer = _native.DatabaseWriter()

    def add_table(self, name: str, columns: pl.Schema) -> SqliteTable:
        """Begin a table."""
        definitions = ", ".join(f'"{column}" {kind}' for column, kind in database_types(columns).items())
        number = self._writer.add_table(name, f'CREATE TABLE "{name}" ({definitions})')
        return SqliteTable(self._file, self._writer, number)

    def finish(self) -> Path:
        """Return the finished file."""
        content: Any
        content, first_page = self._writer.finish()
        self._file.write(memoryview(content))
        self._file.overwrite_begin(first_page)
        return self._file.finish()

    def discard(self) -> None:
        """Remove the file that was written."""
        self._file.discard()


class SqliteTable:
    """One table of a file."""

    def __init__(self, file: OutputFile, writer: _native.DatabaseWriter, number: int) -> None:
        self._file = file
        self._writer = writer
        self._number = number

    def rendered(self, rows: TableRows) -> Iterator[Any]:
        """Yield the bytes of rows, piece by piece, for `append`; texts that are none are empty ones."""
        begin = 0
        while begin < rows.height:
            content, begin = self._writer.put_rows(self._number, *rows.described(), begin, CONTENT_BYTES)
            yield content

    def append(self, content: Any) -> None:
        """Write bytes behind those that are there, of whichever table."""
        self._file.write(memoryview(content))

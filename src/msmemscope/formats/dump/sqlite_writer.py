"""DB dumps: SQLite files that MindStudio Insight opens."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.formats.dump.columns import COLUMNS, PYTHON_TRACE_COLUMNS, database_types
from msmemscope.formats.dump.database_files import connect_to
from msmemscope.formats.dump.naming import DUMP_TABLE

if TYPE_CHECKING:
    from pathlib import Path

    from msmemscope.formats.dump.output_files import OutputFile

# The file has no reader before it is finished, and is thrown away if anything
# goes wrong: no journal, no waiting for the disk.
_PRAGMAS: Final = ("journal_mode=OFF", "synchronous=OFF", "locking_mode=EXCLUSIVE", "temp_store=MEMORY")


class SqliteDump:
    """The dump of one device as a SQLite file, with the Python trace beside it.

    Args:
        file: Where it is written.

    Raises:
        DumpError: SQLite cannot use the file.
    """

    def __init__(self, file: OutputFile) -> None:
        """Open the database and create the table of the dump."""
        self._file = file
        try:
            self._connection = connect_to(file.partial_path, file.identity)
        except sqlite3.Error as error:
            file.discard()
            raise file.failure(error) from error
        try:
            for pragma in _PRAGMAS:
                self._connection.execute(f"PRAGMA {pragma}")
            self._connection.execute("BEGIN")
            self._insert_dump = self._create_table(DUMP_TABLE, COLUMNS)
        except sqlite3.Error as error:
            self.discard()
            raise file.failure(error) from error
        self._insert_trace = ""

    def write(self, rows: pl.DataFrame) -> None:
        """Appends rows of a dump (COLUMNS)."""
        self._insert(self._insert_dump, rows)

    def write_python_trace(self, table: str, rows: pl.DataFrame) -> None:
        """Appends rows of a Python trace; its table is created with the first ones.

        An empty trace table would keep Insight from opening the file.
        """
        if not self._insert_trace:
            try:
                self._insert_trace = self._create_table(table, PYTHON_TRACE_COLUMNS)
            except sqlite3.Error as error:
                raise self._file.failure(error) from error
        self._insert(self._insert_trace, rows)

    def finish(self) -> Path:
        """Returns the finished file."""
        try:
            self._connection.execute("COMMIT")
            self._connection.close()
        except sqlite3.Error as error:
            raise self._file.failure(error) from error
        return self._file.finish()

    def discard(self) -> None:
        """Removes what was written."""
        self._connection.close()
        self._file.discard()

    def _create_table(self, name: str, columns: pl.Schema) -> str:
        """Creates a table and returns the statement that inserts one row."""
        definitions = ", ".join(f'"{column}" {kind}' for column, kind in database_types(columns).items())
        self._connection.execute(f'CREATE TABLE "{name}" ({definitions})')
        return f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(columns))})'  # noqa: S608 - names of our own

    def _insert(self, statement: str, rows: pl.DataFrame) -> None:
        # SQLite has no unsigned 64-bit integers; only damaged logs need the last bit.
        unsigned = [name for name, kind in rows.schema.items() if kind == pl.UInt64]
        rows = rows.with_columns(pl.col(unsigned).cast(pl.Int64, strict=False), pl.col(pl.String).fill_null(""))
        try:
            self._connection.executemany(statement, rows.iter_rows())
        except sqlite3.Error as error:
            raise self._file.failure(error) from error

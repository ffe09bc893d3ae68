"""DB dumps: the tables `memscope_dump` and `leaks_dump`, by names of columns.

Native code reads a usual table out of the pages of the file. For any other table, SQLite writes each row as one text
with separators that no dump has. That text is taken apart as whole columns: rows never become Python objects one field
at a time. The database is opened for reading only. If a journal lies beside it, a copy is opened, because SQLite would
write beside the original to read it.
"""

from __future__ import annotations

import itertools
import os
import shutil
import sqlite3
import sys
import tempfile
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import polars as pl

from msmemscope.errors import InputError
from msmemscope.formats.dump.columns import COLUMNS, missing_columns
from msmemscope.formats.dump.naming import DUMP_TABLES
from msmemscope.formats.dump.row_reader import (
    NULL_VALUES,
    DumpPiece,
    excerpt,
    parse_piece,
    text_columns,
    text_schema,
)
from msmemscope.formats.dump.usual_rows import DatabaseLeaves
from msmemscope.formats.problems import Problems

if TYPE_CHECKING:
    from collections.abc import Iterator

_WORKERS: Final = 2
_PIECE_ROWS: Final = 32_768
_PIECE_BYTES: Final = 16 << 20
"""About as much text as is taken apart at once; rows of usual length are fewer bytes than that."""
_FETCHED_ROWS: Final = 1_024
_LONGEST_ROW: Final = 64 << 20
_STEPS: Final = 10_000_000
_STEPS_PER_BYTE: Final = 100
"""Steps of SQLite's machine that reading may take, for each byte of the file: about a hundred times what a dump takes. Pages of
a damaged file can lead to each other again and again."""
_STEPS_BETWEEN_CHECKS: Final = 1_000_000
_HIDDEN: Final = 6
"""Field of `PRAGMA table_xinfo`: not 0 for a generated column."""
_MARKS_LOOKED_AT: Final = 1_000
_SEPARATOR: Final = "\x1f"
_ROW_END: Final = "\x1e"


def database_pieces(path: Path) -> Iterator[DumpPiece]:
    """Yield the rows of a DB dump, in the order of the table.

    Args:
        path: The file.

    Raises:
        InputError: it cannot be read, or holds no table of a dump.
    """
    try:
        with _opened(path) as (connection, descriptor):
            yield from _pieces(connection, descriptor, path)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        # Errors of SQLite quote what is damaged, which need not be text.
        reason = "its schema is damaged" if isinstance(error, UnicodeDecodeError) else error
        message = f"{path} cannot be read as a database: {reason}"
        raise InputError(message, hint="is it cut off, or no dump?") from error
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        raise InputError(message) from error


@contextmanager
def _opened(path: Path) -> Iterator[tuple[sqlite3.Connection, int | None]]:
    """Open a database so that neither it nor its folder changes.

    Yields:
        The database, and its file; None where a journal has to be read with it.
    """
    journals = [path.with_name(path.name + suffix) for suffix in ("-wal", "-journal")]
    journals = [journal for journal in journals if journal.is_file() and journal.stat().st_size > 0]
    with ExitStack() as resources:
        if journals:
            folder = Path(resources.enter_context(tempfile.TemporaryDirectory(prefix="msmemscope_")))
            for file in (path, *journals):
                shutil.copyfile(file, folder / file.name)
            path = folder / path.name
        options = "mode=rw" if journals else "mode=ro&immutable=1"
        address = f"file:{quote(os.fsencode(path.absolute()))}?{options}"
        connection = resources.enter_context(closing(sqlite3.connect(address, uri=True)))
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.text_factory = bytes
        if sys.version_info >= (3, 11):
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_ROW)
        checks_left = itertools.count((_STEPS + _STEPS_PER_BYTE * path.stat().st_size) // _STEPS_BETWEEN_CHECKS, -1)
        connection.set_progress_handler(lambda: next(checks_left) <= 0, _STEPS_BETWEEN_CHECKS)
        yield connection, None if journals else resources.enter_context(path.open("rb")).fileno()


def _pieces(connection: sqlite3.Connection, descriptor: int | None, path: Path) -> Iterator[DumpPiece]:
    table = _table(connection, path)
    information = connection.execute(f'PRAGMA table_xinfo("{table}")').fetchall()
    names = [bytes(row[1]).decode("utf-8", errors="replace") for row in information]
    if any(row[_HIDDEN] for row in information):
        message = f"{path}: the table {table} has generated columns; a dump has none"
        raise InputError(message)
    columns = text_columns(names)
    missing = missing_columns(columns)
    if missing:
        message = f"{path}: the table {table} lacks columns of a dump: {', '.join(missing)}"
        raise InputError(message, hint=f"expected columns: {', '.join(COLUMNS)}")
    found = {column: name for column, name in zip(columns, names, strict=True) if column is not None}
    quoted = _has_quoted_names(connection, table, found)
    event = _identifier(found["Event"]) if quoted else ""
    fields = [_field(column, _identifier(name), event) for column, name in found.items()]
    form = _SEPARATOR.join(["%s"] * len(fields))
    statement = f"SELECT printf('{form}', {', '.join(fields)}) FROM \"{table}\""  # noqa: S608 - columns, quoted
    reader = _TableReader(connection, statement, list(found))
    leaves = None
    if descriptor is not None and columns == [*COLUMNS] and not quoted:
        (root_page,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)
        ).fetchone()
        leaves = DatabaseLeaves.of_table(descriptor, root_page)
    if leaves is None:
        yield from reader.pieces()
    else:
        yield from _usual_pieces(leaves, reader)
    if reader.damage:
        yield DumpPiece(pl.DataFrame(), {}, Problems(*reader.damage), {})


def _usual_pieces(leaves: DatabaseLeaves, reader: _TableReader) -> Iterator[DumpPiece]:
    """Yield the rows of a table out of its pages, and those of parts that are not as usual as SQLite hands them out."""
    waiting: deque[tuple[slice, Future[tuple[DumpPiece, int] | None]]] = deque()
    parts = iter(leaves.parts(_PIECE_BYTES))
    with ThreadPoolExecutor(max_workers=_WORKERS) as workers:
        try:
            while not reader.damage:
                waiting.extend(
                    (part, workers.submit(leaves.read, part)) for part in islice(parts, _WORKERS - len(waiting))
                )
                if not waiting:
                    return
                part, future = waiting.popleft()
                read = future.result()
                if read is None:
                    yield from reader.pieces(leaves.row_range(part))
                else:
                    piece, count = read
                    reader.number += count
                    yield piece
        finally:
            for _, future in waiting:
                future.cancel()


class _TableReader:
    """Reads rows as SQLite hands them out, slowly and with patience.

    Args:
        connection: The database.
        statement: Selects the fields of each row, with separators between them.
        columns: The columns of the fields.
    """

    def __init__(self, connection: sqlite3.Connection, statement: str, columns: list[str]) -> None:
        self._connection = connection
        self._statement = statement
        self._columns = columns
        self.number = 1
        """Of the row that is read next, from 1."""
        self.damage: list[str] = []
        """One line if the database is damaged behind some rows."""

    def pieces(self, row_range: tuple[int, int] | None = None) -> Iterator[DumpPiece]:
        """Yield rows.

        Args:
            row_range: Only rows whose rowids are between two, both included; None for all.
        """
        where = "" if row_range is None else " WHERE rowid BETWEEN ? AND ?"
        waiting: Future[DumpPiece] | None = None
        # While SQLite fetches rows here, another thread takes the ones before apart.
        with ThreadPoolExecutor(max_workers=1) as worker:
            cursor = self._connection.execute(self._statement + where, row_range or ())
            while rows := self._fetched(cursor):
                ahead = worker.submit(_piece, rows, self.number, self._columns)
                self.number += len(rows)
                if waiting is not None:
                    yield waiting.result()
                waiting = ahead
            if waiting is not None:
                yield waiting.result()

    def _fetched(self, cursor: sqlite3.Cursor) -> list[bytes]:
        """Return the next rows; none at the end, and where the database is damaged."""
        rows: list[bytes] = []
        if self.damage:
            return rows
        size = fetched = 0
        try:
            while len(rows) < _PIECE_ROWS and size < _PIECE_BYTES and fetched == len(rows):
                # Rows that were fetched before an error stay in the list.
                rows.extend(row[0] for row in islice(cursor, _FETCHED_ROWS))
                size += sum(map(len, rows[fetched:]))
                fetched += _FETCHED_ROWS
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            if self.number == 1 and not rows:
                raise
            self.damage.append(f"row {self.number + len(rows)} and those behind it cannot be read: {error}")
        return rows


def _piece(rows: list[bytes], number: int, columns: list[str]) -> DumpPiece:
    """Take rows apart.

    Args:
        rows: Their fields, with separators between them.
        number: Of the first one.
        columns: The columns of the fields.
    """
    frames: list[tuple[int, pl.DataFrame]] = []
    problems = Problems()
    waiting = [(number, rows)]
    while waiting:
        first, some = waiting.pop()
        frame = _parsed(some, columns)
        if frame is not None:
            frames.append((first, frame))
        elif len(some) == 1:
            text = some[0].decode("utf-8", errors="replace").replace(_SEPARATOR, ",")
            problems.add(f"row {first}: not a row of a dump: {excerpt(text)}")
        else:
            middle = len(some) // 2
            waiting += [(first + middle, some[middle:]), (first, some[:middle])]
    return parse_piece(frames, problems, place="row")


def _parsed(rows: list[bytes], columns: list[str]) -> pl.DataFrame | None:
    """Return rows as columns; None if any of them is broken."""
    content = _ROW_END.encode().join([*rows, b""])
    is_whole = content.count(_ROW_END.encode()) == len(rows)
    if not is_whole or content.count(_SEPARATOR.encode()) != len(rows) * (len(columns) - 1):
        return None
    try:
        frame = pl.read_csv(
            content, has_header=False, schema=text_schema(columns), separator=_SEPARATOR, eol_char=_ROW_END,
            quote_char=None, null_values=NULL_VALUES, encoding="utf8-lossy",
        )  # fmt: skip
    except pl.exceptions.PolarsError:
        return None
    is_incomplete = frame.select(pl.any_horizontal(pl.col("ID", "Event", "Timestamp(ns)").is_null().any())).item()
    return None if is_incomplete or len(frame) != len(rows) else frame


def _table(connection: sqlite3.Connection, path: Path) -> str:
    """Return the table of the dump; views and virtual tables, which run code of their own, are none."""
    found = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
    tables = {
        bytes(name).decode("utf-8", errors="replace")
        for name, statement in found
        if statement is not None and not bytes(statement).lstrip().upper().startswith(b"CREATE VIRTUAL")
    }
    for table in DUMP_TABLES:
        if table in tables:
            return table
    message = f"{path} holds no dump: it has no table {' or '.join(DUMP_TABLES)}"
    raise InputError(message, hint=f"its tables: {', '.join(sorted(tables)[:10]) or 'none'}")


def _has_quoted_names(connection: sqlite3.Connection, table: str, found: dict[str, str]) -> bool:
    """Whether the texts of marks are in quotes of their own, as other tools write them: all of them or none."""
    name, event = (_identifier(found[column]) for column in ("Name", "Event"))
    some = f"SELECT {name} AS name FROM \"{table}\" WHERE {event} = 'MSTX' AND {name} <> '' LIMIT {_MARKS_LOOKED_AT}"  # noqa: S608
    try:
        marks, in_quotes = connection.execute(f"SELECT count(*), sum(name LIKE '\"%\"') FROM ({some})").fetchone()  # noqa: S608
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        return False  # damaged somewhere: told when the rows are read, up to there
    return bool(marks) and marks == in_quotes


def _field(column: str, name: str, event: str) -> str:
    """Return the SQL of one field.

    Args:
        column: One of COLUMNS.
        name: Its column of the table.
        event: The column `Event` of the table where the texts of marks are in quotes of their own, else empty.
    """
    if column == "Name" and event:
        return f"CASE WHEN {event} = 'MSTX' THEN trim({name}, '\"') ELSE {name} END"
    return name


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'

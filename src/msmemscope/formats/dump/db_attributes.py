"""Changing the Attr column of chosen rows of a DB dump, in a copy of the database.

SQLite takes a path and follows it itself, links included. If others can write to a folder, they can make the path lead
to another user's database. That one must not be written: see `connect_to`.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Final

from msmemscope.errors import DumpError
from msmemscope.formats.dump.file_replacement import place_of
from msmemscope.formats.dump.inefficient_attribute import with_inefficient_type
from msmemscope.formats.dump.naming import DUMP_TABLES

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from msmemscope.formats.dump.file_replacement import Replacement

_NEEDED: Final = ("ID", "Event", "Process Id", "Attr")
_WAIT_S: Final = 5.0
_FILE_FORMAT_AT: Final = 18
"""Where the header of a database has the versions for writing and reading: 1, or 2 with a write-ahead log."""
_NO_LOG: Final = b"\1\1"


def change_database(source: Path, target: Replacement, kinds: pl.DataFrame) -> int:
    """Copy a DB dump with the attribute `inefficient_type` of some blocks changed.

    Args:
        source: The dump.
        target: The copy, empty.
        kinds: As for `write_inefficient_types`.

    Returns:
        How many rows were changed.

    Raises:
        DumpError: the file is no dump, is in use, or is damaged.
    """
    try:
        _copy(source, target)
        # With a write-ahead log SQLite would make files beside the copy; its file format stays what it was.
        file_format = os.pread(target.descriptor, len(_NO_LOG), _FILE_FORMAT_AT)
        os.pwrite(target.descriptor, _NO_LOG, _FILE_FORMAT_AT)
        with closing(connect_to(str(target.path), target.identity)) as connection:
            changed = _change(connection, source, kinds)
        os.pwrite(target.descriptor, file_format, _FILE_FORMAT_AT)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise _failure(source, error) from error
    return changed


def settle_database(source: Path) -> None:
    """Bring what lies in the write-ahead log of a database into the database itself.

    A log that stays beside the file would be taken for a part of the one that replaces it.

    Args:
        source: The database.

    Raises:
        DumpError: another program is using it, or it is no database.
    """
    with place_of(source) as (folder, name):
        _refuse_links(source, folder, name)
    try:
        with closing(_opened(source)) as connection:
            busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise _failure(source, error) from error
    log = source.resolve().with_name(f"{source.resolve().name}-wal")
    # The last one to close a database takes its log away.
    if busy or log.exists():
        message = f"{source} cannot be changed: another program is using it"
        raise DumpError(message, hint="close that program, and try again")


def connect_to(path: str, identity: tuple[int, int]) -> sqlite3.Connection:
    """Open a database for writing.

    Args:
        path: Of the file, which exists and may be empty.
        identity: Its device and inode.

    Raises:
        sqlite3.Error: It cannot be opened, or the path leads to another file.
    """
    before = _open_files(identity)
    connection = sqlite3.connect(f"file:{path}?mode=rw", uri=True, isolation_level=None)
    try:
        connection.execute("PRAGMA schema_version").fetchone()  # opens the file, and reads only
        if _open_files(identity) <= before:
            message = "its name leads to another file"
            raise sqlite3.OperationalError(message)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _open_files(identity: tuple[int, int]) -> int:
    """How many descriptors of this process lead to a file."""
    count = 0
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - no path is made of the names
        with suppress(OSError):
            status = os.fstat(int(name))
            count += (status.st_dev, status.st_ino) == identity
    return count


def _refuse_links(source: Path, folder: int, name: str) -> None:
    """SQLite writes these files beside a database by their names; somebody may have linked them to others."""
    for suffix in ("-wal", "-shm", "-journal"):
        try:
            status = os.stat(f"{name}{suffix}", dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            message = f"{source} cannot be changed: {name}{suffix} beside it is a link"
            raise DumpError(message, hint="copy the database alone to another folder")


def _opened(source: Path) -> sqlite3.Connection:
    address = f"{source.resolve().as_uri()}?mode=rw"
    return sqlite3.connect(address, uri=True, timeout=_WAIT_S, isolation_level=None)


def _failure(source: Path, error: sqlite3.Error | UnicodeDecodeError) -> DumpError:
    # Errors of SQLite quote what is damaged, which need not be text.
    reason = "its schema is damaged" if isinstance(error, UnicodeDecodeError) else error
    message = f"{source} cannot be changed: {reason}"
    return DumpError(message, hint="the file is as it was; close programs that have it open")


def _copy(source: Path, target: Replacement) -> None:
    """Copy a database page by page."""
    with closing(_opened(source)) as connection, closing(connect_to(str(target.path), target.identity)) as copy:
        copy.execute("PRAGMA synchronous=OFF")
        copy.execute("PRAGMA journal_mode=OFF")
        connection.backup(copy)


def _change(connection: sqlite3.Connection, source: Path, kinds: pl.DataFrame) -> int:
    # A file of somebody else may hold functions in its schema; and the copy is thrown away if anything goes wrong.
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.execute("PRAGMA synchronous=OFF")
    connection.execute("PRAGMA journal_mode=OFF")
    table = _dump_table(connection, source)
    triggers = connection.execute("SELECT count(*) FROM sqlite_master WHERE type = 'trigger'").fetchone()[0]
    if triggers:
        message = f"{source} cannot be changed: it has triggers, which would change more than was asked for"
        raise DumpError(message)
    connection.create_function("with_inefficient_type", 2, _changed, deterministic=True)
    connection.execute("BEGIN")
    connection.execute(
        "CREATE TEMP TABLE found (process INTEGER, block INTEGER, kinds TEXT, PRIMARY KEY (block, process))"
    )
    connection.executemany(
        "INSERT INTO found VALUES (?, ?, ?)",
        kinds.select("process_id", "allocation_id", "inefficient_type").iter_rows(),
    )
    cursor = connection.execute(
        f'UPDATE main."{table}" AS dump SET Attr = with_inefficient_type(Attr, '  # noqa: S608 - one of two names of our own
        '(SELECT kinds FROM found WHERE block = dump."ID" AND process = dump."Process Id")) '
        "WHERE \"Event\" = 'MALLOC' AND EXISTS "
        '(SELECT 1 FROM found WHERE block = dump."ID" AND process = dump."Process Id")'
    )
    connection.execute("COMMIT")
    return cursor.rowcount


def _changed(attributes: str | None, kinds: str) -> str:
    return with_inefficient_type(attributes or "{}", kinds)


def _dump_table(connection: sqlite3.Connection, source: Path) -> str:
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    table = next((name for name in DUMP_TABLES if name in names), None)
    if table is None:
        message = f"{source} is no dump: it has no table {DUMP_TABLES[0]}"
        raise DumpError(message)
    columns = {row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')}
    missing = [name for name in _NEEDED if name not in columns]
    if missing:
        message = f"{source} is no dump: table {table} has no column {', '.join(missing)}"
        raise DumpError(message)
    return table

"""Opening a SQLite file that we have created, and no other one that has taken its name.

SQLite takes a path and follows it itself, links included. In a folder that others can write to, the path may lead to a
database of somebody else by then, which must not be written.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3


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
        with contextlib.suppress(OSError):
            status = os.fstat(int(name))
            count += (status.st_dev, status.st_ino) == identity
    return count

"""Tables of many rows lie in files that are mapped into memory: where memory is short, rows are read again from there.

The files have no names, and are gone with their tables.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

if TYPE_CHECKING:
    import io
    from collections.abc import Callable, Iterable

    Pieces = Callable[[], Iterable[pl.DataFrame]]

MOST_ROWS_IN_MEMORY: Final = 1 << 22
"""Of a table that is in no file: 260 MiB of events."""
PIECE_ROWS: Final = 1 << 20
"""Rows that are looked at together where a table is made from another one."""
_LASTING_FOLDER: Final = Path("/var/tmp")  # noqa: S108 - the folder is only asked for files without a name
"""Where `/tmp` is memory, a file there would make none free."""


def collected_table(schema: pl.Schema, row_count: int, pieces: Pieces) -> pl.DataFrame:
    """Put the pieces of a table together, each of its columns in one piece of memory.

    Args:
        schema: Of numbers that are never null.
        row_count: Rows of all pieces, about: it decides where they lie.
        pieces: Yields the pieces in their order; once more where there is no room for files.
    """
    row_bytes = sum(_numpy_type(kind).itemsize for kind in schema.values())
    if row_count > MOST_ROWS_IN_MEMORY and _has_room(row_count * row_bytes):
        # Where files cannot be made, only memory is left, and maybe enough of it.
        with contextlib.suppress(OSError):
            return _in_files(schema, pieces())
    whole = pl.concat([schema.to_frame(), *pieces()])
    # One column after the other: analyses would copy those in many pieces again and again.
    return pl.DataFrame([whole.drop_in_place(name).rechunk() for name in schema])


def filtered_table(table: pl.DataFrame, condition: pl.Expr) -> pl.DataFrame:
    """Return the rows of a table of numbers that meet a condition which looks at one row at a time."""
    if any(column.has_nulls() for column in table):
        return table.filter(condition)  # a damaged dump: no file has a way to say null
    row_count = table.lazy().select(condition.sum()).collect().item()
    return collected_table(
        table.schema, row_count, lambda: (piece.filter(condition) for piece in table.iter_slices(PIECE_ROWS))
    )


def _in_files(schema: pl.Schema, pieces: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Raise OSError where files cannot be made or have no room."""
    row_count = 0
    with contextlib.ExitStack() as opened:
        # Without buffers: writes are large, and a write that fails is not tried again at the end.
        files = {name: opened.enter_context(tempfile.TemporaryFile(dir=_folder(), buffering=0)) for name in schema}
        for piece in pieces:
            row_count += piece.height
            for column in piece:
                for part in column.get_chunks():
                    _write(files[column.name], part.to_numpy().view(np.uint8).data)
        if not row_count:
            return schema.to_frame()
        # A mapping lasts longer than the open file: as long as the column.
        return pl.DataFrame(
            [
                pl.Series(name, np.memmap(files[name], _numpy_type(kind), mode="r"), dtype=kind)
                for name, kind in schema.items()
            ]
        )


def _write(file: io.FileIO, content: memoryview) -> None:
    while content:
        content = content[file.write(content) :]


def _has_room(size: int) -> bool:
    """Whether others have as much room left as the files take: a disk that we fill may be the one that a job needs."""
    try:
        return shutil.disk_usage(_folder()).free >= 2 * size
    except OSError:
        return False


def _folder() -> str:
    if "TMPDIR" not in os.environ and os.access(_LASTING_FOLDER, os.W_OK | os.X_OK):
        return str(_LASTING_FOLDER)
    return tempfile.gettempdir()


def _numpy_type(kind: pl.DataType) -> np.dtype[Any]:
    found: np.dtype[Any] = pl.Series(dtype=kind).to_numpy().dtype
    return found

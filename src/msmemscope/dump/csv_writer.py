"""CSV dumps: one header line, LF, fields quoted where they must be."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

from msmemscope.dump.rows import COLUMNS
from msmemscope.errors import DumpError

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from msmemscope.dump.output_files import OutputFile

_SLICE_BYTES: Final = 16 << 20
"""About as much text as is made at once."""


class CsvTable:
    """A table that grows as a CSV file.

    Args:
        file: Where it is written.
        columns: The header line.
    """

    def __init__(self, file: OutputFile, columns: list[str]) -> None:
        """Write the header line."""
        self._file = file
        try:
            file.write((",".join(columns) + "\n").encode())
        except DumpError:
            file.discard()
            raise

    def write(self, rows: pl.DataFrame) -> None:
        """Appends rows; a null is an empty field."""
        slice_rows = max(len(rows) * _SLICE_BYTES // max(int(rows.estimated_size()), 1), 1)
        for part in rows.iter_slices(slice_rows):
            content = io.BytesIO()
            part.write_csv(content, include_header=False)
            self._file.write(content.getbuffer())

    def finish(self) -> Path:
        """Returns the finished file."""
        return self._file.finish()

    def discard(self) -> None:
        """Removes what was written."""
        self._file.discard()

    def suspend(self) -> None:
        """Gives the file descriptor back until the next rows."""
        self._file.suspend()


class CsvDump(CsvTable):
    """The dump of one device as a CSV file."""

    def __init__(self, file: OutputFile) -> None:
        """Write the header line."""
        super().__init__(file, COLUMNS.names())

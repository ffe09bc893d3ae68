"""CSV dumps: one header line, LF, fields quoted where they must be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from msmemscope import _native
from msmemscope.errors import DumpError
from msmemscope.model.cell_texts import FORMULA

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from msmemscope.formats.dump.cells import TableRows
    from msmemscope.formats.dump.output_files import OutputFile

CONTENT_BYTES: Final = 4 << 20
"""About as much of a file as is made at once."""
_FORMULA: Final = f"^(?:{FORMULA})"


def cell_of(text: pl.Expr) -> pl.Expr:
    """Return texts of the observed program as they are written into CSV files, see `cell_texts`."""
    return pl.when(text.str.contains(_FORMULA)).then(pl.concat_str(pl.lit("'"), text)).otherwise(text)


class CsvTable:
    """A table that grows as a CSV file.

    Args:
        file: Where it is written.
        columns: The header line.
    """

    def __init__(self, file: OutputFile, columns: Iterable[str]) -> None:
        self._file = file
        try:
            file.write((",".join(columns) + "\n").encode())
        except DumpError:
            file.discard()
            raise

    def rendered(self, rows: TableRows) -> Iterator[Any]:
        """Yield the bytes of rows, piece by piece, for `append`."""
        begin = 0
        while begin < rows.height:
            content, begin = _native.csv_rows(*rows.described(), begin, CONTENT_BYTES)
            yield content

    def append(self, content: Any) -> None:
        """Write bytes behind those that are there."""
        self._file.write(memoryview(content))

    def finish(self) -> Path:
        """Return the finished file."""
        return self._file.finish()

    def discard(self) -> None:
        """Remove the file that was written."""
        self._file.discard()

    def suspend(self) -> None:
        """Give the file descriptor back until the next rows."""
        self._file.suspend()

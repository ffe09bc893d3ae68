"""CSV dumps: one header line, LF, fields quoted where they must be."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.errors import DumpError
from msmemscope.formats.dump.columns import COLUMNS
from msmemscope.model.cell_texts import FORMULA

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from msmemscope.formats.dump.output_files import OutputFile

_SLICE_BYTES: Final = 16 << 20
"""About as much text as is made at once."""
_FORMULA: Final = f"^(?:{FORMULA})"
_TEXTS: Final = ("Name", "Call Stack(Python)", "Call Stack(C)")
"""Columns of a dump whose texts come from the observed program; those of Attr stand behind a brace."""


def cell_of(text: pl.Expr) -> pl.Expr:
    """Returns texts of the observed program as they are written into CSV files, see `cell_texts`."""
    return pl.when(text.str.contains(_FORMULA)).then(pl.concat_str(pl.lit("'"), text)).otherwise(text)


class CsvTable:
    """A table that grows as a CSV file.

    Args:
        file: Where it is written.
        columns: The header line.
        texts: Columns whose texts come from the observed program.
    """

    def __init__(self, file: OutputFile, columns: list[str], texts: Sequence[str]) -> None:
        """Write the header line."""
        self._file = file
        self._texts = texts
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
            self._cells(part).write_csv(content, include_header=False)
            self._file.write(content.getbuffer())

    def _cells(self, rows: pl.DataFrame) -> pl.DataFrame:
        # Nearly always there is none, and nothing to be written anew.
        formulas = rows.select(pl.col(self._texts).str.contains(_FORMULA).any()).row(0)
        columns = [name for name, has_formula in zip(self._texts, formulas, strict=True) if has_formula]
        return rows.with_columns(cell_of(pl.col(name)).alias(name) for name in columns) if columns else rows

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
        super().__init__(file, COLUMNS.names(), _TEXTS)

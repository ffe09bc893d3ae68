"""Rows of the Python trace: which function ran from when to when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from msmemscope.formats.dump.cells import Part, TableRows, TextCells, TextsByKey, decimal, of_program
from msmemscope.formats.dump.columns import PYTHON_TRACE_COLUMNS
from msmemscope.formats.dump.csv_writer import CsvTable
from msmemscope.formats.dump.naming import python_trace_file
from msmemscope.model.devices import NOT_AVAILABLE
from msmemscope.model.events import EventFlag, EventKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from msmemscope.formats.dump.cells import Flags, Numbers
    from msmemscope.formats.dump.output_files import OutputFolder
    from msmemscope.formats.dump.recorded_events import RecordedEvents
    from msmemscope.formats.dump.sqlite_writer import SqliteTable

_THREAD: Final = PYTHON_TRACE_COLUMNS.names().index("Thread Id")
_OPEN_FILES: Final = 64
"""Files of threads that stay open between two batches."""
_UNKNOWN: Final = 1
"""Key of the text of a call whose function is not known."""


class Calls(NamedTuple):
    """Function calls of the Python trace."""

    rows: TableRows
    """PYTHON_TRACE_COLUMNS."""
    times_ns: Numbers
    """All moments that are known, in no order."""


class TraceRows:
    """Makes rows of the Python trace from batches of events.

    Args:
        capture: Where names are looked up.
        is_csv: Whether they are written into CSV files.
    """

    def __init__(self, capture: RecordedEvents, *, is_csv: bool) -> None:
        self._capture = capture
        self._cell_of = of_program(is_csv)
        self._cells = TextsByKey(is_csv=is_csv)
        self._behind_words = TextsByKey(is_csv=is_csv)

    def of(self, batch: pl.DataFrame) -> Calls:
        """Return one row per function call, in the order in which the calls returned.

        Args:
            batch: Of EVENT_SCHEMA.

        Returns:
            Rows in which times that are not known are `N/A`.
        """
        calls = batch.filter(pl.col("kind") == EventKind.FUNCTION_CALL)
        flags, names, codes = (calls[name].to_numpy() for name in ("flags", "name_id", "attribute_id"))
        start_unknown = flags & int(EventFlag.START_UNKNOWN) != 0
        end_unknown = flags & int(EventFlag.END_UNKNOWN) != 0
        shape = start_unknown + np.uint8(2) * end_unknown
        # Strings and code objects have numbers of their own each.
        keys = np.where(
            names != 0, names.astype(np.uint64) << np.uint64(1), codes.astype(np.uint64) << np.uint64(1) | 1
        )
        plain = self._cells.part(np.where(shape == 0, keys, 0), lambda fresh: self._texts(fresh, self._cell_of))
        behind = self._behind_words.part(np.where(shape == 0, 0, keys), lambda fresh: self._texts(fresh, str))
        shapes = tuple((behind.between(words),) for words in ("start: ", "stop: ", "start: stop: "))
        starts, ends = calls["timestamp_ns"].to_numpy(), calls["extra"].to_numpy()
        cells: dict[str, Numbers | TextCells] = {
            "FuncInfo": TextCells(((plain,), *shapes), shape.astype(np.uint8)),
            "StartTime(ns)": _time_cells(starts, start_unknown),
            "EndTime(ns)": _time_cells(ends, end_unknown),
            "Thread Id": calls["thread_id"].to_numpy(),
            "Process Id": np.broadcast_to(np.array([self._capture.header.process_id], dtype=np.uint32), len(calls)),
        }
        rows = TableRows([cells[name] for name in PYTHON_TRACE_COLUMNS], len(calls))
        return Calls(rows, np.concatenate([starts[~start_unknown], ends[~end_unknown]]))

    def _texts(self, keys: list[int], cell_of: Callable[[str], str]) -> Iterator[tuple[int, str]]:
        ids = pl.Series([key >> 1 for key in keys if key % 2 == 0], dtype=pl.UInt32)
        names = dict(self._capture.string_frame(ids).iter_rows())
        for key in keys:
            if key == _UNKNOWN:
                text = NOT_AVAILABLE
            else:
                text = self._capture.function_text(key >> 1) if key % 2 else names[key >> 1]
            yield key, cell_of(text)


class PythonTraceCsv:
    """The Python trace as one CSV file per thread.

    Args:
        folder: Where the files are created.
        timestamp: The moment in their names.
    """

    def __init__(self, folder: OutputFolder, timestamp: str) -> None:
        """Start without a file: each is created with its first row."""
        self._folder = folder
        self._timestamp = timestamp
        self._tables: dict[int, CsvTable] = {}

    def tables(self, rows: TableRows) -> Iterator[tuple[CsvTable, TableRows]]:
        """Yield the files of the threads of rows (see `TraceRows`), and the rows of each.

        A file is to be written before the next one is asked for.
        """
        threads = rows.columns[_THREAD]
        assert isinstance(threads, np.ndarray)  # noqa: S101 - for the type checker
        for thread_id in np.unique(threads).tolist():
            table = self._tables.get(thread_id)
            if table is None:
                file = self._folder.create(python_trace_file(thread_id, self._timestamp))
                table = self._tables[thread_id] = CsvTable(file, PYTHON_TRACE_COLUMNS)
            yield table, rows.only(threads == thread_id)

    def written(self, table: CsvTable | SqliteTable) -> None:
        """Give the descriptor of a file that was written to back if there are many."""
        if len(self._tables) > _OPEN_FILES and isinstance(table, CsvTable):
            table.suspend()

    def finish(self) -> list[Path]:
        """Return the finished files, by rising thread id."""
        return [table.finish() for _, table in sorted(self._tables.items())]

    def discard(self) -> None:
        """Remove the files that were written."""
        for table in self._tables.values():
            table.discard()


def _time_cells(time_ns: Numbers, unknown: Flags) -> TextCells:
    return TextCells(((decimal(time_ns).only(~unknown),),), otherwise=(Part(NOT_AVAILABLE),))

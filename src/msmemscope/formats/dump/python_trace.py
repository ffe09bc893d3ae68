"""Rows of the Python trace: which function ran from when to when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.formats.dump.columns import PYTHON_TRACE_COLUMNS
from msmemscope.formats.dump.csv_writer import CsvTable
from msmemscope.formats.dump.naming import python_trace_file
from msmemscope.model.devices import NOT_AVAILABLE
from msmemscope.model.events import EventFlag, EventKind

if TYPE_CHECKING:
    from pathlib import Path

    from msmemscope.formats.dump.output_files import OutputFolder
    from msmemscope.formats.event_log.capture import Capture

_TEXTS: Final = ("FuncInfo",)
_OPEN_FILES: Final = 64
"""Files of threads that stay open between two batches."""


def trace_rows(capture: Capture, batch: pl.DataFrame) -> pl.DataFrame:
    """Returns one row per function call of a batch of events, in the order in which the calls returned.

    Args:
        capture: Where names are looked up.
        batch: Of EVENT_SCHEMA.

    Returns:
        PYTHON_TRACE_COLUMNS; times that are not known are `N/A`.
    """
    calls = batch.filter(pl.col("kind") == EventKind.FUNCTION_CALL)
    names = capture.string_frame(calls["name_id"]).rename({"text": "name"})
    is_code = pl.col("name_id") == 0
    codes = calls.filter(is_code)["attribute_id"]
    functions = capture.function_frame(codes).rename({"text": "function"})
    start_unknown = pl.col("flags") & int(EventFlag.START_UNKNOWN) != 0
    end_unknown = pl.col("flags") & int(EventFlag.END_UNKNOWN) != 0
    return (
        calls.join(names, left_on="name_id", right_on="id", how="left", maintain_order="left")
        .join(functions, left_on="attribute_id", right_on="id", how="left", maintain_order="left")
        .select(
            pl.concat_str(
                pl.when(start_unknown).then(pl.lit("start: ")).otherwise(pl.lit("")),
                pl.when(end_unknown).then(pl.lit("stop: ")).otherwise(pl.lit("")),
                pl.when(is_code).then(pl.col("function")).otherwise(pl.col("name")).fill_null(NOT_AVAILABLE),
            ).alias("FuncInfo"),
            _time_text(pl.col("timestamp_ns"), start_unknown).alias("StartTime(ns)"),
            _time_text(pl.col("extra"), end_unknown).alias("EndTime(ns)"),
            pl.col("thread_id").alias("Thread Id"),
            pl.lit(capture.header.process_id, dtype=pl.UInt32).alias("Process Id"),
        )
    )


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

    def write(self, rows: pl.DataFrame) -> None:
        """Appends rows (see `trace_rows`) to the files of their threads."""
        for part in rows.partition_by("Thread Id", maintain_order=True):
            thread_id = int(part["Thread Id"][0])
            table = self._tables.get(thread_id)
            if table is None:
                file = self._folder.create(python_trace_file(thread_id, self._timestamp))
                table = self._tables[thread_id] = CsvTable(file, PYTHON_TRACE_COLUMNS.names(), _TEXTS)
            table.write(part)
            if len(self._tables) > _OPEN_FILES:
                table.suspend()

    def finish(self) -> list[Path]:
        """Returns the finished files, by rising thread id."""
        return [table.finish() for _, table in sorted(self._tables.items())]

    def discard(self) -> None:
        """Removes what was written."""
        for table in self._tables.values():
            table.discard()


def _time_text(time_ns: pl.Expr, unknown: pl.Expr) -> pl.Expr:
    return pl.when(unknown).then(pl.lit(NOT_AVAILABLE)).otherwise(time_ns.cast(pl.String))

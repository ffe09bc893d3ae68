"""The columns of dumps and of Python traces, for all who write and read them: CSV files and databases have the same."""

from __future__ import annotations

from typing import Final

import polars as pl

COLUMNS: Final = pl.Schema(
    {
        "ID": pl.UInt64(),
        "Event": pl.String(),
        "Event Type": pl.String(),
        "Name": pl.String(),
        "Timestamp(ns)": pl.UInt64(),
        "Process Id": pl.UInt32(),
        "Thread Id": pl.UInt32(),
        "Device Id": pl.String(),
        "Ptr": pl.String(),
        "Attr": pl.String(),
        "Call Stack(Python)": pl.String(),
        "Call Stack(C)": pl.String(),
    }
)
"""Columns of a dump in their order, by which MindStudio Insight reads them; null stands for an empty field."""

PYTHON_TRACE_COLUMNS: Final = pl.Schema(
    {
        "FuncInfo": pl.String(),
        "StartTime(ns)": pl.String(),
        "EndTime(ns)": pl.String(),
        "Thread Id": pl.UInt32(),
        "Process Id": pl.UInt32(),
    }
)
"""Columns of a Python trace in their order; times that are not known are `N/A`."""

INTEGERS: Final = tuple(name for name, kind in COLUMNS.items() if kind.is_integer())
"""Columns of a dump that are numbers."""

_NOT_NEEDED: Final = frozenset({"Process Id", "Thread Id", "Call Stack(Python)", "Call Stack(C)"})
"""Columns that dumps of other tools and ages can lack."""


def missing_columns(found: list[str | None]) -> list[str]:
    """Return the columns that a file must have to be a dump, and has not.

    Args:
        found: The columns that it has, as COLUMNS names them; None for others.
    """
    return [name for name in COLUMNS if name not in _NOT_NEEDED and name not in found]


def database_types(columns: pl.Schema) -> dict[str, str]:
    """Return the types of columns as SQLite names them."""
    return {name: "INTEGER" if kind.is_integer() else "TEXT" for name, kind in columns.items()}

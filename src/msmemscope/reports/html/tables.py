"""Tables of the page: columns of a result, with the kind of value of each."""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from msmemscope.model.devices import device_name
from msmemscope.model.pools import pool_word
from msmemscope.reports.html.shown_text import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_ROWS: Final = 300
"""Rows that a table has in a report; the page says how many more there are."""
PLACE: Final = "place"
"""Column that `with_places` makes."""


class ColumnKind(str, Enum):
    """How the page shows the values of a column."""

    TEXT = "text"
    SITE = "site"
    """A call site: its folders are shown only where there is room."""
    BYTES = "bytes"
    COUNT = "count"
    PERCENT = "percent"
    """A share, from 0 to 1."""


@dataclasses.dataclass(frozen=True)
class TableColumn:
    """One column."""

    heading: str
    source: str
    """Column of the frame that it is taken from."""
    kind: ColumnKind = ColumnKind.TEXT


@dataclasses.dataclass(frozen=True)
class ReportTable:
    """One table as the page gets it."""

    title: str
    headings: tuple[str, ...]
    kinds: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    """Texts are fit to be shown; bytes and counts are whole numbers."""
    more: int = 0
    """Rows that were left out: those that would follow."""
    note: str = ""
    """One sentence on the meaning of the columns; empty for none."""


def table_of(title: str, frame: pl.DataFrame, columns: Sequence[TableColumn], *, note: str = "") -> ReportTable:
    """Make a table of the first rows of a frame.

    Args:
        title: Its subject.
        frame: In the order that is shown first.
        columns: Of the table.
        note: One sentence on their meaning.
    """
    part = frame.head(MOST_ROWS).select(pl.col(column.source).alias(str(n)) for n, column in enumerate(columns))
    values = [
        [None if value is None else shown(str(value)) for value in part[str(n)]]
        if column.kind in {ColumnKind.TEXT, ColumnKind.SITE}
        else [None if value is None else float(value) for value in part[str(n)]]
        if column.kind is ColumnKind.PERCENT
        else part[str(n)].round(0).cast(pl.Int64).to_list()
        for n, column in enumerate(columns)
    ]
    return ReportTable(
        title,
        tuple(column.heading for column in columns),
        tuple(column.kind.value for column in columns),
        tuple(zip(*values, strict=True)),
        max(frame.height - MOST_ROWS, 0),
        note,
    )


def with_places(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame with the column PLACE: the words for its `device` and `pool`.

    Args:
        frame: With `device`; `pool` where it has one.
    """
    keys = [name for name in ("device", "pool") if name in frame.columns]
    words = {pair: _place(*pair) for pair in frame.select(keys).unique().iter_rows()}
    table = pl.DataFrame(
        [(*pair, word) for pair, word in words.items()],
        {**{name: frame.schema[name] for name in keys}, PLACE: pl.String()},
        orient="row",
    )
    return frame.join(table, on=keys, how="left", maintain_order="left", nulls_equal=True)


def _place(device: int | None, pool: int | None = None) -> str:
    if device is None:
        return ""
    return device_name(device) if pool is None else f"{device_name(device)} {pool_word(pool, device)}"

"""The main table of any result: the report of a question that has no renderer of its own."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Final

from msmemscope.model.devices import device_name
from msmemscope.reports.report_text import HEADING, QUIET, ReportWriter, counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msmemscope.questions import Result
    from msmemscope.recording import Recording

MOST_ROWS: Final = 20


def render_result_table(
    result: Result, recording: Recording, out: IO[str], *, width: int | None = None, is_coloured: bool | None = None
) -> None:
    """Write the first rows of `result.to_polars()`.

    Args:
        result: Of any question.
        recording: Its recording.
        out: Where to write it.
        width: Columns; by default those of the terminal, 80 where there is none.
        is_coloured: Whether to colour; by default if `out` is a terminal.
    """
    del recording
    writer = ReportWriter(out, width=width, is_coloured=is_coloured)
    table = result.to_polars()
    writer.line(f"{result.coverage.question}: {counted(table.height, 'row')}", HEADING)
    if table.is_empty():
        return
    writer.table(table.columns, [_cells(row) for row in table.head(MOST_ROWS).iter_rows(named=True)])
    if table.height > MOST_ROWS:
        writer.sentence(f"and {counted(table.height - MOST_ROWS, 'more row')}", style=QUIET)


def _cells(row: Mapping[str, object]) -> list[str]:
    return [
        "" if value is None else device_name(value) if name == "device" and isinstance(value, int) else str(value)
        for name, value in row.items()
    ]

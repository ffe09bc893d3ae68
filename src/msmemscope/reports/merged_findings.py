"""The findings that several processes share, below their reports."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any, Final

from msmemscope.model.devices import device_name
from msmemscope.reports.rank_text import named_ranks
from msmemscope.reports.report_text import HEADING, QUIET, ReportWriter
from msmemscope.units import format_bytes, format_count

if TYPE_CHECKING:
    import polars as pl

MOST_FINDINGS: Final = 10
_MOST_NAMED: Final = 4
"""Devices or processes that are named one by one."""


def render_merged_findings(
    merged: pl.DataFrame,
    process_count: int,
    out: IO[str],
    *,
    width: int | None = None,
    is_coloured: bool | None = None,
) -> None:
    """Write findings of several processes, the largest first; nothing if there are none.

    Args:
        merged: `analysis.findings.MERGED_SCHEMA`.
        process_count: Processes that were looked at.
        out: Where to write it.
        width: Columns; by default those of the terminal, 80 where there is none.
        is_coloured: Whether to colour; by default if `out` is a terminal.
    """
    if merged.is_empty():
        return
    writer = ReportWriter(out, width=width, is_coloured=is_coloured)
    writer.line(f"All {format_count(process_count)} processes, by call site", HEADING)
    writer.table(
        ("size", "count", "processes", "devices", "kind", "call site"),
        [
            (
                format_bytes(row["bytes"]),
                format_count(row["count"]),
                named_ranks(row["ranks"]) if row["ranks"] else format_count(len(row["processes"])),
                _devices(row["devices"]),
                row["kind"],
                row["site"] or "(not known)",
            )
            for row in merged.head(MOST_FINDINGS).iter_rows(named=True)
        ],
        labels=3,
    )
    if merged.height > MOST_FINDINGS:
        writer.sentence(f"and {format_count(merged.height - MOST_FINDINGS)} more", style=QUIET)


def merged_content(merged: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the same in types that `json.dumps` takes, devices by name."""
    return [
        {**row, "devices": [device_name(device) for device in row["devices"]]} for row in merged.iter_rows(named=True)
    ]


def _devices(devices: list[int]) -> str:
    names = [device_name(device) for device in devices]
    more = len(names) - _MOST_NAMED
    return ",".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")

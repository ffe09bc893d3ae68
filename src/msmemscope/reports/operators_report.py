"""The report on the changes by operators and launches of kernels: by name, and those that rose highest."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Final

import polars as pl

from msmemscope.model.devices import device_name
from msmemscope.recording.call_sites import NO_CALL_SITE, call_sites
from msmemscope.reports.report_text import HEADING, QUIET, ReportWriter, counted
from msmemscope.units import format_bytes, format_count

if TYPE_CHECKING:
    from msmemscope.analysis.operators.memory_changes import MemoryChanges
    from msmemscope.recording import Recording

MOST_NAMES: Final = 15
MOST_PLACES: Final = 10
_ABSENT: Final = "-"


def render_memory_changes(
    changes: MemoryChanges,
    recording: Recording,
    out: IO[str],
    *,
    width: int | None = None,
    is_coloured: bool | None = None,
) -> None:
    """Write the changes by operators or launches.

    Args:
        changes: By `analysis.memory_changes.find_memory_changes`.
        recording: Their recording, where call sites are looked up.
        out: Where to write it.
        width: Columns; by default those of the terminal, 80 where there is none.
        is_coloured: Whether to colour; by default if `out` is a terminal.
    """
    writer = ReportWriter(out, width=width, is_coloured=is_coloured)
    rows = changes.rows
    if rows.is_empty():
        writer.line("No operators or launches of kernels", HEADING)
        return
    names = changes_by_name(changes)
    writer.line(f"Memory changes of {_elements(rows)}, by name, the largest net changes first:", HEADING)
    writer.table(
        ("net", "highest", "times", "device", "name"),
        [
            (
                _signed(row["net_bytes"]),
                format_bytes(row["peak_bytes"]),
                format_count(row["count"]),
                device_name(row["device"]),
                row["name"].removeprefix("torch._ops."),
            )
            for row in names.head(MOST_NAMES).iter_rows(named=True)
        ],
        labels=2,
    )
    _more(writer, names.height - MOST_NAMES, "name")
    writer.sentence("net: allocated minus freed; highest: the most above what was in use at the begin", style=QUIET)
    highest = highest_places(changes, recording)
    if highest.is_empty():
        return
    writer.line()
    writer.line("Those that rose highest, by position:", HEADING)
    writer.table(
        ("highest", "net", "in use after", "ID", "device", "name", "call site"),
        [
            (
                format_bytes(row["peak_bytes"]),
                _signed(row["net_bytes"]),
                format_bytes(row["total_bytes"]),
                str(row["sequence"]),
                device_name(row["device"]),
                row["name"].removeprefix("torch._ops."),
                row["site"] or _ABSENT,
            )
            for row in highest.iter_rows(named=True)
        ],
        labels=3,
    )


def changes_by_name(changes: MemoryChanges) -> pl.DataFrame:
    """Sum up the changes of one operator or kernel wherever it ran.

    Returns:
        One row per event, name and device, by the size of the net change. The columns are `event`, `name`, `device`,
        `count`, `net_bytes` (the sum) and `peak_bytes` (the most of one occurrence).
    """
    return (
        changes.rows.group_by("event", "name", "device", maintain_order=True)
        .agg(pl.len().cast(pl.Int64).alias("count"), pl.col("net_bytes").sum(), pl.col("peak_bytes").max())
        .sort(pl.col("net_bytes").abs(), pl.col("peak_bytes"), "count", descending=True, maintain_order=True)
    )


def highest_places(changes: MemoryChanges, recording: Recording) -> pl.DataFrame:
    """Return the rows of CHANGE_SCHEMA with the highest `peak_bytes`, and `site`, the call site, null if not known."""
    rows = changes.rows.filter(pl.col("peak_bytes") > 0).sort(
        ["peak_bytes", "sequence"], descending=[True, False], maintain_order=True
    )
    rows = rows.head(MOST_PLACES).with_columns(
        native_stack_id=pl.lit(0, dtype=pl.UInt32), name_id=pl.lit(0, dtype=pl.UInt32)
    )
    sites = call_sites(recording, rows).select("python_stack_id", pl.col("site").replace(NO_CALL_SITE, None))
    return rows.drop("native_stack_id", "name_id").join(sites, on="python_stack_id", how="left", maintain_order="left")


def _elements(rows: pl.DataFrame) -> str:
    counts = dict(rows["event"].value_counts().iter_rows())
    parts = []
    if operators := counts.get("OP_LAUNCH", 0):
        parts.append(counted(operators, "operator"))
    if launches := counts.get("KERNEL_LAUNCH", 0):
        parts.append(
            counted(launches, "kernel launch") if launches == 1 else f"{format_count(launches)} kernel launches"
        )
    return " and ".join(parts)


def _more(writer: ReportWriter, count: int, noun: str) -> None:
    if count > 0:
        writer.sentence(f"and {counted(count, f'more {noun}')}", style=QUIET)


def _signed(size_bytes: int) -> str:
    return f"{'+' if size_bytes > 0 else ''}{format_bytes(size_bytes)}"

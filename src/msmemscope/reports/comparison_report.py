"""The report on a comparison of two runs: peaks, and the largest differences with where they come from."""

from __future__ import annotations

import json
import math
from typing import IO, TYPE_CHECKING, Any, Final

import polars as pl

from msmemscope.model.devices import device_name
from msmemscope.reports.report_text import HEADING, QUIET, ReportWriter, counted
from msmemscope.units import format_bytes, format_count

if TYPE_CHECKING:
    from msmemscope.analysis.compare.comparison import Comparison, DevicePeak

MOST_DIFFERENCES: Final = 10
_ABSENT: Final = "-"


def render_comparison(
    comparison: Comparison, out: IO[str], *, width: int | None = None, is_coloured: bool | None = None
) -> None:
    """Write what differs.

    Args:
        comparison: By `analysis.comparison.compare`.
        out: Where to.
        width: Columns; by default those of the terminal, 80 where there is none.
        is_coloured: Whether to colour; by default if `out` is a terminal.
    """
    writer = ReportWriter(out, width=width, is_coloured=is_coloured)
    rows = comparison.rows
    alone = rows.select(pl.col("base_bytes").is_null().sum(), pl.col("compare_bytes").is_null().sum()).row(0)
    pairs = rows.height - sum(alone)
    writer.line(
        f"Compared: {counted(pairs, 'pair')}, {format_count(alone[1])} only in base, {format_count(alone[0])} only in "
        "compare",
        HEADING,
    )
    for peak in comparison.peaks:
        writer.line(
            f"  peak on {device_name(peak.device)}: {format_bytes(peak.base_bytes)} in base, "
            f"{format_bytes(peak.compare_bytes)} in compare ({_difference(peak)})"
        )
    for remark in comparison.remarks:
        writer.sentence(remark, style=QUIET)
    groups = largest_differences(comparison)
    if groups.is_empty():
        writer.line("No operator or kernel changed memory differently.")
        return
    writer.line()
    writer.line("Largest differences (compare - base, all occurrences of a name at a call site):", HEADING)
    writer.table(
        ("difference", "base", "compare", "times", "name", "call site"),
        [
            (
                _signed(row["difference_bytes"]),
                format_bytes(row["base_bytes"]) if row["base_count"] else _ABSENT,
                format_bytes(row["compare_bytes"]) if row["compare_count"] else _ABSENT,
                _times(row["base_count"], row["compare_count"]),
                row["name"].removeprefix("torch._ops."),
                row["site"] or _ABSENT,
            )
            for row in groups.head(MOST_DIFFERENCES).iter_rows(named=True)
        ],
        labels=2,
    )
    if groups.height > MOST_DIFFERENCES:
        writer.line(f"  and {format_count(groups.height - MOST_DIFFERENCES)} more", QUIET)


def largest_differences(comparison: Comparison) -> pl.DataFrame:
    """Sums up the rows of one name, device and call site; the largest differences first, those without any left out."""
    return (
        comparison.rows.group_by("name", "device", "site", maintain_order=True)
        .agg(
            pl.col("difference_bytes", "base_bytes", "compare_bytes").sum(),
            pl.col("base_bytes").count().alias("base_count"),
            pl.col("compare_bytes").count().alias("compare_count"),
        )
        .filter(pl.col("difference_bytes") != 0)
        .sort(pl.col("difference_bytes").abs(), descending=True, maintain_order=True)
    )


def comparison_json(comparison: Comparison) -> str:
    """Returns the comparison as one JSON object: `peaks`, `differences` (by name and call site), `remarks`, `coverage`."""
    content: dict[str, Any] = {
        "peaks": [
            {
                "device": device_name(peak.device),
                "base_bytes": peak.base_bytes,
                "compare_bytes": peak.compare_bytes,
                "difference_bytes": peak.difference_bytes,
                "ratio": peak.ratio if math.isfinite(peak.ratio) else None,
            }
            for peak in comparison.peaks
        ],
        "differences": [
            {**row, "device": device_name(row["device"])}
            for row in largest_differences(comparison).iter_rows(named=True)
        ],
        "remarks": list(comparison.remarks),
        "is_answered": comparison.coverage.is_answered,
        "coverage": {"missing": list(comparison.coverage.missing), "limits": list(comparison.coverage.limits)},
    }
    return json.dumps(content, indent=2, ensure_ascii=False)


def _difference(peak: DevicePeak) -> str:
    if peak.difference_bytes == 0:
        return "equal"
    share = f", {peak.ratio:+.1%}" if math.isfinite(peak.ratio) else ""
    return f"{_signed(peak.difference_bytes)}{share}"


def _signed(size_bytes: int) -> str:
    return f"{'+' if size_bytes > 0 else ''}{format_bytes(size_bytes)}"


def _times(base: int, compare: int) -> str:
    return format_count(base) if base == compare else f"{format_count(base)} / {format_count(compare)}"

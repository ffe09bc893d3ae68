"""The report on a comparison of two runs: peaks, and the largest differences with their origins."""

from __future__ import annotations

import json
import math
from typing import IO, TYPE_CHECKING, Any, Final

import polars as pl

from msmemscope.analysis.host.host_ledger import KEPT_FREE
from msmemscope.model.devices import device_name
from msmemscope.reports.report_text import HEADING, QUIET, ReportWriter, counted
from msmemscope.units import format_bytes, format_count, format_signed_bytes

if TYPE_CHECKING:
    from msmemscope.analysis.compare.comparison import Comparison, DevicePeak

MOST_DIFFERENCES: Final = 10
OUTSIDE: Final = "(outside of operators and kernels)"
"""Name of memory that belongs to none."""
_ABSENT: Final = "-"
_LEAST_HOST_DIFFERENCE: Final = 0.01
"""Of the larger peak, by which a part of host memory must differ to be listed."""
_ALIKE: Final = "Operators and kernels allocated and freed alike while they ran"


def render_comparison(
    comparison: Comparison, out: IO[str], *, width: int | None = None, is_coloured: bool | None = None
) -> None:
    """Write the differences.

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
    writer.sentence(comparison_verdict(comparison), indent=0, style=HEADING)
    writer.line(
        f"Compared: {counted(pairs, 'pair')}, {format_count(alone[1])} only in base, {format_count(alone[0])} only in "
        "compare"
    )
    for peak in comparison.peaks:
        writer.line(
            f"  peak on {device_name(peak.device)}: {format_bytes(peak.base_bytes)} in base, "
            f"{format_bytes(peak.compare_bytes)} in compare ({_difference(peak)})"
        )
    if comparison.host_bytes is not None:
        base_bytes, compare_bytes = comparison.host_bytes
        writer.line(
            f"  resident host memory at its peak: {format_bytes(base_bytes)} in base, {format_bytes(compare_bytes)} in "
            f"compare ({_signed(compare_bytes - base_bytes)})"
        )
    for remark in comparison.remarks:
        writer.sentence(remark, style=QUIET)
    for peak in comparison.peaks:
        parts = comparison.peak_parts.filter((pl.col("device") == peak.device) & (pl.col("difference_bytes") != 0))
        if peak.difference_bytes == 0 or parts.is_empty():
            continue
        writer.line()
        where = f"{device_name(peak.device)}, {_signed(peak.difference_bytes)}"
        writer.line(f"Memory at the peaks of {where} (compare - base):", HEADING)
        _differences(writer, parts, "blocks", "allocated at")
    _host_parts(comparison, writer)
    groups = largest_differences(comparison)
    if groups.is_empty():
        kept = any(peak.difference_bytes for peak in comparison.peaks)
        writer.sentence(f"{_ALIKE}; what differs is what the program kept" if kept else _ALIKE)
        return
    writer.line()
    writer.line("Net memory of operators, allocated minus freed in all calls (compare - base):", HEADING)
    _differences(writer, groups, "calls", "called at")


def comparison_verdict(comparison: Comparison) -> str:
    """Say in one sentence what changed most: the peak of a device with its line, else a part of host memory, else nothing."""
    largest = max(comparison.peaks, key=lambda peak: abs(peak.difference_bytes), default=None)
    if largest is not None and largest.difference_bytes:
        change = pl.col("difference_bytes") * (1 if largest.difference_bytes > 0 else -1)
        parts = comparison.peak_parts.filter(pl.col("device") == largest.device, change > 0).sort(
            change, descending=True, maintain_order=True
        )
        at = ""
        if parts.height and parts["site"][0]:
            at = f", most of it {_signed(parts['difference_bytes'][0])} at {parts['site'][0]}"
        return f"Peak on {device_name(largest.device)}: {_difference(largest)}{at}"
    used = _differing_parts(comparison).filter(pl.col("part") != KEPT_FREE)
    if used.height:
        part, _, _, difference, site = max(used.iter_rows(), key=lambda row: abs(row[3]))
        at = f" at {site}" if site else ""
        return f"Host memory: {_signed(difference)} of {part}{at}; the peaks of devices are equal"
    return "Nothing changed: equal peaks" + (
        f" on {', '.join(device_name(peak.device) for peak in comparison.peaks)}" if comparison.peaks else ""
    )


def _differing_parts(comparison: Comparison) -> pl.DataFrame:
    """Return the parts of host memory that differ by enough to say so."""
    if comparison.host_bytes is None:
        return comparison.host_parts.clear()
    least = _LEAST_HOST_DIFFERENCE * max(comparison.host_bytes)
    return comparison.host_parts.filter(pl.col("difference_bytes").abs() >= least)


def _host_parts(comparison: Comparison, writer: ReportWriter) -> None:
    """Write the parts of host memory that differ by enough to say so."""
    parts = _differing_parts(comparison)
    if parts.is_empty():
        return
    writer.line()
    writer.line("Parts of resident host memory at its peaks (compare - base):", HEADING)
    writer.table(
        ("difference", "base", "compare", "part", "most of it at"),
        [
            (_signed(difference), format_signed_bytes(base), format_signed_bytes(compare), part, site or _ABSENT)
            for part, base, compare, difference, site in parts.iter_rows()
        ],
        labels=2,
    )


def _differences(writer: ReportWriter, groups: pl.DataFrame, counts: str, sites: str) -> None:
    """Write a table whose differences, with those of its last line, sum to the whole."""
    writer.table(
        ("difference", "base", "compare", counts, "name", sites),
        [
            (
                _signed(row["difference_bytes"]),
                format_bytes(row["base_bytes"]) if row["base_count"] else _ABSENT,
                format_bytes(row["compare_bytes"]) if row["compare_count"] else _ABSENT,
                _times(row["base_count"], row["compare_count"]),
                (row["name"] or _ABSENT).removeprefix("torch._ops."),
                row["site"] or _ABSENT,
            )
            for row in groups.head(MOST_DIFFERENCES).iter_rows(named=True)
        ],
        labels=2,
    )
    rest = groups[MOST_DIFFERENCES:]
    if not rest.is_empty():
        together = _signed(sum(rest["difference_bytes"]))
        writer.line(f"  and {format_count(rest.height)} more, together {together}", QUIET)


def largest_differences(comparison: Comparison) -> pl.DataFrame:
    """Sum up the rows of one name, device and call site; the largest differences first, those without any left out.

    Memory that belongs to no operator or kernel is a row of its own: the differences of a device sum to that of its
    totals.
    """
    groups = comparison.rows.group_by("name", "device", "site", maintain_order=True).agg(
        pl.col("difference_bytes", "base_bytes", "compare_bytes").sum(),
        pl.col("base_bytes").count().alias("base_count"),
        pl.col("compare_bytes").count().alias("compare_count"),
    )
    rest = [
        (OUTSIDE, one.device, None, one.difference_bytes, one.base_bytes, one.compare_bytes, 1, 1)
        for one in comparison.remainders
    ]
    return (
        pl.concat([groups, pl.DataFrame(rest, groups.schema, orient="row")])
        .filter(pl.col("difference_bytes") != 0)
        .sort(pl.col("name") == OUTSIDE, -pl.col("difference_bytes").abs(), nulls_last=False, maintain_order=True)
    )


def comparison_json(comparison: Comparison) -> str:
    """Return the comparison as one JSON object.

    `peaks`, `differences` (by name and call site), `peak_parts` (the memory in use at the peaks), `host_parts` (of
    resident host memory), `remarks`, `coverage`.
    """
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
        "peak_parts": [
            {**row, "device": device_name(row["device"])} for row in comparison.peak_parts.iter_rows(named=True)
        ],
        "host_parts": comparison.host_parts.to_dicts(),
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

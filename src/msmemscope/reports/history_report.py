"""The report on the history of a run: what grew, by how much per hour, and since when."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any, Final

import polars as pl

from msmemscope.analysis.history.history import is_resident, is_whole
from msmemscope.model.devices import device_name
from msmemscope.model.pools import Pool, pool_word
from msmemscope.recording.run_history import HistoryKind
from msmemscope.reports.report_text import HEADING, QUIET, ReportWriter, counted, short_site
from msmemscope.reports.sparkline import sparkline
from msmemscope.units import format_bytes, format_signed_bytes, format_span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from msmemscope.analysis.history.history import HistoryResult

MOST_ROWS: Final = 20
_CURVE: Final = 60
_FLAT_SHARE: Final = 0.1
"""Of the most in use, by which it may vary and still be called flat."""
_BEYOND_POOLS: Final = 1.5
"""Resident memory, and the driver's, is a finding of its own if it gained so many times as much as the pools in it."""
_PARTS: Final = {
    HistoryKind.SITE.value: "line",
    HistoryKind.OWNER.value: "owner",
    HistoryKind.HOST.value: "part",
    HistoryKind.HOST_SITE.value: "line (by samples)",
    HistoryKind.CONTAINER.value: "container",
    HistoryKind.POOL.value: "in use",
    HistoryKind.STEP_END.value: "in use after steps",
    HistoryKind.RESERVED.value: "reserved",
}
_EXPLAIN_HOST: Final = (HistoryKind.HOST_SITE, HistoryKind.CONTAINER, HistoryKind.SITE)
"""Kinds of rows that may explain growing host memory; the best explanation first."""


def history_verdicts(result: HistoryResult) -> list[str]:
    """Return what is to be said first of a history that can be judged, one sentence each.

    Args:
        result: By `analysis.history.examine_history`, answered.
    """
    growing = result.growing()
    found = sorted(_grown_wholes(result), key=lambda row: -row["gained_bytes"])
    if found:
        return [_growth(row, growing, result.judged_ns) for row in found]
    lines = growing.filter(pl.col("kind").is_in([HistoryKind.SITE.value, HistoryKind.HOST_SITE.value]))
    return [*(_growth_within(row, result) for row in lines.head(1).iter_rows(named=True)), _no_growth(result)]


def render_history(
    result: HistoryResult, out: IO[str], *, width: int | None = None, is_coloured: bool | None = None
) -> None:
    """Write what grew over a run, and a curve of each pool.

    Args:
        result: By `analysis.history.examine_history`.
        out: Where to write it.
        width: Columns; by default those of the terminal, 80 where there is none.
        is_coloured: Whether to colour; by default if `out` is a terminal.
    """
    writer = ReportWriter(out, width=width, is_coloured=is_coloured)
    for sentence in history_verdicts(result):
        writer.sentence(sentence, indent=0, style=HEADING)
    for row in result.wholes().iter_rows(named=True):
        values = _values(result.course, row)
        curve = sparkline(
            values, width=min(max(writer.width - 40, 20), _CURVE), encoding=getattr(out, "encoding", None)
        )
        writer.line(f"  {curve} {_whole(row)}, {format_bytes(row['last_bytes'])} at last")
    wholes = result.wholes().select("kind", "device", "pool", "name")
    shown = result.growing().filter(~is_whole())
    shown = pl.concat([result.growing().join(wholes, on=wholes.columns, how="semi"), shown])
    shown = shown.sort("gained_bytes", descending=True, maintain_order=True)
    for (device, pool), rows in shown.group_by("device", "pool", maintain_order=True):
        writer.gap()
        writer.line(f"Growing in {_whole({'device': device, 'pool': pool})}", HEADING)
        writer.table(
            ("first", "last", "per hour", "what"),
            [
                (
                    format_bytes(row["first_bytes"]),
                    format_bytes(row["last_bytes"]),
                    format_bytes(round(row["bytes_per_hour"])),
                    f"{_PARTS[row['kind']]} {short_site(row['name'])}".rstrip(),
                )
                for row in rows.head(MOST_ROWS).iter_rows(named=True)
            ],
        )
        if rows.height > MOST_ROWS:
            writer.sentence(f"and {rows.height - MOST_ROWS} more", style=QUIET)


def _grown_wholes(result: HistoryResult) -> Iterator[dict[str, Any]]:
    """Yield the pools that grow; the driver's, and the resident memory, if the pools in them do not explain it."""
    wholes = result.wholes().filter("grows")
    for row in wholes.iter_rows(named=True):
        inside = wholes.filter(pl.col("device") == row["device"], ~is_resident(), pl.col("pool") != row["pool"])
        has_others_inside = row["pool"] in {"", _driver_pool(row["device"])}
        if not has_others_inside or row["gained_bytes"] > _BEYOND_POOLS * int(inside["gained_bytes"].sum()):
            yield row


def _driver_pool(device: int) -> str:
    return pool_word(Pool.HAL, device)


def _growth(row: dict[str, Any], growing: pl.DataFrame, judged_ns: int) -> str:
    gained, pace = format_bytes(row["gained_bytes"]), format_signed_bytes(round(row["bytes_per_hour"]))
    grew = f"{_whole(row)} grew by {gained} in {format_span(judged_ns)} ({pace} per hour)"
    is_pool = row["pool"] != ""
    for kind in (HistoryKind.SITE,) if is_pool else _EXPLAIN_HOST:
        place = pl.col("device") == row["device"]
        if is_pool:
            place &= pl.col("pool") == row["pool"]
        parts = growing.filter(place & (pl.col("kind") == kind.value) & (pl.col("name") != ""))
        if not parts.is_empty():
            part = parts.row(0, named=True)
            size = format_bytes(part["gained_bytes"])
            return f"{grew}: {short_site(part['name'])} holds {size} of it"
    return f"{grew}: no line holds a growing part of it"


def _growth_within(row: dict[str, Any], result: HistoryResult) -> str:
    """A line that grows, though the memory as a whole does not, or varies by more."""
    gained, pace = format_bytes(row["gained_bytes"]), format_bytes(round(row["bytes_per_hour"]))
    place = _whole(row)
    return (
        f"{short_site(row['name'])} grew by {gained} in {format_span(result.judged_ns)} ({pace} per hour), on {place}"
    )


def _no_growth(result: HistoryResult) -> str:
    wholes = result.wholes()
    seen = f"over {format_span(result.judged_ns)} ({counted(result.moment_count, 'moment')})"
    if wholes.is_empty():
        return f"no memory was in use at any moment {seen}"
    spread = (pl.col("most_bytes") - pl.col("least_bytes")) > _FLAT_SHARE * pl.col("most_bytes")
    if wholes.filter(spread).is_empty():
        parts = [
            f"{_in_use(row)} stayed within {format_bytes(row['most_bytes'] - row['least_bytes'])}"
            for row in wholes.iter_rows(named=True)
        ]
        return f"{'as a whole flat' if result.series['grows'].any() else 'flat'}: {', '.join(parts)} {seen}"
    parts = [
        f"{_in_use(row)} was {format_bytes(row['least_bytes'])} to {format_bytes(row['most_bytes'])}"
        for row in wholes.iter_rows(named=True)
    ]
    return f"no steady growth: {', '.join(parts)} {seen}"


def _whole(row: dict[str, Any]) -> str:
    return f"{device_name(row['device'])} ({row['pool']})" if row["pool"] else "host memory"


def _in_use(row: dict[str, Any]) -> str:
    if not row["pool"]:
        return "resident host memory"
    after = " after steps" if row["kind"] == HistoryKind.STEP_END.value else ""
    return f"in use on {_whole(row)}{after}"


def _values(course: pl.DataFrame, row: dict[str, Any]) -> list[int]:
    is_of_it = (pl.col("kind") == row["kind"]) & (pl.col("device") == row["device"]) & (pl.col("pool") == row["pool"])
    values: list[int] = course.filter(is_of_it)["bytes"].clip(0).to_list()
    return values

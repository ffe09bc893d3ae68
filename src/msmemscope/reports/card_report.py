"""The report on the parts of the memory of a whole device."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Final

import polars as pl

from msmemscope.analysis.card.card import Part
from msmemscope.model.devices import device_name, names_of
from msmemscope.reports.report_text import HEADING, QUIET, ReportWriter, counted
from msmemscope.units import format_bytes, format_share, format_signed_bytes

if TYPE_CHECKING:
    from msmemscope.analysis.card.card import CardResult

MOST_SITES: Final = 8
"""Call sites of modules that are listed."""
_BESIDE: Final = (Part.UNRECORDED.value, Part.OTHERS.value, Part.HOST.value)


def render_card(found: CardResult, out: IO[str], *, width: int | None = None, is_coloured: bool | None = None) -> None:
    """Write the parts of the memory of each device, those that grew, and the lines that asked for memory of modules.

    Args:
        found: By `analysis.card.account_for_card`.
        out: Where to write it.
        width: Columns; by default those of the terminal, 80 where there is none.
        is_coloured: Whether to colour; by default if `out` is a terminal.
    """
    writer = ReportWriter(out, width=width, is_coloured=is_coloured)
    if not found.devices:
        writer.line("No memory of a device was in use", HEADING)
    for device in found.devices:
        _write_device(found, device, writer)


def _write_device(found: CardResult, device: int, writer: ReportWriter) -> None:
    total, unknown = found.total_bytes(device), found.unknown_bytes(device)
    parts = found.parts.filter(pl.col("device") == device)
    largest = parts.filter(~pl.col("part").is_in(_BESIDE)).sort("peak_bytes", descending=True).row(0, named=True)
    writer.sentence(
        f"{device_name(device)}: {format_bytes(total)} at the peak, {format_bytes(largest['peak_bytes'])} of it "
        f"{_words(largest['part'], largest['name'], device)}; unknown {format_signed_bytes(unknown)} ({format_share(unknown, total)})",
        indent=0,
        style=HEADING,
    )
    for row in found.growing(device).iter_rows(named=True):
        steps = row["last_step"] - row["first_step"]
        grown = row["last_bytes"] - row["first_bytes"]
        writer.sentence(
            f"{_grown(row['part'], row['name'], device)} grew from {format_bytes(row['first_bytes'])} to "
            f"{format_bytes(row['last_bytes'])} between the ends of steps {row['first_step']} and {row['last_step']}: "
            f"{format_bytes(round(grown / steps))} per step"
        )
    writer.table(
        ("size", "share", "part"),
        [
            (
                format_signed_bytes(row["peak_bytes"]),
                "" if row["part"] in _BESIDE else format_share(row["peak_bytes"], total),
                _words(row["part"], row["name"], device),
            )
            for row in parts.iter_rows(named=True)
        ],
        labels=1,
    )
    sites = found.sites.filter(pl.col("device") == device)
    if sites.height:
        writer.sentence(f"Call sites of what modules of {names_of(device).runtime} have", style=QUIET)
        writer.table(
            ("size", "blocks", "module", "call site"),
            [
                (format_bytes(row["size_bytes"]), str(row["block_count"]), row["module"], row["site"] or "")
                for row in sites.head(MOST_SITES).iter_rows(named=True)
            ],
            labels=2,
        )
        if sites.height > MOST_SITES:
            writer.sentence(f"and {counted(sites.height - MOST_SITES, 'more call site')}", style=QUIET)


def _words(part: str, name: str, device: int) -> str:
    """The name of a part, for people."""
    if part == Part.MODULE.value:
        return f"{name}, a module of {names_of(device).runtime}"
    return {
        Part.POOL.value: f"in use in the pool {name}",
        Part.RESERVE.value: f"held by the pool {name} without use",
        Part.UNKNOWN.value: "unknown",
        Part.UNRECORDED.value: "beside it: in use by this process, and not recorded",
        Part.OTHERS.value: "beside it: in use by other processes",
        Part.HOST.value: "beside it: memory of the host that is pinned, at its own peak",
    }[part]


def _grown(part: str, name: str, device: int) -> str:
    """The name of a part that grows, for people; of a pool all its memory."""
    return f"the pool {name}" if part == Part.POOL.value else _words(part, name, device)

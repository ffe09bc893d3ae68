"""The report on the host memory of a process: its parts at the peak and at the end, and the lines that made it."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Final

from msmemscope.reports.report_text import HEADING, QUIET, ReportWriter
from msmemscope.units import format_bytes, format_count, format_signed_bytes

if TYPE_CHECKING:
    from msmemscope.analysis.host.host_ledger import HostLedger
    from msmemscope.analysis.host.processes_together import HostTogether

MOST_LINES: Final = 8
"""Lines that are listed."""


def render_host_ledger(
    found: HostLedger, out: IO[str], *, width: int | None = None, is_coloured: bool | None = None
) -> None:
    """Write the parts of the host memory of a process.

    Args:
        found: By `analysis.host.host_ledger.account_for_host`.
        out: Where to write it.
        width: Columns; by default those of the terminal, 80 where there is none.
        is_coloured: Whether to colour; by default if `out` is a terminal.
    """
    writer = ReportWriter(out, width=width, is_coloured=is_coloured)
    writer.sentence(
        f"Host memory: {format_bytes(found.peak_bytes)} resident at the peak, {format_bytes(found.end_bytes)} at the end",
        indent=0,
        style=HEADING,
    )
    if found.group_limit_bytes:
        writer.sentence(
            f"its control group may have {format_bytes(found.group_limit_bytes)}; it used "
            f"{format_bytes(found.group_bytes)} at most, {format_bytes(found.group_end_bytes)} at the end"
        )
    writer.table(
        ("at the peak", "error", "at the end", "part"),
        [
            (
                format_signed_bytes(row["peak_bytes"]),
                "" if row["peak_error_bytes"] is None else format_bytes(row["peak_error_bytes"]),
                format_signed_bytes(row["end_bytes"]),
                row["part"],
            )
            for row in found.parts.iter_rows(named=True)
        ],
        labels=1,
    )
    if not found.is_sampled:
        writer.sentence("Allocations besides tensors were not sampled: they are in the unknown part.", style=QUIET)
        return
    if not found.lines.is_empty():
        writer.gap()
        writer.line("By line at the peak, without imports, as samples estimate it", HEADING)
        writer.table(
            ("size", "samples", "memory", "line"),
            [
                (format_bytes(row["peak_bytes"]), str(row["samples"]), row["what"], row["site"])
                for row in found.lines.head(MOST_LINES).iter_rows(named=True)
            ],
            labels=2,
        )
    if not found.containers.is_empty():
        writer.gap()
        writer.line("Containers that go on to grow", HEADING)
        writer.table(
            ("grown by", "entries", "new entries", "container"),
            [
                (
                    format_bytes(row["grown_bytes"]),
                    format_count(row["entries"]),
                    format_count(row["grown_entries"]),
                    f"{row['type']} of {row['entry_type']}: {row['held_by']}",
                )
                for row in found.containers.head(MOST_LINES).iter_rows(named=True)
            ],
            labels=1,
        )


def render_host_together(found: HostTogether, out: IO[str]) -> None:
    """Write what several processes have together.

    Args:
        found: By `analysis.host.processes_together.host_memory_together`.
        out: Where to write it.
    """
    writer = ReportWriter(out)
    writer.sentence(
        f"All processes together: {format_bytes(found.peak_bytes)} at their peak, with {found.processes} alive",
        indent=0,
        style=HEADING,
    )
    writer.sentence(
        "Pages that they share count once. Their resident memory adds up to "
        f"{format_bytes(found.resident_bytes)}: there such pages count once for each process."
    )
    if found.left_out:
        writer.sentence(f"Not in it: {found.left_out} more, which did not record what they share.")

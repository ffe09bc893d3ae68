"""The coverage of an answer: why there is none, or what it leaves out."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from msmemscope.reports.report_text import HEADING, QUIET, ReportWriter

if TYPE_CHECKING:
    from msmemscope.analysis.coverage import Coverage


def render_missing(coverage: Coverage, out: IO[str]) -> None:
    """Write why there is no answer."""
    writer = ReportWriter(out)
    writer.line(f"{coverage.question}: not known", HEADING)
    for line in coverage.missing:
        writer.sentence(line)


def render_limits(coverage: Coverage, out: IO[str]) -> None:
    """Write what an answer leaves out; nothing if it covers everything."""
    writer = ReportWriter(out)
    for line in coverage.limits:
        writer.sentence(f"Not seen: {line}", style=QUIET)

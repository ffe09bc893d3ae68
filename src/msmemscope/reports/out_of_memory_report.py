"""The report on allocations that failed for lack of memory, for one process."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from msmemscope.reports import out_of_memory_section
from msmemscope.reports.report_text import HEADING, ReportWriter
from msmemscope.units import format_bytes, format_count

if TYPE_CHECKING:
    from msmemscope.analysis.peak.out_of_memory import OutOfMemoryResult
    from msmemscope.recording.timeline import Ranking


def render_out_of_memory(
    result: OutOfMemoryResult, out: IO[str], *, width: int | None = None, is_coloured: bool | None = None
) -> None:
    """Write what is known about each failure that is described.

    Args:
        result: By `analysis.out_of_memory.analyze_out_of_memory`.
        out: Where to write it.
        width: Columns; by default those of the terminal, 80 where there is none.
        is_coloured: Whether to colour; by default if `out` is a terminal.
    """
    writer = ReportWriter(out, width=width, is_coloured=is_coloured)
    if not result.failures:
        writer.line("No allocation failed for lack of memory", HEADING)
        return
    unseen = result.failure_count - len(result.failures)
    if unseen > 0:
        writer.line(f"{format_count(unseen)} earlier failures are not described")
    for number, failure in enumerate(result.failures):
        if number:
            writer.line()
        writer.line(out_of_memory_section.heading(failure, 0), HEADING)
        for sentence in out_of_memory_section.details(failure):
            writer.sentence(sentence)
        for blocks in out_of_memory_section.pools_to_show(failure):
            if blocks.by_module is not None:
                _ranking(writer, "by module", blocks.by_module)
            else:
                _ranking(writer, "by operator", blocks.by_operator)
            _ranking(writer, "by source line", blocks.by_source_line)
        _ranking(writer, "largest blocks", out_of_memory_section.largest_blocks(failure))


def _ranking(writer: ReportWriter, heading: str, ranking: Ranking) -> None:
    shares = [*ranking.shares, *([ranking.other] if ranking.other is not None else [])]
    writer.table(
        ("size", "blocks", heading),
        [(format_bytes(share.size_bytes), format_count(share.block_count), share.label) for share in shares],
    )

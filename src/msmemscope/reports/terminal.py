"""The summary at the end of a run, for a terminal, a pipe or a log file."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from msmemscope.reports.report_text import HEADING, StyledLines

if TYPE_CHECKING:
    from msmemscope.reports.run_summary import RunSummary


def render_run(summary: RunSummary, out: IO[str], *, width: int | None = None) -> None:
    """Write the summary of a run.

    Args:
        summary: The summary.
        out: Where to write it; colours only if it is a terminal.
        width: Columns; by default those of the terminal, 80 where there is none.
    """
    terminal = StyledLines(out, width=width)
    if summary.processes:
        # Imported where there is something to show: tables and findings would be most of a short run's time.
        from msmemscope.reports.summary_screen import screen_lines

        lines = screen_lines(summary, terminal, getattr(out, "encoding", None))
    else:
        lines = _nothing_recorded(summary, terminal)
    for line in lines:
        out.write(f"{line}\n")


def _nothing_recorded(summary: RunSummary, terminal: StyledLines) -> list[str]:
    reasons = (*summary.removed, *summary.nothing_recorded)
    lines = ["", terminal.line("msmemscope: nothing was recorded", HEADING)]
    lines += [line for reason in reasons for line in terminal.sentence(f"  {reason}", indent=4)]
    remarks = [line for text in dict.fromkeys(summary.unseen) for line in terminal.sentence(f"  {text}", indent=4)]
    return [*lines, "", terminal.line("Coverage", HEADING), *remarks] if remarks else lines

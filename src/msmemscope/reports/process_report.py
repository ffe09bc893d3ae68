"""Everything that is known of one process, in words: the summary at the end of a run has no room for it.

Readable at 80 columns and without colour. Labels and paths come from the observed
program: they are shown as plain text and never read as markup.
"""

from __future__ import annotations

# The reports of findings are imported where there are findings. They import the analyses, and with them Polars: half a
# second that a run without a recording does not need.
from typing import IO, TYPE_CHECKING, Final

from rich.table import Table
from rich.text import Text

from msmemscope.model.devices import device_name
from msmemscope.model.events import EVENT_WORDS, EventKind
from msmemscope.model.pools import pool_word
from msmemscope.reports.plain_text import printable, wrapped
from msmemscope.reports.rank_text import process_name
from msmemscope.reports.report_text import (
    HEADING,
    QUIET,
    SHORTEST_LABEL,
    console_for,
    counted,
    cut_label,
    relative_path,
)
from msmemscope.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from msmemscope.analysis.peak.overview import PoolPeak
    from msmemscope.recording.block_sets import BlockSet, Share
    from msmemscope.reports.run_summary import ProcessSummary

REPORT_FILE: Final = "report.txt"
"""The file in the folder of a capture that this is written to."""

REPORT_WIDTH: Final = 120
"""Columns of that file."""
_NANOSECONDS_PER_SECOND: Final = 1_000_000_000
_NUMBERS_WIDTH: Final = 30
"""Columns that a line of a ranking needs beside its label."""
_ROWLESS_WORDS: Final[dict[int, str]] = {
    EventKind.FUNCTION_CALL: "function calls",
    EventKind.RESERVED: "totals of pools",
    EventKind.DEVICE_USAGE: "totals of devices",
    EventKind.OWNER: "labels of blocks",
    EventKind.WATCH: "changes of watched memory",
    EventKind.WATCH_START: "beginnings of watching",
    EventKind.WATCH_STOP: "ends of watching",
    EventKind.IMPLIED_STEP: "ends of implied steps",
    EventKind.HOLDER: "holders of blocks",
    EventKind.MAPPED: "mapped memory",
    EventKind.UNMAPPED: "unmapped memory",
    EventKind.REQUESTED: "requested sizes of blocks",
    EventKind.HOST_SAMPLE: "samples of host memory",
    EventKind.HOST_SAMPLE_FREE: "ends of samples of host memory",
    EventKind.HOST_RESIDENT: "parts of blocks of the host that are in memory",
    EventKind.HOST_MEMORY: "figures of host memory",
    EventKind.CONTAINER: "containers that grew",
}


def render_process(process: ProcessSummary, out: IO[str], *, width: int | None = None) -> None:
    """Write everything about a process.

    Args:
        process: The process.
        out: Where to write it; colours only if it is a terminal.
        width: Columns; by default those of the terminal, 80 where there is none.
    """
    _ProcessReport(console_for(out, width=width)).write(process)


class _ProcessReport:
    def __init__(self, console: Console) -> None:
        self._console = console

    def write(self, process: ProcessSummary) -> None:
        self._line(f"{process_name(process.process_id, process.place)}: {process.program}", HEADING)
        self._files(process)
        self._events(process)
        self._memory(process)
        self._host_memory(process)
        self._owners(process)
        self._findings(process)
        self._coverage(process)

    def _files(self, process: ProcessSummary) -> None:
        self._line(f"Files in {relative_path(process.directory)}", HEADING)
        for file in process.files:
            path = file.path
            inside = (
                path.relative_to(process.directory) if path.is_relative_to(process.directory) else relative_path(path)
            )
            rows = "" if file.rows is None else f" ({counted(file.rows, 'row')})"
            self._line(f"  {inside}{rows}")
        if not process.files:
            self._line("  event_log (no dump files were written)")

    def _events(self, process: ProcessSummary) -> None:
        if process.overview is None:
            return
        by_word: dict[str, int] = {}
        for kind, count in process.overview.events_by_kind.items():
            word = _ROWLESS_WORDS.get(kind) or EVENT_WORDS.get(kind, "others")
            by_word[word] = by_word.get(word, 0) + count
        if by_word:
            counts = [f"{format_count(count)} {word}" for word, count in by_word.items()]
            self._line("")
            self._wrapped(f"Events: {', '.join(counts)}")

    def _memory(self, process: ProcessSummary) -> None:
        if process.overview is None:
            return
        self._out_of_memory(process)
        for peak in process.overview.peaks:
            self._line("")
            self._line(place_of_peak(peak, process), HEADING)
            self._block_set(peak.in_use)
        for rest in process.overview.never_freed:
            where = f"{device_name(rest.device)} ({pool_word(rest.pool, rest.device)})"
            size, blocks = format_bytes(rest.blocks.size_bytes), counted(rest.blocks.block_count, "block")
            self._line("")
            self._line(
                f"{'Not freed yet' if process.is_running else 'Never freed'} on {where}: {size} in {blocks}", HEADING
            )
            if process.leaked_bytes:
                self._line(f"  {format_bytes(process.leaked_bytes)} of this process leaked, see below.", QUIET)
            else:
                self._line("  Memory that a program keeps to its end, such as model parameters, is normal here.", QUIET)
            self._block_set(rest.blocks, by_operator=False)

    def _host_memory(self, process: ProcessSummary) -> None:
        if process.host_memory is not None:
            from msmemscope.reports.host_ledger_report import render_host_ledger

            self._line("")
            render_host_ledger(process.host_memory, self._console.file, width=self._console.width)

    def _owners(self, process: ProcessSummary) -> None:
        if process.decomposition is not None:
            from msmemscope.reports.decomposition_section import print_decomposition

            print_decomposition(process.decomposition, self._console)

    def _findings(self, process: ProcessSummary) -> None:
        """Write the findings of the analyses in one process: first the lines on leaks that scripts look for."""
        out, width = self._console.file, self._console.width
        if process.watch is not None:
            from msmemscope.reports.watch_report import render_watch

            self._line("")
            render_watch(process.watch, out, width=width)
        if process.leaks is not None:
            from msmemscope.reports.leaks_report import render_leaks

            self._line("")
            render_leaks(process.leaks, out, width=width, most_blocks=None)
        if process.reserved is not None and process.reserved.found:
            from msmemscope.reports.reserved_report import render_reserved

            self._line("")
            render_reserved(process.reserved, out, width=width)
        if process.inefficient is not None:
            from msmemscope.reports.inefficient_report import render_inefficient

            self._line("")
            render_inefficient(process.inefficient, out, width=width)

    def _out_of_memory(self, process: ProcessSummary) -> None:
        result = process.overview.out_of_memory if process.overview is not None else None
        if result is None or not result.failures:
            return
        from msmemscope.reports import out_of_memory_report

        failure = result.failures[-1]
        self._line("")
        self._line(out_of_memory_report.heading(failure, process.start_ns), HEADING)
        for sentence in out_of_memory_report.details(failure):
            self._wrapped(f"  {sentence}", indent=4)
        for blocks in out_of_memory_report.pools_to_show(failure):
            self._block_set(blocks)
        table = self._ranking_table()
        largest = out_of_memory_report.largest_blocks(failure)
        add_shares(table, "largest blocks", largest.lines(), label_width(self._console.width))
        self._console.print(table)
        for sentence in out_of_memory_report.earlier_failures(result, process.start_ns):
            self._wrapped(f"  before: {sentence}", indent=4)

    def _coverage(self, process: ProcessSummary) -> None:
        lines = [f"observed: {source}" for source in process.observed]
        lines += [f"not observed: {source}" for source in process.unobserved]
        lines += process.remarks
        if process.decomposition is not None:
            lines += [f"decompose: {limit}" for limit in process.decomposition.coverage.limits]
        lines += [one.sentence for one in process.not_judged]
        lines += process.analysis_remarks
        if process.tool_memory_bytes:
            limit = process.tool_memory_limit_bytes
            at_most = f", its tables at most {format_bytes(limit)}" if limit else ""
            memory, log = format_bytes(process.tool_memory_bytes), format_bytes(process.log_bytes)
            lines.append(f"cost: {memory} of memory in the program{at_most}; {log} of event log")
        if lines:
            self._line("")
            self._line("Coverage", HEADING)
        for line in lines:
            self._wrapped(f"  {line}", indent=4)

    def _block_set(self, blocks: BlockSet, *, by_operator: bool = True) -> None:
        table = self._ranking_table()
        width = label_width(self._console.width)
        for heading, ranking in blocks.rankings(by_operator=by_operator):
            add_shares(table, heading, ranking.lines(), width)
        self._console.print(table)

    @staticmethod
    def _ranking_table() -> Table:
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        return table

    def _line(self, text: str, style: str = "") -> None:
        """Write one line as it is: paths must stay whole, so that they can be copied."""
        self._console.print(Text(printable(text), style), soft_wrap=True)

    def _wrapped(self, text: str, indent: int = 2) -> None:
        """Write a sentence, wrapped at the width with its further lines indented."""
        for number, line in enumerate(wrapped(text, max(self._console.width - indent, SHORTEST_LABEL))):
            self._console.print(Text(" " * indent * min(number, 1) + line), soft_wrap=True)


def place_of_peak(peak: PoolPeak, process: ProcessSummary, name: str = "", reserved_bytes: int | None = None) -> str:
    """Return how high the peak of a pool was, and where; and when, or in which process if it is given a name.

    Args:
        peak: The peak.
        process: It is of that.
        name: Of the process.
        reserved_bytes: The most that the pool has reserved, which is said in the place of the time.
    """
    after = "" if reserved_bytes is None else f", {format_bytes(reserved_bytes)} reserved"
    if not name and not after and process.start_ns and peak.timestamp_ns >= process.start_ns:
        seconds = (peak.timestamp_ns - process.start_ns) / _NANOSECONDS_PER_SECOND
        after = f", {seconds:.2f} s after recording began"
    where = f"{device_name(peak.device)} ({pool_word(peak.pool, peak.device)})"
    blocks = counted(peak.in_use.block_count, "block")
    of = f" of {name}" if name else ""
    return f"Peak on {where}{of}: {format_bytes(peak.peak_bytes)} in {blocks}{after}"


def label_width(width: int) -> int:
    """Return the columns that the label of a line has beside its numbers, on a terminal with so many."""
    return max(width - _NUMBERS_WIDTH, SHORTEST_LABEL)


def add_shares(table: Table, heading: str, shares: Sequence[Share], label_width: int) -> None:
    """Add a heading and a row per share to a table of three columns."""
    table.add_row(Text(f"  {heading}", QUIET), Text("size", QUIET), Text("blocks", QUIET))
    for share in shares:
        label = cut_label(share.label, label_width - 4)
        table.add_row(Text(f"    {label}"), Text(format_bytes(share.size_bytes)), Text(format_count(share.block_count)))

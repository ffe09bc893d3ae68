"""The summary at the end of a run, for a terminal, a pipe or a log file.

Readable at 80 columns and without colour. Labels and paths come from the observed
program: they are shown as plain text and never read as markup.
"""

from __future__ import annotations

# The reports of findings are imported where there are findings: they bring the analyses along, and with them Polars,
# which would be half a second for a run that recorded nothing.
from typing import IO, TYPE_CHECKING, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from msmemscope.model.devices import device_name
from msmemscope.model.events import EVENT_WORDS, EventKind
from msmemscope.model.pools import pool_word
from msmemscope.reports.plain_text import cut_end, printable
from msmemscope.reports.report_text import HEADING, QUIET, SHORTEST_LABEL, counted, cut_label, relative_path
from msmemscope.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from msmemscope.recording.block_sets import BlockSet, Ranking
    from msmemscope.reports.run_summary import ProcessSummary, RunSummary

_NANOSECONDS_PER_SECOND: Final = 1_000_000_000
_NUMBERS_WIDTH: Final = 30
"""Columns that a line of a ranking needs beside its label."""
_MOST_NAMES: Final = 6
_MOST_ANALYZED: Final = 3
"""Processes with findings that are reported in full."""
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
}


def render_run(summary: RunSummary, out: IO[str], *, width: int | None = None) -> None:
    """Write the summary of a run.

    Args:
        summary: What to say.
        out: Where to write it; colours only if it is a terminal.
        width: Columns; by default those of the terminal, 80 where there is none.
    """
    console = Console(file=out, width=width, highlight=False, markup=False, emoji=False)
    _Writer(console).run(summary)


class _Writer:
    def __init__(self, console: Console) -> None:
        self._console = console

    def run(self, summary: RunSummary) -> None:
        processes = summary.processes
        events = sum(process.event_count for process in processes)
        self._line("")
        if not processes:
            self._line("msmemscope: nothing was recorded", HEADING)
            for reason in (*summary.removed, *summary.nothing_recorded):
                self._wrapped(f"  {reason}", indent=4)
        else:
            of = "1 process" if len(processes) == 1 else f"{len(processes)} processes"
            self._line(f"msmemscope: {counted(events, 'event')} of {of}", HEADING)
        if len(processes) == 1:
            self._process(processes[0])
        elif processes:
            self._table_of(processes)
            from msmemscope.reports.out_of_memory_report import by_process

            failed = list(by_process(processes))
            if failed:
                self._line("")
            for sentence in failed:
                self._wrapped(sentence)
            largest = max(processes, key=lambda process: process.peak_bytes)
            if largest.peak_bytes:
                self._line("")
                self._line(f"Process {largest.process_id}, the one with the highest peak:", HEADING)
                self._memory(largest)
                self._owners(largest)
            self._findings_of(processes, largest)
        self._coverage(summary)
        running = [str(process.process_id) for process in processes if process.is_running]
        if running:
            self._line("")
            self._line(f"Still running: process {_listed(running)}. When it has ended: {summary.recover_command}")

    def _process(self, process: ProcessSummary) -> None:
        self._line("")
        self._files(process)
        self._events(process)
        self._memory(process)
        self._owners(process)
        self._findings(process)

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
            after = ""
            if process.start_ns and peak.timestamp_ns >= process.start_ns:
                seconds = (peak.timestamp_ns - process.start_ns) / _NANOSECONDS_PER_SECOND
                after = f", {seconds:.2f} s after recording began"
            where = f"{device_name(peak.device)} ({pool_word(peak.pool, peak.device)})"
            blocks = counted(peak.in_use.block_count, "block")
            self._line("")
            self._line(f"Peak on {where}: {format_bytes(peak.peak_bytes)} in {blocks}{after}", HEADING)
            self._block_set(peak.in_use)
        for rest in process.overview.never_freed:
            where = f"{device_name(rest.device)} ({pool_word(rest.pool, rest.device)})"
            size, blocks = format_bytes(rest.blocks.size_bytes), counted(rest.blocks.block_count, "block")
            self._line("")
            self._line(
                f"{'Not freed yet' if process.is_running else 'Never freed'} on {where}: {size} in {blocks}", HEADING
            )
            self._line("  What a program keeps to its end, such as model parameters, is normal here.", QUIET)
            self._block_set(rest.blocks, by_operator=False)

    def _owners(self, process: ProcessSummary) -> None:
        if process.decomposition is not None:
            from msmemscope.reports.decomposition_section import print_decomposition

            print_decomposition(process.decomposition, self._console)

    def _findings(self, process: ProcessSummary) -> None:
        """Write what the analyses found in one process: first the lines on leaks that scripts look for."""
        out, width = self._console.file, self._console.width
        if process.watch is not None:
            from msmemscope.reports.watch_report import render_watch

            self._line("")
            render_watch(process.watch, out, width=width)
        if process.leaks is not None:
            from msmemscope.reports.leaks_report import render_leaks

            self._line("")
            render_leaks(process.leaks, out, width=width)
        if process.inefficient is not None:
            from msmemscope.reports.inefficient_report import render_inefficient

            self._line("")
            render_inefficient(process.inefficient, out, width=width)

    def _findings_of(self, processes: Sequence[ProcessSummary], largest: ProcessSummary) -> None:
        """The first processes with findings in full, a line for each of the others; without any, the largest one."""
        found = [process for process in processes if process.finding_count] or [largest]
        for process in found[:_MOST_ANALYZED]:
            if any(result is not None for result in (process.leaks, process.inefficient, process.watch)):
                self._line("")
                self._line(f"Analyses of process {process.process_id}:", HEADING)
                self._findings(process)
        if len(found) > _MOST_ANALYZED:
            self._line("")
        for process in found[_MOST_ANALYZED:]:
            self._line(f"Process {process.process_id}: {', '.join(_findings_in_short(process))}")

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
        _add_ranking(table, "largest blocks", out_of_memory_report.largest_blocks(failure), self._label_width())
        self._console.print(table)
        for sentence in out_of_memory_report.earlier_failures(result, process.start_ns):
            self._wrapped(f"  before: {sentence}", indent=4)

    def _block_set(self, blocks: BlockSet, *, by_operator: bool = True) -> None:
        table = self._ranking_table()
        label_width = self._label_width()
        for heading, ranking in blocks.rankings(by_operator=by_operator):
            _add_ranking(table, heading, ranking, label_width)
        self._console.print(table)

    def _label_width(self) -> int:
        return max(self._console.width - _NUMBERS_WIDTH, SHORTEST_LABEL)

    @staticmethod
    def _ranking_table() -> Table:
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        return table

    def _table_of(self, processes: Iterable[ProcessSummary]) -> None:
        table = Table.grid(padding=(0, 2, 0, 0))
        for justify in ("right", "left", "right", "right", "right"):
            table.add_column(justify=justify, no_wrap=True)
        table.add_row(*(Text(word, QUIET) for word in ("process", "program", "events", "peak", "never freed")))
        program_width = max(self._console.width - 52, SHORTEST_LABEL)
        totals = [0, 0]
        for process in processes:
            totals[0] += process.event_count
            totals[1] += process.never_freed_bytes
            table.add_row(
                Text(f"{process.process_id}"),
                Text(cut_end(process.program, program_width)),
                Text(format_count(process.event_count)),
                Text(format_bytes(process.peak_bytes)),
                Text(format_bytes(process.never_freed_bytes)),
            )
        table.add_row(
            Text(""), Text("all together"), Text(format_count(totals[0])), Text(""), Text(format_bytes(totals[1]))
        )
        self._line("")
        self._console.print(table)
        self._line("")
        parents = {process.directory.parent for process in processes}
        for parent in sorted(parents):
            self._line(f"Files in {relative_path(parent)}", HEADING)
            for process in processes:
                if process.directory.parent == parent:
                    self._line(f"  {process.directory.name}")

    def _coverage(self, summary: RunSummary) -> None:
        lines: list[str] = list(summary.removed) if summary.processes else []
        lines.extend(_grouped("observed", [(process, process.observed) for process in summary.processes]))
        lines.extend(_grouped("not observed", [(process, process.unobserved) for process in summary.processes]))
        lines.extend(f"not observed: {reason}" for reason in summary.unobservable)
        if summary.unrecorded_count:
            names = _listed(list(summary.unrecorded))
            are = "process" if summary.unrecorded_count == 1 else "processes"
            lines.append(f"nothing to record in {summary.unrecorded_count} {are}: {names}")
        lines.extend(_grouped("", [(process, process.remarks) for process in summary.processes]))
        lines.extend(
            _grouped(
                "decompose",
                [
                    (one, one.decomposition.coverage.limits)
                    for one in summary.processes
                    if one.decomposition is not None
                ],
            )
        )
        lines.extend(_grouped("", [(process, process.analysis_remarks) for process in summary.processes]))
        memory = sum(process.tool_memory_bytes for process in summary.processes)
        if memory:
            limit = sum(process.tool_memory_limit_bytes for process in summary.processes)
            log = sum(process.log_bytes for process in summary.processes)
            at_most = f", its tables at most {format_bytes(limit)}" if limit else ""
            lines.append(
                f"cost: {format_bytes(memory)} of memory in the program{at_most}; {format_bytes(log)} of event log"
            )
        if lines:
            self._line("")
            self._line("Coverage", HEADING)
        for line in lines:
            self._wrapped(f"  {line}", indent=4)

    def _line(self, text: str, style: str = "") -> None:
        """Write one line as it is: paths must stay whole, so that they can be copied."""
        self._console.print(Text(printable(text), style), soft_wrap=True)

    def _wrapped(self, text: str, indent: int = 2) -> None:
        """Write a sentence, wrapped at the width with its further lines indented."""
        lines = Text(printable(text)).wrap(self._console, max(self._console.width - indent, SHORTEST_LABEL))
        for number, line in enumerate(lines):
            line.rstrip()
            self._console.print(line if number == 0 else Text(" " * indent) + line, soft_wrap=True)


def _findings_in_short(process: ProcessSummary) -> Iterator[str]:
    if process.watch is not None and process.watch.unexpected.height:
        yield f"{counted(process.watch.unexpected.height, 'unexpected change')} of watched memory"
    if process.leaks is not None:
        leaked, growing = process.leaks.step_leaks.leaked, process.leaks.slow_leaks.sites.height
        if leaked.height:
            yield f"{format_bytes(int(leaked['size'].sum()))} leaked in {counted(leaked.height, 'block')}"
        if growing:
            yield f"{counted(growing, 'growing call site')}"
    if process.inefficient is not None and process.inefficient.findings.height:
        yield f"{counted(process.inefficient.findings.height, 'finding')} of inefficient memory"


def _add_ranking(table: Table, heading: str, ranking: Ranking, label_width: int) -> None:
    table.add_row(Text(f"  {heading}", QUIET), Text("size", QUIET), Text("blocks", QUIET))
    for share in ranking.lines():
        label = cut_label(share.label, label_width - 4)
        table.add_row(Text(f"    {label}"), Text(format_bytes(share.size_bytes)), Text(format_count(share.block_count)))


def _grouped(heading: str, texts: list[tuple[ProcessSummary, tuple[str, ...]]]) -> list[str]:
    """One line per different text; names the processes where not all of them share it."""
    holders: dict[str, list[str]] = {}
    for process, sentences in texts:
        for sentence in sentences:
            holders.setdefault(sentence, []).append(str(process.process_id))
    lines = []
    for sentence, identities in holders.items():
        who = "" if len(identities) == len(texts) else f" (process {_listed(identities)})"
        lines.append(f"{heading}: {sentence}{who}" if heading else f"{sentence}{who}")
    return lines


def _listed(names: list[str]) -> str:
    if len(names) > _MOST_NAMES:
        return f"{', '.join(names[:_MOST_NAMES])} and {len(names) - _MOST_NAMES} more"
    return ", ".join(names)

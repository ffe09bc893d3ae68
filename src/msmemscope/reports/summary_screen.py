"""The summary of a run on one screen, the verdict first.

It never takes more lines than a screen has. The report of each process, a file beside its dumps, has the rest. Readable
at 80 columns and without colour. Labels and paths come from the observed program: they are shown as plain text and
never read as markup.
"""

from __future__ import annotations

import dataclasses
import functools
import io
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table
from rich.text import Text

from msmemscope.model.devices import device_name
from msmemscope.model.owners import is_known_owner
from msmemscope.model.place import Place
from msmemscope.model.pools import Pool
from msmemscope.reports.html import HTML_REPORT_FILE
from msmemscope.reports.plain_text import cut_end
from msmemscope.reports.process_report import REPORT_FILE, add_shares, label_width, place_of_peak
from msmemscope.reports.report_text import ALARM, HEADING, QUIET, SHORTEST_LABEL, counted, relative_path
from msmemscope.reports.run_summary import listed
from msmemscope.reports.sparkline import sparkline
from msmemscope.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from msmemscope.analysis.peak.overview import PoolPeak
    from msmemscope.recording.block_sets import Ranking
    from msmemscope.reports.report_text import StyledLines
    from msmemscope.reports.run_summary import ProcessSummary, RunSummary
    from msmemscope.reports.verdict import Verdict

MOST_LINES: Final = 24
"""Lines of the summary of one process with one finding."""
MOST_LINES_WITH_LISTS: Final = 40
"""Likewise, where the lines for scripts were asked for."""
MOST_LINES_OF_SEVERAL: Final = 60
"""Lines of the summary of several processes."""
_LINES_OF_FINDING: Final = 3
"""Lines more for each further finding."""

_MOST_FILES: Final = 4
_MOST_POOLS: Final = 4
_MOST_CURVES: Final = 2
_MOST_SHARES: Final = 5
_LEAST_SHARES: Final = 2
_MOST_PROCESSES: Final = 8
_ROOM_FOR_PEAKS: Final = 16
"""Lines that the peaks get before there is room for more than the least remarks."""
_NUMBERS_OF_PROCESS: Final = 56
"""Columns of the table of processes besides their names."""
_CURVE_OF_PROCESS: Final = 20
"""Letters of the curve in the table of processes."""
_NANOSECONDS_PER_SECOND: Final = 1_000_000_000
_CAPTURE: Final = "event log"
"""The format of captures, which have a report beside them."""
_SNAPSHOT: Final = "torch snapshot"
"""The format of snapshots of torch. They have one pool, and of the driver's memory only the pool's segments."""


@dataclasses.dataclass(frozen=True)
class _Limits:
    """How long the sections may be that have the same kind of line over and over."""

    verdicts: int
    blocks: int
    """Leaked blocks that are listed, of all devices together."""
    devices: int
    """Devices whose leaks are summed up in the lines that scripts look for."""
    gaps: int
    """Pools whose fluctuation is listed."""
    largest: int
    """Blocks that were alive when memory ran out that are listed."""
    watch: int
    remarks: int


_LIMITS: Final = (_Limits(3, 10, 8, 1, 3, 8, 5), _Limits(3, 4, 8, 1, 1, 5, 4), _Limits(2, 1, 2, 0, 0, 3, 3))
"""From the limits for most runs to those for runs with every kind of finding."""


def screen_lines(summary: RunSummary, terminal: StyledLines, encoding: str | None) -> list[str]:
    """Return the lines of the summary of a run that recorded something.

    Args:
        summary: The summary; at least one process.
        terminal: The terminal: its width, and whether it has colours.
        encoding: Of its text; None if it can hold any letter.
    """
    summary = dataclasses.replace(summary, processes=_ranks_once(summary.processes))
    return _Screen(terminal, encoding).lines(summary)


class _Screen:
    """Makes the lines, section by section; a section knows how many it may take.

    Args:
        terminal: The terminal: its width, and whether it has colours.
        encoding: Of its text; None if it can hold any letter.
    """

    def __init__(self, terminal: StyledLines, encoding: str | None) -> None:
        self._terminal = terminal
        self._encoding = encoding
        self._rest = REPORT_FILE
        """The place of everything that does not fit."""

    def lines(self, summary: RunSummary) -> list[str]:
        """Return all lines of the summary."""
        processes = summary.processes
        if any(process.form != _CAPTURE for process in processes):
            self._rest = "`msmemscope report`"
        from msmemscope.reports.run_verdicts import verdicts

        found = verdicts(processes)
        limit = MOST_LINES_OF_SEVERAL
        if len(processes) == 1:
            is_watched = processes[0].watch is not None and processes[0].watch.was_watched
            limit = MOST_LINES_WITH_LISTS if processes[0].lists_leaks or is_watched else MOST_LINES
        for limits in _LIMITS:
            more = len(found[: limits.verdicts]) - 1
            limit += _LINES_OF_FINDING * max(more, 0) if limits is _LIMITS[0] else 0
            lines = self._lines_within(limit, limits, summary, found)
            if len(lines) <= limit:
                break
        return lines

    def _lines_within(self, most: int, limits: _Limits, summary: RunSummary, found: Sequence[Verdict]) -> list[str]:
        """The lines with sections of some length; more than the room only where these sections alone take more."""
        processes = summary.processes
        is_one = len(processes) == 1
        head = self._verdicts(summary, found, limits)
        before = self._failures(processes[0], limits) if is_one else self._processes(_gravest_first(processes, found))
        behind = (
            self._documents(processes, limits),
            self._watch(processes, limits),
            self._files(processes),
            self._running(summary),
        )
        room = most - 1 - len(head) - sum(len(section) + 1 for section in (before, *behind) if section)
        remarks = self._remarks(summary, found, room=max(room - _ROOM_FOR_PEAKS, limits.remarks))
        room -= len(remarks) + 1 if remarks else 0
        largest = max(processes, key=lambda process: process.peak_bytes)
        peaks = self._peaks(largest, room - 1, is_one=is_one)
        sections = (before, peaks, *behind[:-1], remarks, behind[-1])
        return ["", *head, *(line for section in sections for line in _after_blank(section))]

    def _verdicts(self, summary: RunSummary, found: Sequence[Verdict], limits: _Limits) -> list[str]:
        from msmemscope.reports.first_line import grown_and_no_leak, not_judged, without_findings
        from msmemscope.reports.verdict import VerdictKind

        processes = summary.processes
        unknown = not_judged(processes, summary.not_observed)
        if not found:
            sentence = without_findings(processes, unknown)
            lines = self._sentence(f"msmemscope: {sentence}", indent=2, style=HEADING)
            below = [*_steps_of(processes, [sentence]), *grown_and_no_leak(processes)]
            return [*lines, *(line for text in below for line in self._sentence(f"  {text}", 4))]
        lines, sentences = [], []
        for number, verdict in enumerate(found[: limits.verdicts]):
            sentence = verdict.sentence(names_process=len(processes) > 1)
            sentences.append(sentence)
            style = ALARM if number == 0 else ""
            lines += self._sentence(f"msmemscope: {sentence}" if number == 0 else f"  also {sentence}", 4, style)
        if len(found) > limits.verdicts:
            lines += self._line(f"  and {format_count(len(found) - limits.verdicts)} more findings", QUIET)
        for text in _steps_of(processes, sentences):
            lines += self._line(f"  {text}")
        if found[0].remedy:
            lines += self._sentence(f"  {found[0].remedy}", 4)
        if found[0].kind in {VerdictKind.RESERVED, VerdictKind.INEFFICIENT}:
            # The subjects that were not judged may have something graver.
            lines += [line for sentence in unknown for line in self._sentence(f"  {sentence}", 4)]
        directory = relative_path(found[0].processes[0].directory)
        return [*lines, *self._line(f"next: {found[0].command(directory)}", HEADING)]

    def _peaks(self, process: ProcessSummary, room: int, *, is_one: bool) -> list[str]:
        """The peaks of the pools of one process; as much detail of the first ones as there is room for."""
        if process.overview is None:
            return []
        peaks = sorted(process.overview.peaks, key=_order_of_peaks)
        peaks, reserves = _without_segments(process.form, peaks)
        parts: list[list[str]] = []
        for number, peak in enumerate(peaks[:_MOST_POOLS]):
            heading = place_of_peak(peak, process, "" if is_one else _name(process), reserves.get(peak.device))
            parts.append([*self._line(heading, HEADING), *(self._curve(peak) if number < _MOST_CURVES else [])])
        more = len(peaks) - len(parts)
        rest = self._line(f"and {more} more pools in {self._rest}", QUIET) if more > 0 else []
        rest += self._host_memory(process)
        left = room - sum(map(len, parts)) - len(rest)
        for number, peak in enumerate(peaks[:_MOST_POOLS]):
            rankings = self._rankings(process, peak)
            rows = min((left - len(rankings)) // len(rankings), _MOST_SHARES)
            if rows < _LEAST_SHARES:
                break
            details = self._printed(self._shares_table([(heading, one.first(rows)) for heading, one in rankings]))
            parts[number] += details
            left -= len(details)
        return [*(line for part in parts for line in part), *rest][: max(room, 0)]

    def _host_memory(self, process: ProcessSummary) -> list[str]:
        """The resident memory of one process, and its largest parts."""
        if process.host_memory is None:
            return []
        from msmemscope.reports.host_ledger_words import host_memory_heading, host_memory_parts

        parts = host_memory_parts(process.host_memory, self._terminal.width - len("  "))
        return [*self._line(host_memory_heading(process.host_memory), HEADING), *self._line(f"  {parts}")]

    def _curve(self, peak: PoolPeak) -> list[str]:
        curve = peak.curve
        if curve is None:
            return []
        seconds = (curve.end_ns - curve.begin_ns) / _NANOSECONDS_PER_SECOND
        drawn = sparkline(curve.most_bytes, width=max(self._terminal.width - 20, 10), encoding=self._encoding)
        return self._line(f"  {drawn} {seconds:.2f} s")

    @staticmethod
    def _rankings(process: ProcessSummary, peak: PoolPeak) -> list[tuple[str, Ranking]]:
        """By owner, where owners were asked for, otherwise by operator or module; and by source line."""
        rankings = list(peak.in_use.rankings())
        if process.decomposition is not None and not (peak.pool == Pool.HAL and peak.device >= 0):
            from msmemscope.reports.decomposition_section import owner_ranking

            for pool in process.decomposition.pools:
                is_said = any(map(is_known_owner, pool.nodes["node"]))
                if (pool.device, pool.pool) == (peak.device, peak.pool) and is_said:
                    rankings[0] = ("by owner", owner_ranking(pool))
        return rankings

    def _shares_table(self, rankings: Sequence[tuple[str, Any]]) -> Table:
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        for heading, shares in rankings:
            add_shares(table, heading, shares, label_width(self._terminal.width))
        return table

    def _processes(self, processes: Sequence[ProcessSummary]) -> list[str]:
        """A table of the processes: the name of each, its device, peak and leaks, and its memory over time."""
        table = Table.grid(padding=(0, 2, 0, 0))
        has_leaks = any(process.leaks is not None for process in processes)
        for justify in ("left", "left", "right", *(["right"] if has_leaks else []), "left"):
            table.add_column(justify=justify, no_wrap=True)  # type: ignore[arg-type]
        headings = ["process", "device", "peak", *(["leaked"] if has_leaks else []), "memory over time"]
        table.add_row(*(Text(word, QUIET) for word in headings))
        shown = processes if len(processes) <= _MOST_PROCESSES + 1 else processes[:_MOST_PROCESSES]
        for process in shown:
            peaks = sorted(process.overview.peaks, key=_order_of_peaks) if process.overview is not None else []
            peak = max(peaks, key=lambda one: one.peak_bytes, default=None)
            curve = peak.curve if peak is not None else None
            drawn = (
                "" if curve is None else sparkline(curve.most_bytes, width=_CURVE_OF_PROCESS, encoding=self._encoding)
            )
            cells = [
                cut_end(_title(process), max(self._terminal.width - _NUMBERS_OF_PROCESS, SHORTEST_LABEL)),
                device_name(peak.device) if peak is not None else "",
                format_bytes(process.peak_bytes),
                *([format_bytes(process.leaked_bytes)] if has_leaks else []),
                drawn,
            ]
            table.add_row(*(Text(cell) for cell in cells))
        lines = self._printed(table)
        if len(processes) > len(shown):
            lines += self._line(f"and {len(processes) - len(shown)} more processes", QUIET)
        ledgers = [process.host_memory for process in processes if process.host_memory is not None]
        if ledgers:
            from msmemscope.analysis.host.processes_together import host_memory_together

            together = host_memory_together(ledgers)
            if together is not None:
                most = format_bytes(together.peak_bytes)
                text = f"Host memory of {together.processes} together: {most} at the peak, shared pages once"
                lines += self._line(text)
        return lines

    def _failures(self, process: ProcessSummary, limits: _Limits) -> list[str]:
        """The facts of the last allocation that failed, and the number of those that failed before."""
        result = process.overview.out_of_memory if process.overview is not None else None
        if result is None or not result.failures:
            return []
        from msmemscope.reports.out_of_memory_report import details, largest_blocks

        failure = result.failures[-1]
        sentences = details(failure, with_command=False, is_short=True)
        lines = [line for sentence in sentences for line in self._sentence(f"  {sentence}", 4)]
        largest = largest_blocks(failure).shares[: limits.largest]
        lines += self._printed(self._shares_table([("largest blocks", largest)])) if largest else []
        if result.failure_count > 1:
            lines += self._line(f"  and {format_count(result.failure_count - 1)} before in {self._rest}", QUIET)
        return lines

    def _documents(self, processes: Sequence[ProcessSummary], limits: _Limits) -> list[str]:
        """The lines on leaks that scripts look for, in their exact form."""
        found = [process.leaks for process in processes if process.leaks is not None and process.lists_leaks]
        if not found:
            return []
        from msmemscope.reports.leaks_report import LeakLines, render_leak_lines

        is_one = len(processes) == 1
        report = relative_path(processes[0].directory / REPORT_FILE) if is_one else f"{REPORT_FILE} of each process"
        report = report if self._rest == REPORT_FILE else self._rest
        which = LeakLines(limits.blocks, limits.devices, limits.gaps if is_one else 0, report)
        return self._written(lambda out, **how: render_leak_lines(found, out, which, **how))

    def _watch(self, processes: Sequence[ProcessSummary], limits: _Limits) -> list[str]:
        from msmemscope.reports.watch_report import render_watch

        lines: list[str] = []
        for process in processes:
            result = process.watch
            if result is not None and result.was_watched:
                lines += self._line(f"In {_name(process)}:") if len(processes) > 1 else []
                lines += self._written(functools.partial(render_watch, result))
        if len(lines) > limits.watch:
            lines = [*lines[: limits.watch - 1], *self._line(f"and more in {self._rest}", QUIET)]
        return lines

    def _files(self, processes: Sequence[ProcessSummary]) -> list[str]:
        if len(processes) > 1:
            lines: list[str] = []
            for parent in sorted({process.directory.parent for process in processes}):
                folders = [process.directory.name for process in processes if process.directory.parent == parent]
                lines += self._line(f"Files in {relative_path(parent)}", HEADING)
                folders = list(dict.fromkeys(folders))  # one dump can hold several processes
                listed = folders if len(folders) <= _MOST_FILES else folders[: _MOST_FILES - 1]
                lines += [line for name in listed for line in self._line(f"  {name}")]
                if len(folders) > len(listed):
                    lines += self._line(f"  and {len(folders) - len(listed)} more folders", QUIET)
            pages = [file.path for process in processes for file in process.files if file.path.name == HTML_REPORT_FILE]
            return [*lines, *(line for page in pages[:1] for line in self._line(f"Page: {relative_path(page)}"))]
        (process,) = processes
        if process.form != _CAPTURE:
            return self._line(f"Read from {relative_path(process.directory)} ({process.form})", HEADING)
        lines = self._line(f"Files in {relative_path(process.directory)}", HEADING)
        named = []
        for file in process.files:
            path = file.path
            inside = (
                path.relative_to(process.directory) if path.is_relative_to(process.directory) else relative_path(path)
            )
            named.append(f"  {inside}" + ("" if file.rows is None else f" ({counted(file.rows, 'row')})"))
        if not named:
            named.append("  event_log (no dump files were written)")
        listed = named if len(named) <= _MOST_FILES else named[: _MOST_FILES - 1]
        lines += [line for name in listed for line in self._line(name)]
        if len(named) > len(listed):
            lines += self._line(f"  and {len(named) - len(listed)} more", QUIET)
        return lines

    def _remarks(self, summary: RunSummary, found: Sequence[Verdict], room: int) -> list[str]:
        """The remarks on observation and judgement, and the losses, in so many lines at most."""
        from msmemscope.analysis.judged import GROWTH
        from msmemscope.reports.first_line import not_judged
        from msmemscope.reports.verdict import VerdictKind

        processes = summary.processes
        texts = [*summary.removed, *summary.unseen]
        is_leak_found = any(verdict.kind in {VerdictKind.LEAK, VerdictKind.SLOW_LEAK} for verdict in found)
        judgement = not_judged(processes, summary.not_observed, (GROWTH,) if is_leak_found else ())
        texts = [text for text in texts if text not in judgement]
        # From here on the reports of the processes say the same: a full screen leaves this out.
        texts += _grouped("", [(process, process.remarks) for process in processes])
        texts += _grouped("not observed", [(process, process.unobserved) for process in processes])
        decomposed = [(one, one.decomposition) for one in processes if one.decomposition is not None]
        texts += _grouped("decompose", [(process, found.coverage.limits) for process, found in decomposed])
        texts += _grouped("", [(process, process.analysis_remarks) for process in processes])
        # Without a grave finding the first lines say it.
        is_said = not found or found[0].kind in {VerdictKind.RESERVED, VerdictKind.INEFFICIENT}
        texts += () if is_said else judgement
        sentences = [self._sentence(f"  {text}", indent=4) for text in dict.fromkeys(texts)]
        if sum(map(len, sentences)) > room - 1:
            while len(sentences) > 1 and sum(map(len, sentences)) > room - 2:
                sentences.pop()  # none ends in the middle
            sentences.append(self._line(f"  and more in {self._rest}", QUIET))
        lines = [line for sentence in sentences for line in sentence]
        return [*self._line("Coverage", HEADING), *lines] if lines else []

    def _running(self, summary: RunSummary) -> list[str]:
        running = [str(process.process_id) for process in summary.processes if process.is_running]
        if not running:
            return []
        return self._line(f"Still running: process {listed(running)}. When it has ended: {summary.recover_command}")

    def _line(self, text: str, style: str = "") -> list[str]:
        """One line as it is: paths must stay whole, so that they can be copied."""
        return [self._terminal.line(text, style)]

    def _sentence(self, text: str, indent: int = 2, style: str = "") -> list[str]:
        """A sentence, wrapped at the width between words, its further lines indented."""
        return self._terminal.sentence(text, indent=indent, style=style)

    def _written(self, render: Callable[..., None]) -> list[str]:
        """The lines that a renderer writes."""
        out = io.StringIO()
        render(out, width=self._terminal.width, is_coloured=self._terminal.console.is_terminal)
        return out.getvalue().splitlines()

    def _printed(self, content: Table) -> list[str]:
        with self._terminal.console.capture() as captured:
            self._terminal.console.print(content)
        return [line.rstrip() for line in captured.get().splitlines()]


def _steps_of(processes: Sequence[ProcessSummary], sentences: Sequence[str]) -> list[str]:
    """The meaning of a step, where the sentences speak of steps and that is not plain."""
    from msmemscope.reports.first_line import what_steps_are

    said = what_steps_are(processes) if any(" step" in sentence for sentence in sentences) else ""
    return [said] if said else []


def _after_blank(section: list[str]) -> list[str]:
    return ["", *section] if section else []


def _ranks_once(processes: Sequence[ProcessSummary]) -> tuple[ProcessSummary, ...]:
    """The processes. Only one of them has a rank for a name: helpers of a rank inherit it, and stay processes."""
    main: dict[int, ProcessSummary] = {}
    for process in processes:
        if process.rank is not None:
            known = main.get(process.rank)
            main[process.rank] = process if known is None or process.event_count > known.event_count else known
    return tuple(
        process
        if process.rank is None or main[process.rank] is process
        else dataclasses.replace(process, place=Place())
        for process in processes
    )


def _gravest_first(processes: Sequence[ProcessSummary], found: Sequence[Verdict]) -> list[ProcessSummary]:
    """By rank; where not all can be listed, those that something was found in come first."""
    by_rank = sorted(processes, key=lambda one: (one.rank is None, one.rank or 0, one.start_ns, one.process_id))
    if len(by_rank) <= _MOST_PROCESSES:
        return by_rank
    concerned = [process for verdict in found for process in verdict.processes]
    return [*dict.fromkeys(concerned), *(process for process in by_rank if process not in concerned)]


def _order_of_peaks(peak: PoolPeak) -> tuple[bool, int, int, int]:
    """Pools of frameworks before the driver's, which they lie in; the fullest first."""
    return peak.pool == Pool.HAL, -peak.peak_bytes, peak.device, peak.pool


def _without_segments(form: str, peaks: list[PoolPeak]) -> tuple[list[PoolPeak], dict[int, int]]:
    """Take the driver's memory out of the peaks of a snapshot.

    It is the segments of the one pool: it only adds the pool's reserve.

    Returns:
        The other peaks, and the bytes of the segments at their peak, by device.
    """
    pools = {peak.device for peak in peaks if peak.pool != Pool.HAL}
    if form != _SNAPSHOT or not pools:
        return peaks, {}
    segments = {peak.device: peak.peak_bytes for peak in peaks if peak.pool == Pool.HAL and peak.device in pools}
    return [peak for peak in peaks if peak.pool != Pool.HAL or peak.device not in segments], segments


def _title(process: ProcessSummary) -> str:
    """The name of a process in a table: a rank says more than its command line, which all ranks share."""
    if process.rank is None:
        return f"{process.process_id} {process.program}"
    # No comma: with two axes, it just fits into 80 columns.
    place = process.place
    return " ".join(filter(None, (_name(process), place.coordinate_words.replace(",", ""), place.role)))


def _name(process: ProcessSummary) -> str:
    return f"process {process.process_id}" if process.rank is None else f"rank {process.rank}"


def _grouped(heading: str, texts: list[tuple[ProcessSummary, tuple[str, ...]]]) -> Iterator[str]:
    """One line per different text; names the processes where not all of them share it."""
    holders: dict[str, list[ProcessSummary]] = {}
    for process, sentences in texts:
        for sentence in sentences:
            holders.setdefault(sentence, []).append(process)
    for sentence, concerned in holders.items():
        who = "" if len(concerned) == len(texts) else f" (process {listed([str(one.process_id) for one in concerned])})"
        yield f"{heading}: {sentence}{who}" if heading else f"{sentence}{who}"

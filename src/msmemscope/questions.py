"""The registry of questions: command line, Python API, JSON and the pages of docs/ are made from it.

A question takes a `Recording` and options and gives a result: a frozen dataclass with `coverage` and `to_polars()`. A
new one is a folder in `analysis/` and an entry of `QUESTIONS`. Its report is the main table of the result until a
renderer in `reports/` is named here. Questions print nothing. Only `write` writes files.
"""

from __future__ import annotations

import dataclasses
import difflib
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

import polars as pl

from msmemscope.analysis.card.card import account_for_card
from msmemscope.analysis.findings import found_at_sites, merge_findings
from msmemscope.analysis.history.history import HistoryOptions, HistoryResult, examine_history
from msmemscope.analysis.host.host_ledger import account_for_host
from msmemscope.analysis.host.processes_together import host_memory_together
from msmemscope.analysis.inefficient.inefficient import InefficientOptions, InefficientResult, find_inefficient
from msmemscope.analysis.leaks.between_marks import MarkLeaks, find_leaks_between_marks
from msmemscope.analysis.leaks.growing_sites import GrowthOptions
from msmemscope.analysis.leaks.growth import SlowLeaks, find_slow_leaks
from msmemscope.analysis.leaks.overview import LeakOverview, LeaksOptions, find_leaks
from msmemscope.analysis.operators.memory_changes import MemoryChanges, OperatorsOptions, find_memory_changes
from msmemscope.analysis.options import QuestionOptions, option_words
from msmemscope.analysis.owners.decomposition import Decomposition, DecompositionOptions, decompose
from msmemscope.analysis.peak.explanation import PeakOptions, explain_peak
from msmemscope.analysis.peak.out_of_memory import (
    OutOfMemory,
    OutOfMemoryOptions,
    OutOfMemoryResult,
    analyze_out_of_memory,
)
from msmemscope.analysis.reserved.reserved import find_reserved
from msmemscope.analysis.sleep.sleep import SleepResult, examine_sleep
from msmemscope.analysis.watch.verdict import WatchResult, judge_watched_memory
from msmemscope.errors import ConfigurationError
from msmemscope.formats.dump.changes_csv import check_new, write_changes
from msmemscope.formats.write_back import check_writable, dumps_at, write_findings_back
from msmemscope.recording.run_history import HistoryKind
from msmemscope.reports.analysis_json import result_content
from msmemscope.reports.card_report import render_card
from msmemscope.reports.coverage_report import render_limits, render_missing
from msmemscope.reports.decomposition_section import print_decomposition
from msmemscope.reports.expanded_sites import with_frames
from msmemscope.reports.growth_report import render_slow_leaks
from msmemscope.reports.history_report import render_history
from msmemscope.reports.host_ledger_report import render_host_ledger, render_host_together
from msmemscope.reports.html.question_tables import (
    host_tables,
    inefficient_tables,
    leaks_tables,
    out_of_memory_tables,
    peak_tables,
    reserved_tables,
    watch_tables,
)
from msmemscope.reports.inefficient_report import render_inefficient, render_patterns
from msmemscope.reports.leaks_report import render_leaks, render_mark_leaks
from msmemscope.reports.operators_report import changes_by_name, highest_places, render_memory_changes
from msmemscope.reports.out_of_memory_report import render_out_of_memory
from msmemscope.reports.peak_report import command_behind_peak, render_peak
from msmemscope.reports.report_text import ReportWriter, console_for, counted
from msmemscope.reports.reserved_report import render_reserved
from msmemscope.reports.result_table import render_result_table
from msmemscope.reports.sleep_report import render_sleep
from msmemscope.reports.watch_report import render_watch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from msmemscope.analysis.coverage import Coverage
    from msmemscope.recording import Recording
    from msmemscope.reports.html.tables import ReportTable


class Result(Protocol):
    """The result of any question."""

    @property
    def coverage(self) -> Coverage:
        """Says what is answered, and what is not."""

    def to_polars(self) -> pl.DataFrame:
        """Return the main table."""


OptionsType = TypeVar("OptionsType", bound=QuestionOptions)
ResultType = TypeVar("ResultType", bound=Result)


USUALLY_FOLLOWING: Final = "analyze peak"
"""The command to type next where an answer calls for nothing else."""


@dataclasses.dataclass(frozen=True)
class Question(Generic[OptionsType, ResultType]):
    """One question that can be asked of a recording."""

    name: str
    """Its name on the command line and in `msmemscope.analyze`."""
    summary: str
    """One sentence for help texts: what the answer shows."""
    options: type[OptionsType]
    examine: Callable[[Recording, OptionsType], ResultType]
    """Works out the result."""
    render: Callable[[ResultType, Recording, IO[str]], None] = render_result_table
    """Writes the report of an answer."""
    render_remainder: Callable[[ResultType, IO[str]], None] | None = None
    """Writes the little that can be said where the question itself has no answer."""
    findings: Callable[[ResultType], pl.DataFrame] | None = None
    """Returns the faults that were found: `analysis.findings.FINDING_SCHEMA`. None where a result only describes."""
    merge: Callable[[Sequence[tuple[int, pl.DataFrame]], Sequence[int | None]], pl.DataFrame] = merge_findings
    """Merges the findings of several processes, by their ids, and their ranks: `analysis.findings.MERGED_SCHEMA`."""
    together: Callable[[Sequence[ResultType]], Any] = lambda _: None
    """Returns what several processes have together; None where that is not known."""
    render_together: Callable[[Any, IO[str]], None] = lambda *_: None
    """Writes that below the reports on each of them."""
    tables: Callable[[ResultType], Sequence[ReportTable]] | None = None
    """The part of an answer that the HTML report shows; None for a question that it does not ask."""
    content: Callable[[ResultType, Recording], object] = lambda result, _: result
    """The part of the result that JSON has."""
    following: Callable[[ResultType], str] = lambda _: USUALLY_FOLLOWING
    """The command to type next, without `msmemscope` and PATH; empty where the report says it itself."""
    check: Callable[[Recording, OptionsType], None] = lambda *_: None
    """Refuses options that do not fit the recording, or that `write` could not obey. Runs before the work."""
    write: Callable[[ResultType, Recording, OptionsType], Sequence[str]] = lambda *_: ()
    """Writes the files that were asked for, and returns one line about each."""
    on_command_line: Mapping[str, object] = dataclasses.field(default_factory=dict)
    """Options that have another default there."""

    def report(self, result: ResultType, recording: Recording, out: IO[str], *, frames: int = 1) -> None:
        """Write the report, and say what it does not cover. Without an answer, say why there is none.

        Args:
            result: Of this question.
            recording: That it was asked about.
            out: Where to.
            frames: Of the program's stack that call sites are shown with.
        """
        coverage = result.coverage
        if coverage.is_answered:
            self.render(result if frames == 1 else with_frames(result, frames), recording, out)
        else:
            render_missing(coverage, out)
            if self.render_remainder is not None:
                self.render_remainder(result, out)
        render_limits(coverage, out)

    def json_content(self, result: ResultType, recording: Recording) -> dict[str, Any]:
        """Return the result in types that `json.dumps` takes."""
        return result_content(self.content(result, recording), recording)


# --- what is particular to single questions --------------------------------------------------------------------------


def _leaks(recording: Recording, options: LeaksOptions) -> LeakOverview | MarkLeaks:
    if options.mstx_info is not None:
        return find_leaks_between_marks(recording, options.mstx_info, options.start_index)
    return find_leaks(recording)


def _render_leaks(result: LeakOverview | MarkLeaks, recording: Recording, out: IO[str]) -> None:
    del recording
    if isinstance(result, MarkLeaks):
        render_mark_leaks(result, out)
    else:
        render_leaks(result, out)


def _leak_findings(result: LeakOverview | MarkLeaks) -> pl.DataFrame:
    if isinstance(result, MarkLeaks):
        return found_at_sites(result.blocks, kind=pl.lit("leak between marks"), site="site", size="counted_bytes")
    leaked = found_at_sites(result.step_leaks.leaked, kind=pl.lit("leak"), site="site", size="size")
    return pl.concat([leaked, _growth_findings(result.slow_leaks), _growth_findings(result.outside_steps)])


def _growth_findings(result: SlowLeaks) -> pl.DataFrame:
    grown = result.sites.with_columns(grown_bytes=pl.col("last_bytes") - pl.col("first_bytes"))
    return found_at_sites(grown, kind=pl.lit("growth"), site="site", size="grown_bytes")


def _history_findings(result: HistoryResult) -> pl.DataFrame:
    growing = result.growing().with_columns(site=pl.col("name").replace("", None))
    lines = growing.filter(pl.col("kind").is_in([HistoryKind.SITE.value, HistoryKind.HOST_SITE.value]))
    wholes = result.wholes().filter("grows").with_columns(site=pl.lit(None, dtype=pl.String))
    found = wholes if lines.is_empty() else lines
    return found_at_sites(found, kind=pl.lit("growth over hours"), site="site", size="gained_bytes")


def _sleep_findings(result: SleepResult) -> pl.DataFrame:
    grown = result.growing.with_columns(grown_bytes=pl.col("last_bytes") - pl.col("first_bytes"))
    return found_at_sites(grown, kind=pl.lit("growth from sleep to sleep"), site="site", size="grown_bytes")


def _check_write_back(recording: Recording, options: InefficientOptions) -> None:
    if options.write_back:
        check_writable(dumps_at(Path(recording.source)))


def _write_back(result: InefficientResult, recording: Recording, options: InefficientOptions) -> Sequence[str]:
    return write_findings_back(result, recording) if options.write_back else ()


def _render_patterns_alone(result: InefficientResult, out: IO[str]) -> None:
    if result.patterns is not None:
        render_patterns(result.patterns, out)


def _render_owners(result: Decomposition, recording: Recording, out: IO[str]) -> None:
    del recording
    console = console_for(out)
    print_decomposition(result, console, with_modules=True)
    if not result.pools:
        ReportWriter(out).line("No memory was in use")


def _check_moment(recording: Recording, options: PeakOptions) -> None:
    numbers = recording.events["sequence"]
    if options.at is None or (len(numbers) and numbers[0] <= options.at <= numbers[-1]):
        return
    message = f"{recording.source} has no such event"
    accepted = f"{numbers[0]} to {numbers[-1]}" if len(numbers) else "it has no events at all"
    raise ConfigurationError(message, option="at", value=str(options.at), accepted=accepted)


def _check_new_file(recording: Recording, options: OperatorsOptions) -> None:
    del recording
    if options.csv is not None:
        check_new(options.csv)


def _write_changes(result: MemoryChanges, recording: Recording, options: OperatorsOptions) -> Sequence[str]:
    del recording
    if options.csv is None:
        return ()
    return (f"{counted(result.rows.height, 'row')} written to {write_changes(result, options.csv)}",)


def _changes_content(result: MemoryChanges, recording: Recording) -> Mapping[str, object]:
    """Sums and the highest rises. There may be millions of rows; only a file takes them all."""
    return {
        "row_count": result.rows.height,
        "by_name": changes_by_name(result),
        "highest": highest_places(result, recording),
        "coverage": result.coverage,
    }


def _failure_findings(result: OutOfMemoryResult) -> pl.DataFrame:
    failures = result.to_polars()
    return found_at_sites(failures, kind=pl.lit("failed allocation"), site="source_line", size="size_bytes")


def _names_next(explained: Sequence[OutOfMemory]) -> bool:
    """Whether the cause that a report gives comes with a command."""
    return any(one.cause is not None and one.cause.next_command for one in explained)


def _watch_findings(result: WatchResult) -> pl.DataFrame:
    changes = result.unexpected.with_columns(pl.col("changed_bytes").fill_null(0))
    return found_at_sites(changes, kind=pl.lit("unexpected change"), site="call_site", size="changed_bytes")


_ALL: Final[tuple[Question[Any, Any], ...]] = (
    Question(
        "leaks",
        "Memory that is allocated and never given back: over the steps of the program, or between marks of it.",
        LeaksOptions,
        _leaks,
        _render_leaks,
        findings=_leak_findings,
        tables=leaks_tables,
        following=lambda result: USUALLY_FOLLOWING if _leak_findings(result).is_empty() else "tree --of=leaked",
    ),
    Question(
        "inefficient",
        "Memory that is held while nobody needs it.",
        InefficientOptions,
        find_inefficient,
        lambda result, _, out: render_inefficient(result, out, patterns=result.patterns),
        render_remainder=_render_patterns_alone,
        findings=lambda result: found_at_sites(
            result.findings, kind=pl.col("kind"), site="call_site", size="saved_bytes"
        ),
        tables=inefficient_tables,
        check=_check_write_back,
        write=_write_back,
        on_command_line={"patterns": True},
    ),
    Question(
        "decompose",
        "Memory by owner.",
        DecompositionOptions,
        decompose,
        _render_owners,
        following=lambda _: "tree",
    ),
    Question(
        "card",
        "The memory of a whole device: pools, modules, other processes, and what nothing explains.",
        QuestionOptions,
        account_for_card,
        lambda result, _, out: render_card(result, out),
        following=lambda _: "analyze decompose",
    ),
    Question(
        "host",
        "The resident host memory of a process, by part.",
        QuestionOptions,
        account_for_host,
        lambda result, _, out: render_host_ledger(result, out),
        together=host_memory_together,
        render_together=render_host_together,
        tables=host_tables,
        following=lambda _: "leaks",
    ),
    Question(
        "reserved",
        "Memory that is reserved and idle: for other streams, until other streams have got so far, by rounding.",
        QuestionOptions,
        find_reserved,
        lambda result, _, out: render_reserved(result, out),
        findings=lambda result: found_at_sites(
            result.to_polars(), kind=pl.col("cause"), site="site", size="idle_bytes"
        ),
        tables=reserved_tables,
        following=lambda _: "analyze card",
    ),
    Question(
        "peak",
        "Memory at its peak, or when an allocation failed: what filled it, and what could be saved.",
        PeakOptions,
        lambda recording, options: explain_peak(recording, device=options.device_number, at=options.at),
        lambda result, _, out: render_peak(result, out),
        tables=peak_tables,
        following=lambda result: "" if any(map(command_behind_peak, result.devices)) else "tree",
        check=_check_moment,
    ),
    Question(
        "operators",
        "The changes by each operator, or by each launch of a kernel.",
        OperatorsOptions,
        lambda recording, options: find_memory_changes(recording, options.levels),
        render_memory_changes,
        content=_changes_content,
        check=_check_new_file,
        write=_write_changes,
    ),
    Question(
        "oom",
        "Allocations that failed for lack of memory, and what was alive then.",
        OutOfMemoryOptions,
        analyze_out_of_memory,
        lambda result, _, out: render_out_of_memory(result, out),
        findings=_failure_findings,
        tables=out_of_memory_tables,
        following=lambda result: "" if _names_next(result.failures) else USUALLY_FOLLOWING,
    ),
    Question(
        "growth",
        "Call sites whose live memory grows over many steps, although blocks are freed.",
        GrowthOptions,
        find_slow_leaks,
        lambda result, _, out: render_slow_leaks(result, out),
        findings=_growth_findings,
    ),
    Question(
        "history",
        "Memory that grows over hours and weeks, from the moments that were kept of a run.",
        HistoryOptions,
        examine_history,
        lambda result, _, out: render_history(result, out),
        findings=_history_findings,
        following=lambda result: "top" if result.growing().is_empty() else "analyze leaks",
    ),
    Question(
        "sleep",
        "Memory that stays in use while a program has put its device memory to sleep, and what of it grows with each sleep.",
        QuestionOptions,
        lambda recording, _: examine_sleep(recording),
        lambda result, _, out: render_sleep(result, out),
        findings=_sleep_findings,
        following=lambda _: "tree",
    ),
    Question(
        "watch",
        "Changes of watched memory: which operator made them, which bytes, and whether it may.",
        QuestionOptions,
        lambda recording, _: judge_watched_memory(recording),
        lambda result, _, out: render_watch(result, out),
        findings=_watch_findings,
        tables=watch_tables,
    ),
)

QUESTIONS: Final[dict[str, Question[Any, Any]]] = {question.name: question for question in _ALL}
"""By name, in the order of help texts."""
OTHER_NAMES: Final = {"out-of-memory": "oom"}
"""Other name of a question, to its name."""


def question_named(name: object) -> Question[Any, Any]:
    """Return a question.

    Raises:
        ConfigurationError: If there is none of this name.
    """
    found = QUESTIONS.get(OTHER_NAMES.get(name, name)) if isinstance(name, str) else None
    if found is None:
        close = difflib.get_close_matches(str(name), QUESTIONS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else None
        message = "no such analysis"
        raise ConfigurationError(message, option="type", value=str(name), accepted=", ".join(QUESTIONS), hint=hint)
    return found


def options_of(question: Question[Any, Any], given: Mapping[str, object]) -> QuestionOptions:
    """Make the options of a question from keywords.

    Raises:
        ConfigurationError: If a value is not accepted.
        TypeError: If there is no such option, or a value is of the wrong type.
    """
    known = option_words(question.options)
    unknown = next((name for name in given if name not in known), None)
    if unknown is not None:
        accepted = ", ".join(("input_path", *known))
        message = f"the analysis {question.name!r} takes no parameter {unknown!r} (accepted: {accepted})"
        raise TypeError(message)
    made: QuestionOptions = question.options(**given)
    return made


def ask(name: str, recording: Recording, **options: object) -> Any:
    """Ask a recording one question; nothing is printed or written.

    Args:
        name: One of `QUESTIONS`.
        recording: One process.
        options: Of the question.

    Returns:
        Its result.

    Raises:
        ConfigurationError: If there is no such question, a value is not accepted, or it does not fit the recording.
        TypeError: If there is no such option, or a value is of the wrong type.
    """
    question = question_named(name)
    chosen = options_of(question, options)
    return question.examine(recording, chosen)

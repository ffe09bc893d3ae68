"""Finding captures, writing the dump files of one, and putting its summary into words."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import io
import os
import shlex
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from msmemscope.analysis.history.history import LEAST_MOMENTS
from msmemscope.analysis.peak.out_of_memory import FAILURE_KINDS, OutOfMemoryResult, analyze_out_of_memory
from msmemscope.analysis.peak.overview import memory_overview
from msmemscope.configuration import Analysis, Config
from msmemscope.configuration.triggers import TRIGGER_FIRED_FACT
from msmemscope.errors import DumpError, MsmemscopeError
from msmemscope.formats.dump import write_dumps
from msmemscope.formats.event_log import Capture, CaptureState
from msmemscope.formats.event_log.archive.contents import is_archive
from msmemscope.formats.event_log.history_files import kept_moments
from msmemscope.formats.event_log.log_folder import EVENT_LOG_DIRECTORY, SOURCE_LINES_FILE
from msmemscope.formats.event_log.recording_of_log import WAS_RUNNING, recording_of_capture
from msmemscope.formats.event_log.source_texts import source_lines_text
from msmemscope.launch import messages
from msmemscope.launch.analyses import (
    SUMMARY_KINDS,
    FoundFirst,
    RunAnalyses,
    analyze_run,
    find_first,
    kinds_in_memory,
)
from msmemscope.launch.ended_by import end_noted
from msmemscope.launch.faults import faults_as_errors
from msmemscope.launch.host_memory import host_memory_of, may_have_ended_for_lack
from msmemscope.model.events import EventKind
from msmemscope.model.place import Place
from msmemscope.model.sources import is_asked_for
from msmemscope.reports.html import HTML_REPORT_FILE
from msmemscope.reports.process_report import REPORT_FILE, REPORT_WIDTH, render_process
from msmemscope.reports.run_summary import ProcessSummary, ResultFile
from msmemscope.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from msmemscope.formats.dump import DumpFiles
    from msmemscope.formats.event_log import ProcessHeader

_FINISHED_DUMPS = ("device_*/dump/memscope_dump_*.csv", "device_*/dump/memscope_dump_*.db")
_RESULT_FILES = ("config.json", *_FINISHED_DUMPS, "device_*/dump/python_trace_*.csv", REPORT_FILE, HTML_REPORT_FILE)
_OBSERVED = "observed."
_UNOBSERVED = "unobserved."
_LIBRARIES_NAMED = 3
_INCOMPLETE = "its summary is incomplete"


def open_captures(directories: Iterable[Path]) -> list[Capture]:
    """Open captures, ordered by when they began; one that cannot be opened is warned about and left out."""
    captures = filter(None, map(_open, directories))
    return sorted(captures, key=lambda capture: (capture.header.start_ns, capture.header.process_id))


def _open(directory: Path) -> Capture | None:
    try:
        with faults_as_errors(during=f"{directory}", send=f"the folder {directory}"):
            return Capture(directory)
    except MsmemscopeError as error:
        messages.warning(error.message, error.hint)
        return None


def readable_capture(path: Path) -> Capture | None:
    """Open the capture that a path names: a folder, an event log or an archive. None if it is none, or is damaged."""
    directory = path.parent if path.name == "event_log" else path
    if not (directory / "event_log").is_dir() and not is_archive(directory):
        return None
    # Reading the path in another way names its fault, or finds the dumps beside the log.
    with contextlib.suppress(MsmemscopeError), faults_as_errors(send=f"the folder {directory}"):
        return Capture(directory)
    return None


def captures_of_session(directories: Iterable[Path], session: str) -> list[Path]:
    """The captures whose headers name a launch, whatever the ledger says.

    Args:
        directories: Captures.
        session: The launch.
    """
    found = []
    for directory in directories:
        # One that cannot be read is reported when it is opened.
        with contextlib.suppress(MsmemscopeError), faults_as_errors(send=f"the folder {directory}"):
            if Capture(directory).header.session == int(session, 16):
                found.append(directory)
    return found


def has_finished_dump(directory: Path) -> bool:
    """Whether a capture was exported before."""
    return any(True for pattern in _FINISHED_DUMPS for _ in directory.glob(pattern))


def settings_of(capture: Capture, fallback: Config) -> Config:
    """The settings that a capture was made with; the fallback where they were lost."""
    with _by_itself(capture, "its settings are not known, those of this command are used instead"):
        try:
            if "setting.output" not in capture.facts:
                return fallback
            settings = Config.from_facts(capture.facts)
            settings.to_settings_text()  # refuses what no recording could have written
            return settings  # noqa: TRY300 - beside what makes them
        except MsmemscopeError as error:
            messages.warning(f"{capture.directory}: {error.message}; the settings of this command are used instead")
    return fallback


@contextlib.contextmanager
def _by_itself(capture: Capture, failed: str) -> Iterator[None]:
    """Report any fault of one capture: the others, and its other results, must not be lost.

    Args:
        capture: The one concerned.
        failed: The result that is missing.
    """
    try:
        with faults_as_errors(during=f"{capture.directory}: {failed}", send=f"the folder {capture.directory}"):
            yield
    except MsmemscopeError as error:
        messages.error(error)


def finish_one(
    capture: Capture, settings: Config | None, progress: Callable[[int, int], None] | None = None
) -> tuple[ProcessSummary, bool]:
    """Write the dump files of one capture, and sum it up. A fault of it is reported, and nothing is raised.

    Args:
        capture: Any.
        settings: Those of the dump files; None if none are to be written.
        progress: Called with how many events were written, of how many.

    Returns:
        The summary, and whether the dump files that were to be written were.
    """
    files: tuple[ResultFile, ...] = ()
    is_written = settings is None
    with contextlib.ExitStack() as memory:
        try:
            with faults_as_errors(during=f"{capture.directory}: {_INCOMPLETE}", send=f"the folder {capture.directory}"):
                memory.enter_context(capture.in_memory(kinds_in_memory(capture)))
                first = find_first(capture, settings)
        except MsmemscopeError as error:
            first = FoundFirst(error=error)
        with _dumps_beside(capture, settings, first, progress) as writing:
            summary = _summary(capture, first)
            if writing is not None:
                with _by_itself(capture, "no dump files were written"):
                    files = _result_files(writing.result())
                    is_written = True
        summary = dataclasses.replace(summary, files=files or _files_on_disk(capture.directory))
        if is_written and settings is not None:
            with _by_itself(capture, "its report was not written"):
                summary = _with_report(capture, summary)
            with _by_itself(capture, "the text of its source lines was not kept"):
                _keep_source_lines(capture)
        return summary, is_written


@contextlib.contextmanager
def _dumps_beside(
    capture: Capture, settings: Config | None, first: FoundFirst, progress: Callable[[int, int], None] | None
) -> Iterator[Future[DumpFiles] | None]:
    """Write dump files in a second thread while the block runs, which waits for them at its end; none without settings.

    Rendering rows and questions about them both spend their time in native code without the GIL: together they take
    little longer than the rows alone. Nothing stays unfinished where the block is left by an interrupt.
    """
    if settings is None:
        yield None
        return
    is_unwanted = threading.Event()

    def note(done: int, total: int) -> None:
        if is_unwanted.is_set():
            message = "no longer wanted"
            raise DumpError(message)
        if progress is not None:
            progress(done, total)

    with ThreadPoolExecutor(max_workers=1) as writer:
        findings = first.of_blocks(settings)
        try:
            try:
                writing = writer.submit(write_dumps, capture, settings, findings, progress=note)
            except RuntimeError as error:  # no more threads can be started here: the summary is still made
                writing = Future()
                writing.set_exception(error)
            yield writing
        except BaseException:
            is_unwanted.set()
            raise


def _with_report(capture: Capture, summary: ProcessSummary) -> ProcessSummary:
    """Write everything about a process into a file beside its dumps; return the summary that names it.

    Raises:
        DumpError: If it cannot be written. Then there is none, or still the one of an earlier time.
    """
    from msmemscope.formats.dump.output_files import OutputFolder

    report = ResultFile(capture.directory / REPORT_FILE)
    named = dataclasses.replace(summary, files=(*(file for file in summary.files if file != report), report))
    text = io.StringIO()
    render_process(named, text, width=REPORT_WIDTH)
    with OutputFolder(capture.directory) as folder:
        folder.remove_abandoned()
        file = folder.create(REPORT_FILE)
        try:
            file.write(text.getvalue().encode("utf-8", "backslashreplace"))
            file.finish(replaces=True)
        finally:
            file.discard()
    return named


def _keep_source_lines(capture: Capture) -> None:
    """Note the source text of the lines that allocate: files change before the next run. The first notes stay.

    Raises:
        DumpError: If it cannot be written.
    """
    from msmemscope.formats.dump.output_files import OutputFolder

    if capture.log.is_archived or capture.is_running():
        return
    if (capture.directory / EVENT_LOG_DIRECTORY).is_symlink():
        return  # somebody put it there, which the recording has said
    with OutputFolder(capture.directory, EVENT_LOG_DIRECTORY) as folder:
        if SOURCE_LINES_FILE in folder.names():
            return
        text = source_lines_text(capture)
        if text is None:
            return
        file = folder.create(SOURCE_LINES_FILE)
        try:
            file.write(text.encode())
            file.finish()
        finally:
            file.discard()


def _result_files(files: DumpFiles) -> tuple[ResultFile, ...]:
    tables = (*files.csv_files, *files.db_files, *files.python_trace_files)
    results = [ResultFile(path, files.rows_written if len(tables) == 1 else None) for path in tables]
    if files.config_file is not None:
        results.append(ResultFile(files.config_file))
    return tuple(results)


def _files_on_disk(directory: Path) -> tuple[ResultFile, ...]:
    return tuple(ResultFile(path) for pattern in _RESULT_FILES for path in sorted(directory.glob(pattern)))


def _summary(capture: Capture, first: FoundFirst) -> ProcessSummary:
    """Sum up one process, without its files; parts that fail are reported and left out."""
    header = capture.header
    is_running = capture.is_running()
    facts: Mapping[str, tuple[str, ...]] = {}
    problems: tuple[str, ...] = ()
    overview = None
    host_memory = None
    analyses = RunAnalyses()
    ended_by = end_noted(capture.log)
    with _by_itself(capture, _INCOMPLETE):
        facts, problems = capture.facts, capture.problems
        try:
            analyses = analyze_run(capture, first)
        finally:
            leaked = analyses.leaks.leaked_sequences if analyses.leaks is not None else None
            read = first.recordings.of_memory() if first.recordings is not None else None
            overview = memory_overview(
                capture.restricted_to(SUMMARY_KINDS), leaked=leaked, read=read, out_of_memory=failures_of(capture)
            )
    may_lack = may_have_ended_for_lack(capture, ended_by)
    with _by_itself(capture, "its host memory is left out"):
        read = first.recordings.of_leaks() if first.recordings is not None else None
        host_memory = host_memory_of(capture, read, at_any_size=may_lack)
    devices = facts.get("setting.devices", ("",))[-1]
    return ProcessSummary(
        process_id=header.process_id,
        program=program_text(facts.get("argument", ()), facts.get("executable", ())),
        directory=capture.directory,
        form="archived event log" if capture.log.is_archived else "event log",
        files=(),
        overview=overview,
        decomposition=analyses.decomposition,
        leaks=analyses.leaks,
        lists_leaks=any(Analysis.LEAKS.value in text.split(",") for text in facts.get("setting.named_analyses", ())),
        reserved=analyses.reserved,
        inefficient=analyses.inefficient,
        watch=analyses.watch,
        not_judged=analyses.not_judged,
        analysis_remarks=analyses.remarks,
        place=Place.from_facts(facts),
        start_ns=header.start_ns,
        is_running=is_running,
        killed_at_bytes=ended_by.limit_bytes,
        host_memory=host_memory,
        was_lost_near_limit=may_lack and host_memory is not None and host_memory.ended_near_limit,
        is_damaged=bool(problems),
        remarks=(
            *_remarks(header, ended_by.signal_name, is_running=is_running, was_running=capture.log.was_running),
            *facts.get("message", ()),
            *_history(capture.directory),
            *_triggers(facts, has_steps=bool({EventKind.STEP, EventKind.IMPLIED_STEP} & capture.kind_counts().keys())),
            *problems,
        ),
        observed=tuple(_sources(facts, _OBSERVED, devices)),
        unobserved=(*_sources(facts, _UNOBSERVED, devices), *_closed_python(facts)),
        tool_memory_bytes=header.tool_memory_bytes,
        tool_memory_limit_bytes=header.tool_memory_limit_bytes,
        log_bytes=header.log_bytes,
    )


def _triggers(facts: Mapping[str, tuple[str, ...]], *, has_steps: bool) -> Iterator[str]:
    """Sentences about conditions on which details were to be recorded."""
    setting = facts.get("setting.trigger", ("",))[-1]
    count = facts.get("setting.trigger_steps", ("",))[-1]
    fired = facts.get(TRIGGER_FIRED_FACT, ())
    duration = f"the next {count} steps" if has_steps else "a minute"
    yield from (f"--trigger: {one}; details of {duration} were recorded" for one in fired)
    if setting and not fired:
        by_words: dict[str, list[str]] = {}
        for one in setting.split("|"):
            by_words.setdefault(_why_not_fired(one, has_steps=has_steps), []).append(one)
        yield from (f"--trigger: {'|'.join(conditions)} {words}" for words, conditions in by_words.items())


def _why_not_fired(condition: str, *, has_steps: bool) -> str:
    if condition.startswith("SIG"):
        return "did not arrive"
    if has_steps:
        return "never held where a step ended"
    return "was not looked at, because no step ended" if condition.startswith("step_time") else "never held"


def failures_of(capture: Capture) -> OutOfMemoryResult | None:
    """Return the answer of `analyze oom`; None where no allocation failed."""
    if EventKind.OOM not in capture.kind_counts():
        return None
    return analyze_out_of_memory(recording_of_capture(capture, capture.directory, FAILURE_KINDS))


def program_text(arguments: tuple[str, ...], executables: tuple[str, ...]) -> str:
    """Return the command line of a process, for people.

    Args:
        arguments: Values of the fact `argument`.
        executables: Values of the fact `executable`.
    """
    # A process that wrote a title over its command line, as Ray's workers do, has blanks behind it.
    while arguments and not arguments[-1]:
        arguments = arguments[:-1]
    if arguments:
        return shlex.join([os.path.basename(arguments[0]), *arguments[1:]])  # noqa: PTH119 - text, not a file of ours
    return executables[-1] if executables else "?"


def _sources(facts: Mapping[str, tuple[str, ...]], prefix: str, devices: str) -> Iterator[str]:
    """Sources of one kind that are about devices which were asked for."""
    for key, texts in facts.items():
        if key.startswith(prefix) and is_asked_for(key[len(prefix) :], devices):
            named = ", ".join(filter(None, _shortened(texts)))
            yield f"{key[len(prefix) :]}: {named}" if named else key[len(prefix) :]


def _shortened(texts: tuple[str, ...]) -> list[str]:
    """Different values of one key: of several libraries that a source was found in, only the names of a few."""
    different = list(dict.fromkeys(texts))
    if len(different) == 1 or not all(text.startswith("/") for text in different):
        return different[-1:]
    names = list(dict.fromkeys(os.path.basename(text) for text in different))  # noqa: PTH119 - text, not files of ours
    more = len(names) - _LIBRARIES_NAMED
    return names if more <= 0 else [*names[:_LIBRARIES_NAMED], f"and {more} more"]


def _closed_python(facts: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """A Python that our bootstrap did not get into."""
    executable = os.path.basename(facts.get("executable", ("",))[-1])  # noqa: PTH119 - text, not a file of ours
    if executable.startswith("python") and f"{_OBSERVED}python" not in facts:
        yield "python: it ignores PYTHONPATH (-I, -E, -S) or has another one: no operators and no Python stacks"


def _remarks(header: ProcessHeader, ended_by: str, *, is_running: bool, was_running: bool) -> Iterator[str]:
    """How the recording ended, and its losses."""
    if header.state == CaptureState.FAILED:
        yield f"recording stopped early: {_reason_of(header.failure_errno)}"
    elif was_running:
        yield WAS_RUNNING
    elif header.state == CaptureState.OPEN and not is_running and ended_by:
        yield f"{ended_by} ended the process; all it had recorded is here"
    elif header.state == CaptureState.OPEN and not is_running:
        yield "the process was killed, aborted, left by _exit or replaced by exec; all it had recorded is here"
    is_failed = header.state == CaptureState.FAILED
    losses = (
        (header.dropped_failure, "after recording stopped" if is_failed else "because the log could not grow in time"),
        (header.dropped_recycled, "to stay within --max-size; blocks still in use were kept"),
        (header.dropped_reentrant, "because they came from within msmemscope itself or a signal handler"),
    )
    for count, reason in losses:
        if count:
            yield f"events not in the log: {format_count(count)}, {reason}"
    if header.untracked_blocks:
        yield f"blocks that could not be followed to their end: {format_count(header.untracked_blocks)}"
    if header.lost_definitions:
        yield f"names and stacks that are missing: {format_count(header.lost_definitions)}"
    if header.maximum_log_bytes and header.dropped_recycled:
        yield f"the event log was held at {format_bytes(header.maximum_log_bytes)}"


def _history(directory: Path) -> Iterator[str]:
    """Where to ask on, if enough moments of the run were kept."""
    count = len(kept_moments(directory))
    if count >= LEAST_MOMENTS:
        yield f"msmemscope analyze history says what grew over {format_count(count)} moments of the run"


def _reason_of(number: int) -> str:
    """The text of an errno; a damaged header can hold any number."""
    return os.strerror(number) if number in errno.errorcode else f"error {number}"

"""The report as one HTML page: recordings are read and judged one after the other, then the page is written."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from msmemscope.analysis.owners.decomposition import owned_blocks
from msmemscope.errors import MsmemscopeError
from msmemscope.formats.dump.output_files import OutputFolder
from msmemscope.formats.output_place import Mark
from msmemscope.formats.reading import load_all
from msmemscope.launch import messages
from msmemscope.launch.faults import faults_as_errors
from msmemscope.launch.judged_process import judge_process, named_failure
from msmemscope.questions import QUESTIONS
from msmemscope.reports.html import HTML_REPORT_FILE
from msmemscope.reports.html.document import MOST_DETAILED, Answer, ProcessPart, report_document
from msmemscope.reports.html.findings import found_sites
from msmemscope.reports.html.memory_section import Room, memory_sections
from msmemscope.reports.html.page import GENERATOR, report_page
from msmemscope.reports.html.source_excerpts import SourceExcerpts
from msmemscope.reports.html.words import LANGUAGES
from msmemscope.reports.report_text import relative_path
from msmemscope.reports.run_summary import ResultFile
from msmemscope.units import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from msmemscope.recording import Recording
    from msmemscope.reports.run_summary import ProcessSummary

PAGE_MARK: Final = Mark(begin=b"<!DOCTYPE html>", near_begin=GENERATOR.encode())

MOST_EVENTS: Final = 10_000_000
"""Of one process whose page is written at the end of its run. A page needs all events in memory, some gigabytes of so
many. The process that writes it still has to give the summary and the program's exit status.
"""


def report_parts(
    recordings: Iterable[Recording], *, process_count: int = 1, has_pictures: bool = True
) -> list[ProcessPart]:
    """Judge processes one after the other.

    Args:
        recordings: Each is dropped before the next is read.
        process_count: How many there are, about: how finely time is divided.
        has_pictures: Whether memory over time is part of them.

    Raises:
        MsmemscopeError: A recording cannot be read.
    """
    # One path can hold several processes: how many is known when they are all there.
    return [
        _part(recording, Room.among(min(max(process_count, 4 * number, 1), MOST_DETAILED)) if has_pictures else None)
        for number, recording in enumerate(recordings)
    ]


def report_text(parts: Sequence[ProcessPart], *, source: str, language: str = "en") -> str:
    """Return the page about some processes.

    Args:
        parts: By `report_parts`, at least one.
        source: The input, for people.
        language: One of `LANGUAGES`.
    """
    from msmemscope import __version__

    begins = [part.summary.start_ns for part in parts if part.summary.start_ns]
    excerpts = SourceExcerpts(min(begins, default=0))
    return report_page(report_document(parts, excerpts, source=source, version=__version__), LANGUAGES[language])


def write_report(text: str, path: Path, *, replaces: bool = False) -> Path:
    """Write a page into a file.

    Args:
        text: The page.
        path: The file, in a folder that exists.
        replaces: Whether it replaces a file of this name.

    Returns:
        The file.

    Raises:
        DumpError: It cannot be written, or is there already and must not be replaced.
    """
    with OutputFolder(path.absolute().parent) as folder:
        file = folder.create(path.name)
        try:
            file.write(text.encode())
            return file.finish(replaces=replaces)
        finally:
            file.discard()


def with_page(processes: Sequence[ProcessSummary]) -> tuple[ProcessSummary, ...]:
    """Write the page about the processes of a run into the folder of the first; nothing that goes wrong is raised.

    Args:
        processes: All of the run; those that still run, or have too many events to be read by themselves, are left out.

    Returns:
        The processes. The first one that the page is about names it among its files.
    """
    chosen = [one for one in processes if not one.is_running and 0 < one.event_count <= MOST_EVENTS]
    for one in processes:
        if one.event_count > MOST_EVENTS:
            count = format_count(one.event_count)
            messages.warning(
                f"process {one.process_id} has {count} events and is not in {HTML_REPORT_FILE}",
                hint=f"msmemscope report {one.directory}",
            )
    if not chosen:
        return tuple(processes)
    first = chosen[0]
    path = first.directory / HTML_REPORT_FILE
    try:
        with faults_as_errors(during=f"{path} was not written", send=f"the folder {first.directory}"):
            recordings = (recording for one in chosen for recording in load_all(one.directory))
            parts = report_parts(recordings, process_count=len(chosen))
            write_report(report_text(parts, source=relative_path(first.directory)), path, replaces=True)
    except MsmemscopeError as error:
        messages.error(error)
        return tuple(processes)
    named = dataclasses.replace(first, files=(ResultFile(path), *(file for file in first.files if file.path != path)))
    return tuple(named if one is first else one for one in processes)


def _part(recording: Recording, room: Room | None) -> ProcessPart:
    """The whole report of one process, without pictures if there is no room; parts that fail are left out and named."""
    asked = {name: question for name, question in QUESTIONS.items() if question.tables is not None}
    judged = judge_process(recording, asked)
    summary, remarks = judged.summary, [*judged.remarks]
    answers: list[Answer] = []
    for name, result in judged.results.items():
        with named_failure(name, recording, remarks):
            question = asked[name]
            tables = tuple(question.tables(result)) if question.tables and result.coverage.is_answered else ()
            answers.append(Answer(name, question.summary, result.coverage, tables))
    memory: list[dict[str, Any]] = []
    if room is not None:
        with named_failure("memory over time", recording, remarks):
            blocks, notes = owned_blocks(recording)
            remarks.extend(notes)
            leaked = pl.Series([], dtype=pl.UInt64) if summary.leaks is None else summary.leaks.leaked_sequences
            memory, left_out = memory_sections(recording, blocks, leaked, room)
            remarks.extend(left_out)
    return ProcessPart(summary, found_sites(recording, summary), tuple(answers), memory, tuple(dict.fromkeys(remarks)))

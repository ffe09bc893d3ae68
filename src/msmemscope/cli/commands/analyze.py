"""`msmemscope analyze KIND PATH`: the analyses of what was recorded, on the command line."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import signal
import sys
from typing import TYPE_CHECKING, Any, Final

from msmemscope.cli.input_path import check_path, chosen_path
from msmemscope.errors import EXIT_STATUS_FAILURE, MsmemscopeError, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import polars as pl

    from msmemscope.analysis.options import OptionWords, QuestionOptions
    from msmemscope.questions import Question, Result
    from msmemscope.recording import Recording

# The questions bring what results are made with, which the other verbs need not wait for: they are imported when this
# verb is chosen.

_MOST_FRAMES: Final = 1000
"""As deep as stacks are recorded at most."""


class AnalyzeCommand:
    """Analyse what was recorded, by us or by MindStudio msMemScope.

    PATH is a capture folder (msmemscope_*_ascend), a folder of several, a dump (CSV or DB), or a memory snapshot of
    torch; without it, all processes of the latest run in the output folder. The result goes to stdout. The exit status is 0, or 2 if the input or an option is not accepted.
    """

    name = "analyze"
    summary = "Find leaks, inefficient memory, growth, and what memory is made of."

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the questions with their options."""
        from msmemscope.analysis.options import option_words
        from msmemscope.questions import QUESTIONS

        kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
        for name, question in QUESTIONS.items():
            own = kinds.add_parser(name, help=question.summary, description=question.summary, allow_abbrev=False)
            own.add_argument(
                "path",
                metavar="PATH",
                nargs="?",
                help="a capture folder, a folder of several, or a dump (CSV or DB); default: the latest run",
            )
            words_of = option_words(question.options)
            for field in dataclasses.fields(question.options):
                words = words_of[field.name]
                if words.spelling:
                    value: dict[str, Any] = (
                        {"metavar": words.accepted.metavar} if words.accepted.metavar else {"action": "store_true"}
                    )
                    own.add_argument(words.spelling, dest=field.name, help=_help(words, field.default), **value)
            own.add_argument(
                "--frames",
                metavar="N",
                help="show call sites with so many frames of the program's stack; default: 1, their line",
            )
            own.add_argument("--json", action="store_true", help="write the result to stdout as one JSON object")
            if question.findings is not None:
                own.add_argument(
                    "--fail-on-findings",
                    action="store_true",
                    help="exit with status 1 if anything was found, or nothing could be looked at",
                )

    def run(self, arguments: argparse.Namespace) -> int:
        """Analyse one process after the other."""
        from msmemscope.questions import QUESTIONS

        question = QUESTIONS[arguments.kind]
        with _options_as_typed(question):
            options = question.options(**_given(question, arguments))  # judged before anything is read
        frames = _frames(arguments.frames)
        check_path(arguments.path)
        with contextlib.suppress(ValueError):  # only the main thread may
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        path, folders = chosen_path(arguments.path)
        findings = _analyze(question, path, folders, options, frames=frames, as_json=arguments.json)
        if question.findings is None or not arguments.fail_on_findings:
            return 0
        # What could not be looked at has not passed.
        return 0 if findings == 0 else EXIT_STATUS_FAILURE


def _frames(given: str | None) -> int:
    if given is None:
        return 1
    if not (
        len(given) <= len(str(_MOST_FRAMES))
        and given.isascii()
        and given.isdecimal()
        and 0 < int(given) <= _MOST_FRAMES
    ):
        message = "must be a number of frames"
        raise UsageError(message, option="--frames", value=given, accepted=f"1 to {_MOST_FRAMES}")
    return int(given)


def _help(words: OptionWords, default: object) -> str:
    shows_default = words.accepted.metavar and default is not None
    return f"{words.summary}; default: {default}" if shows_default else words.summary


def _given(question: Question[Any, Any], arguments: argparse.Namespace) -> dict[str, object]:
    """The options of a command line, by field; those that it leaves out have their defaults."""
    from msmemscope.analysis.options import option_words

    words_of = option_words(question.options)
    found = dict(question.on_command_line)
    for field, words in words_of.items():
        given = getattr(arguments, field) if words.spelling else None
        if given is None:
            continue
        if words.needs and getattr(arguments, words.needs) is None:
            message = f"goes together with {words_of[words.needs].spelling}"
            raise UsageError(message, option=words.spelling, value=given)
        found[field] = words.accepted.parse(given, words.spelling) if words.accepted.metavar else given
    return found


def _analyze(
    question: Question[Any, Any],
    path: Path,
    folders: Sequence[Path],
    options: QuestionOptions,
    *,
    frames: int,
    as_json: bool,
) -> int | None:
    """Analyse every process at a path.

    Args:
        question: What is asked.
        path: What was named.
        folders: The captures in it, where it is a folder of several.
        options: Of the question.
        frames: Of call sites that are shown.
        as_json: Whether stdout gets JSON instead of text.

    Returns:
        How much was found that should not be; None if the question was answered for no process.

    Raises:
        MsmemscopeError: if not a single process could be analysed.
    """
    from msmemscope.launch import messages
    from msmemscope.launch.faults import faults_as_errors
    from msmemscope.launch.input_notes import note_foreign_owner, note_problems
    from msmemscope.reports.merged_findings import merged_content, render_merged_findings
    from msmemscope.reports.report_text import HEADING, ReportWriter

    failures: list[MsmemscopeError] = []
    contents = []
    found: list[tuple[int, pl.DataFrame]] = []
    analyzed = answered = 0
    writer = ReportWriter(sys.stdout)
    for recording, is_one_of_several in _recordings(folders or [path], failures):
        try:
            with (
                _options_as_typed(question),
                faults_as_errors(during=f"{question.name} of {recording.source}", send=recording.source),
            ):
                question.check(recording, options)
                result = question.examine(recording, options)
                if as_json:
                    contents.append(_content(question, result, recording))
                else:
                    note_problems(recording)
                    if is_one_of_several:
                        if analyzed:
                            writer.line()
                        writer.line(f"Process {recording.process_id}: {recording.source}", HEADING)
                    question.report(result, recording, sys.stdout, frames=frames)
                    sys.stdout.flush()
                if question.findings is not None:
                    found.append((recording.process_id, question.findings(result)))
        except MsmemscopeError as error:
            failures.append(error)
            continue
        answered += result.coverage.is_answered
        analyzed += 1
        for line in question.write(result, recording, options):
            messages.note(line)
    if not analyzed and failures:
        raise failures[0]
    for failure in failures:
        messages.warning(failure.message, failure.hint)
    note_foreign_owner(path)
    merged = question.merge(found)
    if as_json:
        content = {
            "analysis": question.name,
            "path": str(path),
            "processes": contents,
            "merged": merged_content(merged),
        }
        sys.stdout.write(f"{json.dumps(content, ensure_ascii=False, indent=2)}\n")
    elif analyzed > 1 and not merged.is_empty():
        writer.line()
        render_merged_findings(merged, analyzed, sys.stdout)
    return merged.height if answered else None


@contextlib.contextmanager
def _options_as_typed(question: Question[Any, Any]) -> Iterator[None]:
    """Errors name an option as it is written on the command line, not the field that it sets."""
    from msmemscope.analysis.options import option_words

    try:
        yield
    except UsageError as error:
        words = option_words(question.options).get(error.option or "")
        if words is None or not words.spelling:
            raise
        raise UsageError(
            error.reason, option=words.spelling, value=error.value, accepted=error.accepted, hint=error.hint
        ) from error


def _content(question: Question[Any, Any], result: Result, recording: Recording) -> dict[str, Any]:
    return {
        "process_id": recording.process_id,
        "source": recording.source,
        "form": recording.form,
        "coverage": list(recording.coverage),
        "problems": list(recording.problems),
        "is_answered": result.coverage.is_answered,
        "result": question.json_content(result, recording),
    }


def _recordings(paths: Sequence[Path], failures: list[MsmemscopeError]) -> Iterator[tuple[Recording, bool]]:
    """Read the processes at some paths, one after the other, so that not all of them need fit into memory.

    Args:
        paths: What was given.
        failures: Gets the captures that cannot be read.

    Yields:
        Each process, and whether it is one of several.
    """
    from msmemscope.formats.reading import load_all
    from msmemscope.launch.faults import faults_as_errors

    for folder in paths:
        try:
            with _shown(folder), faults_as_errors(during=str(folder), send=str(folder)):
                recordings = load_all(folder)
        except MsmemscopeError as error:
            failures.append(error)
            continue
        for recording in recordings:
            yield recording, len(paths) > 1 or len(recordings) > 1


@contextlib.contextmanager
def _shown(path: Path) -> Iterator[None]:
    """While something is read, a line on the terminal says so."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.text import Text

    from msmemscope.reports.plain_text import printable

    with Console(stderr=True).status(Text(printable(f"Reading {path}"))):
        yield

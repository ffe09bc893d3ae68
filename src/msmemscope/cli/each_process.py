"""The common part of verbs that show something of each process at a path, one after the other."""

from __future__ import annotations

import dataclasses
import difflib
import json
import sys
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from msmemscope.cli.chosen_input import chosen_input, recordings_at
from msmemscope.errors import MsmemscopeError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from msmemscope.analysis.coverage import Coverage
    from msmemscope.recording import Recording

_MOST_DIGITS: Final = 9


class Covered(Protocol):
    """A result that knows what it leaves out."""

    @property
    def coverage(self) -> Coverage:
        """The coverage of the findings."""


Found = TypeVar("Found", bound=Covered)


@dataclasses.dataclass(frozen=True)
class Shown(Generic[Found]):
    """The content that a verb shows of a process."""

    name: str
    """The verb, or the question."""
    examine: Callable[[Recording], Found]
    render: Callable[[Found, Recording], None]
    """Writes to stdout, also what is missing."""
    content: Callable[[Found, Recording], object]
    """The result for JSON."""


def each_process(
    path: Path, folders: Sequence[Path], shown: Shown[Found], *, as_json: bool
) -> Iterator[tuple[Recording, Found, dict[str, Any]]]:
    """Show something of every process at a path.

    Args:
        path: The path that was named.
        folders: The captures in it, where it is a folder of several.
        shown: The content to show.
        as_json: Whether it will be one JSON object instead of text.

    Yields:
        Each process that it works for, with its findings and its JSON. The JSON is empty where text was written.

    Raises:
        MsmemscopeError: At the end, if it works for not a single process.
    """
    from msmemscope.launch import messages
    from msmemscope.launch.faults import faults_as_errors
    from msmemscope.launch.input_notes import note_foreign_owner, note_problems
    from msmemscope.reports.rank_text import process_name
    from msmemscope.reports.report_text import HEADING, ReportWriter

    failures: list[MsmemscopeError] = []
    shown_ones = 0
    writer = ReportWriter(sys.stdout)
    for recording, is_one_of_several in recordings_at(folders or [path], failures):
        try:
            with faults_as_errors(during=f"{shown.name} of {recording.source}", send=recording.source):
                found = shown.examine(recording)
                content: dict[str, Any] = {}
                if as_json:
                    content = _content(recording, found, shown.content(found, recording))
                else:
                    note_problems(recording.source, recording.problems)
                    if is_one_of_several:
                        if shown_ones:
                            writer.line()
                        writer.line(
                            f"{process_name(recording.process_id, recording.place)}: {recording.source}", HEADING
                        )
                    shown.render(found, recording)
                    sys.stdout.flush()
        except MsmemscopeError as error:
            failures.append(error)
            continue
        shown_ones += 1
        yield recording, found, content
    if not shown_ones and failures:
        raise failures[0]
    for failure in failures:
        messages.warning(failure.message, failure.hint)
    note_foreign_owner(path)


def show_processes(
    given: str | None,
    name: str,
    examine: Callable[[Recording], Found],
    render: Callable[[Found], None],
    *,
    as_json: bool,
    following: str,
) -> int:
    """Show something of every process at a path: all that a verb does which asks for nothing else.

    Args:
        given: PATH as it was typed; None for the latest run.
        name: The verb.
        examine: Finds what is shown.
        render: Writes what was found to stdout.
        as_json: Whether stdout gets one JSON object instead of text.
        following: The command to type next, without `msmemscope` and PATH.

    Returns:
        The exit status.

    Raises:
        MsmemscopeError: If that works for not a single process.
    """
    from msmemscope.cli.next_command import name_next_command
    from msmemscope.reports.analysis_json import result_content
    from msmemscope.reports.coverage_report import render_limits, render_missing

    def render_covered(found: Found, _: Recording) -> None:
        if found.coverage.is_answered:
            render(found)
            render_limits(found.coverage, sys.stdout)
        else:
            render_missing(found.coverage, sys.stdout)

    path, folders = chosen_input(given)
    shown = Shown(name, examine, render_covered, result_content)
    contents = [content for _, _, content in each_process(path, folders, shown, as_json=as_json)]
    if as_json:
        write_json({"verb": name, "path": str(path), "processes": contents})
    else:
        name_next_command(following, [given])
    return 0


def write_json(content: object) -> None:
    """Write a result to stdout."""
    sys.stdout.write(f"{json.dumps(content, ensure_ascii=False, indent=2)}\n")


def _content(recording: Recording, found: Covered, result: object) -> dict[str, Any]:
    return {
        "process_id": recording.process_id,
        "place": recording.place.content(),
        "source": recording.source,
        "form": recording.form,
        "coverage": list(recording.coverage),
        "problems": list(recording.problems),
        "is_answered": found.coverage.is_answered,
        "result": result,
    }


def chosen_word(given: str, words: Sequence[str], option: str, *, reason: str) -> str:
    """Return a word that an option accepts.

    Args:
        given: As it was typed.
        words: The accepted ones.
        option: For messages.
        reason: The reason why any other is not accepted.

    Raises:
        UsageError: It is another one.
    """
    if given in words:
        return given
    near = difflib.get_close_matches(given, words, n=1)
    hint = f"did you mean {option}={near[0]}?" if near else None
    raise UsageError(reason, option=option, value=given, accepted=", ".join(words), hint=hint)


def chosen_number(given: str, option: str, *, least: int, most: int, of: str) -> int:
    """Return a whole number that an option accepts.

    Args:
        given: As it was typed.
        option: For messages.
        least: The smallest that is accepted.
        most: The largest.
        of: The things that are counted.

    Raises:
        UsageError: It is none, or too small or large.
    """
    is_number = len(given) <= _MOST_DIGITS and given.isascii() and given.isdecimal()
    if not is_number or not least <= int(given) <= most:
        message = f"must be a number of {of}"
        raise UsageError(message, option=option, value=given, accepted=f"{least} to {most}")
    return int(given)

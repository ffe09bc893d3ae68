"""`msmemscope analyze KIND PATH`: the analyses of what was recorded, on the command line."""

from __future__ import annotations

import contextlib
import dataclasses
import shlex
import sys
from typing import TYPE_CHECKING, Any, Final

from msmemscope.cli.chosen_input import chosen_input
from msmemscope.cli.each_process import Shown, chosen_number, each_process, write_json
from msmemscope.errors import EXIT_STATUS_FAILURE, UsageError

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
    torch. Without it, all processes of the latest run in the output folder are taken. The result goes to stdout. Without KIND, its kinds
    are listed. The exit status is 0, or 2 if the input or an option is not accepted.
    """

    name = "analyze"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the questions with their options."""
        from msmemscope.analysis.options import option_words
        from msmemscope.questions import OTHER_NAMES, QUESTIONS

        kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=False)
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

        for other_name, name in OTHER_NAMES.items():
            kinds.choices[other_name] = kinds.choices[name]  # unlike an alias of argparse, not in help and completion

    def run(self, arguments: argparse.Namespace) -> int:
        """Analyse one process after the other."""
        from msmemscope.cli.next_command import name_next_command
        from msmemscope.questions import QUESTIONS, question_named

        if arguments.kind is None:
            width = max(map(len, QUESTIONS))
            sys.stdout.writelines(f"{name:{width}}  {question.summary}\n" for name, question in QUESTIONS.items())
            name_next_command("analyze leaks", [])
            return 0
        question = question_named(arguments.kind)
        with _options_as_typed(question):
            options = question.options(**_given(question, arguments))  # judged before anything is read
        frames = 1
        if arguments.frames is not None:
            frames = chosen_number(arguments.frames, "--frames", least=1, most=_MOST_FRAMES, of="frames")
        path, folders = chosen_input(arguments.path)
        asked = _Asked(arguments.path, path, folders)
        findings = _analyze(question, asked, options, frames=frames, as_json=arguments.json)
        if question.findings is None or not arguments.fail_on_findings:
            return 0
        # A process that could not be looked at has not passed.
        return 0 if findings == 0 else EXIT_STATUS_FAILURE


@dataclasses.dataclass(frozen=True)
class _Asked:
    """The subject of a question."""

    typed: str | None
    """PATH, if it was given."""
    path: Path
    """The path that it stands for."""
    folders: Sequence[Path]
    """The captures in it, where it is a folder of several."""


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
    asked: _Asked,
    options: QuestionOptions,
    *,
    frames: int,
    as_json: bool,
) -> int | None:
    """Analyse every process at a path.

    Args:
        question: The question that is asked.
        asked: The subject of the question.
        options: Of the question.
        frames: Of call sites that are shown.
        as_json: Whether stdout gets JSON instead of text.

    Returns:
        How much was found that should not be; None if the question was answered for no process.

    Raises:
        MsmemscopeError: if not a single process could be analysed.
    """
    from msmemscope.cli.next_command import name_next_command
    from msmemscope.launch import messages
    from msmemscope.launch.capture_folders import capture_of_dump
    from msmemscope.questions import USUALLY_FOLLOWING
    from msmemscope.reports.merged_findings import merged_content, render_merged_findings
    from msmemscope.reports.report_text import ReportWriter

    def examine(recording: Recording) -> Any:
        with _options_as_typed(question):
            question.check(recording, options)
            return question.examine(recording, options)

    shown: Shown[Result] = Shown(
        question.name,
        examine,
        lambda result, recording: question.report(result, recording, sys.stdout, frames=frames),
        question.json_content,
    )
    contents = []
    found: list[tuple[int, pl.DataFrame]] = []
    ranks: list[int | None] = []
    answered = 0
    lacks = False
    following = []
    results = []
    for recording, result, content in each_process(asked.path, asked.folders, shown, as_json=as_json):
        contents.append(content)
        answered += result.coverage.is_answered
        lacks |= bool(result.coverage.missing or result.coverage.limits)
        following.append(question.following(result))
        results.append(result)
        if question.findings is not None:
            found.append((recording.process_id, question.findings(result)))
            ranks.append(recording.place.rank)
        for line in question.write(result, recording, options):
            messages.note(line)
    capture = capture_of_dump(asked.path) if lacks else None
    if capture is not None:
        command = shlex.join(["msmemscope", "analyze", question.name, str(capture)])
        messages.note(f"a dump has less than its capture: {command}")
    merged = question.merge(found, ranks)
    together = question.together(results)
    if as_json:
        of_all: dict[str, Any] = {"processes": contents, "merged": merged_content(merged)}
        if together is not None:
            of_all["together"] = dataclasses.asdict(together)
        write_json({"analysis": question.name, "path": str(asked.path), **of_all})
        return merged.height if answered else None
    if together is not None:
        ReportWriter(sys.stdout).line()
        question.render_together(together, sys.stdout)
    if len(contents) > 1 and not merged.is_empty():
        ReportWriter(sys.stdout).line()
        render_merged_findings(merged, len(contents), sys.stdout)
    if answered:
        # Of several processes, one that leaks calls for more than one that does not.
        command = next((one for one in following if one != USUALLY_FOLLOWING), USUALLY_FOLLOWING)
        name_next_command(command, [asked.typed])
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

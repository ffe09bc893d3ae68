"""`msmemscope analyze KIND PATH`: the analyses of what was recorded, on the command line."""

from __future__ import annotations

import contextlib
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msmemscope.configuration import OPTION_BY_SPELLING, split_list
from msmemscope.errors import EXIT_STATUS_FAILURE, MsmemscopeError, UsageError
from msmemscope.units import SIZE_FORMS, parse_size_bytes

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from msmemscope.recording import Recording


_CAPTURES: Final = "msmemscope_*_ascend"
_EVENT_LOG: Final = "event_log"


class _Choice(NamedTuple):
    """An option of one kind of analysis."""

    spelling: str
    parameter: str
    """The field of the configuration that it sets."""
    metavar: str
    """Empty for a switch."""
    help: str
    parse: str = "text"
    """How its value is read: `text`, `list`, `size`, `count`, `chance`."""


class _Kind(NamedTuple):
    """One kind of analysis."""

    summary: str
    choices: tuple[_Choice, ...] = ()
    can_fail: bool = True
    """Whether it finds what should not be, so that it can be a gate of a pipeline."""


_KINDS: Final[dict[str, _Kind]] = {
    "leaks": _Kind(
        "What is allocated and never given back: over the steps of the program, or between marks of it.",
        (
            _Choice("--mark", "mstx_info", "TEXT", "judge the range between the mstx marks A, B and C with this text"),
            _Choice("--start-index", "start_index", "N", "which mark with this text is A, from 0; default: 0", "count"),
        ),
    ),
    "inefficient": _Kind(
        "Memory that is held while nobody needs it.",
        (
            _Choice("--mem-size", "mem_size", "SIZE", f"report no smaller blocks: {SIZE_FORMS}; default: 0", "size"),
            _Choice(
                "--type", "inefficient_type", "LIST",
                "early_allocation, late_deallocation, temporary_idleness, separated by commas; default: all", "list",
            ),
            _Choice(
                "--idle-threshold", "idle_threshold", "N",
                "operators between two accesses above which a block is idle; default: 3000", "count",
            ),
            _Choice("--write-back", "write_back", "", "write inefficient_type into the dump, or the dumps of a capture"),
        ),
    ),
    "decompose": _Kind("What memory is made of, by owner.", can_fail=False),
    "peak": _Kind(
        "What filled memory at its peak, or when an allocation failed, and what could be saved.",
        (
            _Choice("--device", "device", "DEVICE", "cpu or npu:{id}; default: all that have memory"),
            _Choice("--at", "at", "ID", "explain the moment of this event, an ID of the dump, instead", "count"),
        ),
        can_fail=False,
    ),
    "operators": _Kind(
        "What each operator, or each launch of a kernel, changed.",
        (
            _Choice("--level", "level", "LIST", f"{OPTION_BY_SPELLING['--level'].accepted}; default: op"),
            _Choice("--csv", "csv", "FILE", "write all rows to this new file"),
        ),
        can_fail=False,
    ),
    "oom": _Kind(
        "Allocations that failed for lack of memory, and what was alive then.",
        (_Choice("--limit", "limit", "N", "operators, lines and blocks listed by name; default: 5", "count"),),
    ),
    "growth": _Kind(
        "Call sites whose live memory grows over many steps, although blocks are freed.",
        (
            _Choice("--significance", "significance", "P", "accepted chance per call site; default: 0.001", "chance"),
            _Choice("--minimum-size", "minimum_bytes", "SIZE", f"growth that counts: {SIZE_FORMS}; default: 1", "size"),
        ),
    ),
    "watch": _Kind("What changed watched memory: which operator, which bytes, and whether it may."),
}  # fmt: skip


class AnalyzeCommand:
    """Analyse what was recorded, by us or by MindStudio msMemScope.

    PATH is a capture folder (msmemscope_*_ascend), a folder of several, a dump (CSV or DB), or a memory snapshot of
    torch. The result goes to stdout. The exit status is 0, or 2 if the input or an option is not accepted.
    """

    name = "analyze"
    summary = "Find leaks, inefficient memory, growth, and what memory is made of."

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the kinds of analyses with their arguments."""
        kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
        for name, kind in _KINDS.items():
            own = kinds.add_parser(name, help=kind.summary, description=kind.summary, allow_abbrev=False)
            own.add_argument(
                "path", metavar="PATH", help="a capture folder, a folder of several, or a dump (CSV or DB)"
            )
            for choice in kind.choices:
                if choice.metavar:
                    own.add_argument(choice.spelling, dest=choice.parameter, metavar=choice.metavar, help=choice.help)
                else:
                    own.add_argument(choice.spelling, dest=choice.parameter, action="store_true", help=choice.help)
            own.add_argument("--json", action="store_true", help="write the result to stdout as one JSON object")
            if kind.can_fail:
                own.add_argument(
                    "--fail-on-findings",
                    action="store_true",
                    help="exit with status 1 if anything was found, or nothing could be looked at",
                )

    def run(self, arguments: argparse.Namespace) -> int:
        """Analyse one process after the other."""
        kind = _KINDS[arguments.kind]
        parameters = _parameters(kind, arguments)
        if arguments.kind == "leaks" and "start_index" in parameters and "mstx_info" not in parameters:
            message = "goes together with --mark"
            raise UsageError(message, option="--start-index", value=arguments.start_index)
        if arguments.kind == "inefficient":
            parameters["patterns"] = True
        if not arguments.path:
            message = "names nothing"
            raise UsageError(message, option="PATH", value="", accepted="a capture folder, or a dump file")
        with contextlib.suppress(ValueError):  # only the main thread may
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        path = Path(arguments.path).expanduser()
        findings = _analyze(arguments.kind, path, parameters, as_json=arguments.json)
        # What could not be looked at has not passed.
        is_failure = findings is None or findings > 0
        return EXIT_STATUS_FAILURE if is_failure and kind.can_fail and arguments.fail_on_findings else 0


def _parameters(kind: _Kind, arguments: argparse.Namespace) -> dict[str, Any]:
    """The fields of the configuration that options were given for."""
    found: dict[str, Any] = {}
    for choice in kind.choices:
        given = getattr(arguments, choice.parameter)
        if given is not None:
            found[choice.parameter] = _value(choice, given) if choice.metavar else given
    return found


def _value(choice: _Choice, text: str) -> object:
    if choice.parse == "list":
        words = split_list(text)
        if not words:
            message = "names nothing"
            raise UsageError(message, option=choice.spelling, value=text, accepted=choice.help.partition(";")[0])
        return words
    if choice.parse == "size":
        return parse_size_bytes(text, option=choice.spelling)
    if choice.parse == "count":
        if not (text.isascii() and text.isdigit()):
            message = "not a whole number"
            raise UsageError(message, option=choice.spelling, value=text, accepted="0 or more")
        return int(text)
    if choice.parse == "chance":
        with contextlib.suppress(ValueError):
            return float(text)
        message = "not a number"
        raise UsageError(message, option=choice.spelling, value=text, accepted="a number between 0 and 1")
    return text


def _analyze(name: str, path: Path, parameters: dict[str, Any], *, as_json: bool) -> int | None:
    """Analyse every process at a path.

    Returns:
        How much was found that should not be; None if the question was answered for no process.

    Raises:
        MsmemscopeError: if not a single process could be analysed.
    """
    # Loaded only now: these start threads and take memory, which the other verbs need not wait for.
    from msmemscope.analyzer.analyzers import ANALYZERS
    from msmemscope.analyzer.base import tell_owner, tell_problems
    from msmemscope.launch import messages
    from msmemscope.launch.faults import faults_as_errors
    from msmemscope.reports.report_text import HEADING, ReportWriter

    analyzer = ANALYZERS[name]()
    with _options_as_typed(name):
        analyzer.config_class(path, **parameters)  # values are judged before anything is read
    failures: list[MsmemscopeError] = []
    contents = []
    findings = analyzed = answered = 0
    for recording, is_one_of_several in _recordings(path, failures):
        config = analyzer.config_class(recording, **parameters)
        try:
            with (
                _options_as_typed(name),
                faults_as_errors(during=f"{name} of {recording.source}", send=recording.source),
            ):
                analyzer.check(recording, config)
                result = analyzer.examine(recording, config)
                if as_json:
                    is_answered = result.coverage.is_answered
                    content = analyzer.content(result, recording, config)
                    contents.append(_content(recording, content, is_answered=is_answered))
                else:
                    tell_problems(recording)
                    if is_one_of_several:
                        writer = ReportWriter(sys.stdout)
                        if analyzed:
                            writer.line()
                        writer.line(f"Process {recording.process_id}: {recording.source}", HEADING)
                    analyzer.report(result, recording, config, sys.stdout)
                    sys.stdout.flush()
        except MsmemscopeError as error:
            failures.append(error)
            continue
        findings += analyzer.finding_count(result)
        answered += result.coverage.is_answered
        analyzed += 1
        for line in analyzer.write(result, recording, config):
            messages.note(line)
    if not analyzed and failures:
        raise failures[0]
    for failure in failures:
        messages.warning(failure.message, failure.hint)
    tell_owner(path)
    if as_json:
        import json

        text = json.dumps({"analysis": name, "path": str(path), "processes": contents}, ensure_ascii=False, indent=2)
        sys.stdout.write(f"{text}\n")
    return findings if answered else None


@contextlib.contextmanager
def _options_as_typed(kind: str) -> Iterator[None]:
    """Errors name an option as it is written on the command line, not the field that it sets."""
    try:
        yield
    except UsageError as error:
        for choice in _KINDS[kind].choices:
            if choice.parameter == error.option:
                raise UsageError(
                    error.reason, option=choice.spelling, value=error.value, accepted=error.accepted, hint=error.hint
                ) from error
        raise


def _content(recording: Recording, result: dict[str, Any], *, is_answered: bool) -> dict[str, Any]:
    return {
        "process_id": recording.process_id,
        "source": recording.source,
        "form": recording.form,
        "coverage": list(recording.coverage),
        "problems": list(recording.problems),
        "is_answered": is_answered,
        "result": result,
    }


def _recordings(path: Path, failures: list[MsmemscopeError]) -> Iterator[tuple[Recording, bool]]:
    """Read the processes at a path, one after the other, so that not all of them need fit into memory.

    Args:
        path: What was given.
        failures: Gets the captures that cannot be read.

    Yields:
        Each process, and whether it is one of several.
    """
    from msmemscope.formats.reading import load_all
    from msmemscope.launch.faults import faults_as_errors

    is_folder = path.is_dir() and path.name != _EVENT_LOG and not (path / _EVENT_LOG).is_dir()
    folders = sorted(folder for folder in path.glob(_CAPTURES) if folder.is_dir()) if is_folder else []
    for folder in folders or [path]:
        try:
            with _shown(folder), faults_as_errors(during=str(folder), send=str(folder)):
                recordings = load_all(folder)
        except MsmemscopeError as error:
            failures.append(error)
            continue
        for recording in recordings:
            yield recording, len(folders) > 1 or len(recordings) > 1


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

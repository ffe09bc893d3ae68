"""`msmemscope export PATH --to FORMAT`: what was recorded, for other tools."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import inspect
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from msmemscope.cli.chosen_input import add_force, chosen_input
from msmemscope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from msmemscope.analysis.weights.measures import Measure
    from msmemscope.formats.event_log import Capture
    from msmemscope.formats.export.export_formats import ExportFormat
    from msmemscope.formats.export.writing import Place
    from msmemscope.recording import Recording

# Formats bring what they are made with, which the other verbs need not wait for: they are imported when this verb is chosen.

_OF: Final = "--of"
_TO: Final = "--to"
_MOST_NAMED: Final = 8
_LONGEST_NAME: Final = 128
_CAPTURE_NAME: Final = re.compile(r"msmemscope_\d+_\d+_ascend")
_NAMELESS: Final = "redacted"


class ExportCommand:
    """Write what was recorded as a file that other tools open.

    PATH is a capture folder (msmemscope_*_ascend), its archive, a dump (CSV or DB),
    or a memory snapshot of torch; without it, the latest run. An older export of that
    name is replaced, another file only with --force.
    """

    name = "export"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the verb."""
        from msmemscope.analysis.weights.measures import Measure

        formats = _formats()
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.description = inspect.getdoc(type(self))
        width = max(map(len, formats))
        lines = (f"  {name:{width}}  {one.summary}" for name, one in formats.items())
        parser.epilog = "\n".join(["formats, and what opens them:", *lines, "", f"example: {_EXAMPLE}"])
        parser.add_argument("path", metavar="PATH", nargs="?", help="the recording; default: the latest run")
        parser.add_argument(_TO, metavar="FORMAT", required=True, help="one of the formats below")
        parser.add_argument(
            "-o", "--output", metavar="FILE", help="the file; default: the name of PATH, in the current folder"
        )
        parser.add_argument(
            _OF,
            metavar="MEASURE",
            help=f"the measure of a flamegraph: {', '.join(one.value for one in Measure)}; default: peak",
        )

        parser.add_argument(
            "--redact",
            action="store_true",
            help="replace names by tokens; numbers stay",
        )
        parser.add_argument(
            "--redact-key",
            metavar="TEXT",
            help="the same, and the same tokens in all exports with it",
        )
        add_force(parser)

    def run(self, arguments: argparse.Namespace) -> int:
        """Read one process and write it."""
        from msmemscope.analysis.weights.measures import Measure
        from msmemscope.cli.next_command import name_next_command
        from msmemscope.formats.export.export_choice import ExportChoice
        from msmemscope.formats.export.export_formats import LOG_FORMATS
        from msmemscope.formats.export.redaction import Redaction
        from msmemscope.formats.export.writing import Place, write_export
        from msmemscope.launch import messages
        from msmemscope.launch.faults import faults_as_errors
        from msmemscope.launch.input_notes import note_foreign_owner, note_problems

        chosen = _formats()[_format_name(arguments.to)]
        measure = _measure(arguments.of, arguments.to, takes_measure=chosen.takes_measure)
        path, folders = chosen_input(arguments.path)
        if len(folders) > 1:
            _refuse(path, [str(folder) for folder in folders], arguments.to)
        path = folders[0] if folders else path
        redaction = None
        name = _name_of(path)
        if arguments.redact or arguments.redact_key is not None:
            _check_redacts(arguments.to)
            redaction = Redaction(_key(arguments.redact_key))
            name = name if _CAPTURE_NAME.fullmatch(name) else _NAMELESS
        place = Place(_output(arguments.output, f"{name}{chosen.suffix}"), is_forced=arguments.force)
        place.check(chosen.mark, [path])
        with faults_as_errors(during=f"export of {path}", send=str(path)):
            if arguments.to in LOG_FORMATS:
                _write_log(path, arguments.to, place)
            else:
                recording = _loaded(path, arguments.to)
                note_problems(recording.source, recording.problems)
                note_foreign_owner(path)
                choice = ExportChoice(name, measure=measure or Measure.PEAK, redaction=redaction)
                for line in write_export(recording, arguments.to, place, choice):
                    messages.note(line)
        messages.note(f"written: {place.path} (opens in {chosen.summary})")
        name_next_command("view", [arguments.path])
        return 0


_EXAMPLE: Final = "msmemscope export --to=perfetto -o train.pftrace"


def _formats() -> dict[str, ExportFormat]:
    from msmemscope.formats.export.export_formats import EXPORT_FORMATS, LOG_FORMATS

    return {**EXPORT_FORMATS, **LOG_FORMATS}


def _format_name(given: str) -> str:
    formats = _formats()
    if given in formats:
        return given
    message = "is no format"
    near = difflib.get_close_matches(given, formats, n=1)
    hint = f"did you mean {_TO}={near[0]}?" if near else _EXAMPLE
    raise UsageError(message, option=_TO, value=given, accepted=", ".join(formats), hint=hint)


def _check_redacts(format_name: str) -> None:
    from msmemscope.formats.export.export_formats import EXPORT_FORMATS

    if format_name not in EXPORT_FORMATS:
        message = "does not go together with --redact: it is the event log as it was recorded, names included"
        hint = f"{_TO}=parquet, {_TO}=csv and the others can be redacted"
        raise UsageError(message, option=_TO, value=format_name, hint=hint)


def _measure(given: str | None, format_name: str, *, takes_measure: bool) -> Measure | None:
    from msmemscope.analysis.weights.measures import Measure
    from msmemscope.formats.export.export_formats import EXPORT_FORMATS

    if given is None:
        return None
    words = [one.value for one in Measure]
    if given not in words:
        message = "is nothing that stacks are weighted by"
        raise UsageError(message, option=_OF, value=given, accepted=", ".join(words))
    if not takes_measure:
        takers = ", ".join(f"{_TO}={name}" for name, one in EXPORT_FORMATS.items() if one.takes_measure)
        message = f"goes together with {takers}"
        raise UsageError(message, option=_OF, value=given, hint=f"{format_name} is not made of one measure")
    return Measure(given)


def _key(given: str | None) -> str | None:
    if given is not None and not given.strip():
        message = "is empty, so that everybody knows it"
        raise UsageError(message, option="--redact-key", value=given, accepted="a text that others do not guess")
    return given


def _name_of(path: Path) -> str:
    """Return what a capture or a file is called, without the endings of files."""
    absolute = path.absolute()
    if path.is_dir():
        return absolute.parent.name if absolute.name == "event_log" else absolute.name
    return absolute.stem[:_LONGEST_NAME] or absolute.name[:_LONGEST_NAME]


def _output(given: str | None, default: str) -> Path:
    if given is None:
        return Path(default)
    if not given.strip() or given.endswith("/") or "\0" in given:
        message = "names no file"
        raise UsageError(message, option="--output", value=given, accepted="a file in an existing folder")
    return Path(given).expanduser()


def _write_log(path: Path, format_name: str, place: Place) -> None:
    from msmemscope.formats.export.writing import write_log_export
    from msmemscope.launch.input_notes import note_foreign_owner, note_problems

    capture = _event_log(path, format_name)
    note_problems(str(capture.directory), capture.problems)
    note_foreign_owner(path)
    with _progress() as progress:
        write_log_export(capture, format_name, place, progress)


def _event_log(path: Path, format_name: str) -> Capture:
    from msmemscope.formats.event_log import Capture
    from msmemscope.formats.recognise import recognise

    found = recognise(path)
    if len(found) > 1:
        _refuse(path, [str(one.paths[0]) for one in found], format_name)
    (one,) = found
    if one.failure is not None:
        raise one.failure
    if one.file_format is not None:
        message = f"is made of an event log, and {path} is none"
        hint = f"{_TO}=parquet holds what dumps and snapshots do"
        raise UsageError(message, option=_TO, value=format_name, hint=hint)
    return Capture(one.paths[0])


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[int, int], None] | None]:
    """While a long file is written, a bar on the terminal says how far it is."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("Writing events"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _loaded(path: Path, format_name: str) -> Recording:
    from msmemscope.formats.reading import load_all

    recordings = load_all(path)
    if len(recordings) > 1:
        _refuse(path, [recording.source for recording in recordings], format_name)
    return recordings[0]


def _refuse(path: Path, sources: Sequence[str], format_name: str) -> NoReturn:
    message = "holds several processes; name one of them"
    others = ", ..." if len(sources) > _MOST_NAMED else ""
    raise UsageError(
        message,
        option="PATH",
        value=str(path),
        accepted=f"{', '.join(sources[:_MOST_NAMED])}{others}",
        hint=f"msmemscope export {sources[0]} {_TO}={format_name}",
    )

"""`msmemscope bug-report`: one file with what a report of a fault needs, and no names."""

from __future__ import annotations

import io
import json
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msmemscope.cli.chosen_input import add_force, add_path, chosen_input, describe_verb
from msmemscope.errors import MsmemscopeError, UsageError
from msmemscope.formats.output_place import Mark, check_output

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from msmemscope.launch.redaction import Redaction

_EXAMPLE: Final = "msmemscope bug-report memscopeDumpResults -o report.zip"
_DEFAULT: Final = "msmemscope-bug-report.zip"
_MARK: Final = Mark(begin=b"PK", end=b"written by msmemscope bug-report")
"""The comment of the ZIP file."""
_CHANGED_AT: Final = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a ZIP can hold: the same report is the same file."""


class BugReportCommand:
    """Collect what a report of a fault needs, in one file to look through and to send.

    It has versions, the output of doctor, and the machine. Of the captures at PATH it has
    settings and facts, coverage, problems, counts, and the names and sizes of files. It has
    no texts of events, call stacks, or contents of memory. Paths, names of users and hosts,
    arguments and values of the environment are replaced, the same one always alike.
    """

    name = "bug-report"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the verb."""
        describe_verb(parser, self, _EXAMPLE)
        add_path(parser)
        parser.add_argument("-o", "--output", metavar="FILE", help=f"the file; default: {_DEFAULT}")
        parser.add_argument("--with-names", action="store_true", help="replace nothing")
        add_force(parser)

    def run(self, arguments: argparse.Namespace) -> int:
        """Write it, and print what went in."""
        from msmemscope.launch import messages
        from msmemscope.launch.redaction import Redaction

        output = Path(arguments.output or _DEFAULT).expanduser()
        check_output(output, _MARK, is_forced=arguments.force)
        redaction = Redaction(with_names=arguments.with_names)
        files = dict(_contents(_inputs(arguments.path), redaction))
        _write(output, files, is_forced=arguments.force)
        for name, (content, what) in files.items():
            sys.stdout.write(f"{name:16}  {len(content.encode()):7} bytes  {what}\n")
        names = "with names" if arguments.with_names else "names are replaced; look through it before you send it"
        messages.note(f"written: {output} ({names})")
        return 0


def _inputs(given: str | None) -> Sequence[Path]:
    try:
        path, folders = chosen_input(given)
    except UsageError:
        if given is not None:
            raise
        return ()  # a fault can come before there is any run
    return folders or [path]


def _contents(paths: Sequence[Path], redaction: Redaction) -> Iterator[tuple[str, tuple[str, str]]]:
    """Each file of the report: its name, its content, and what it is."""
    from msmemscope.cli.version_text import version_text
    from msmemscope.launch.bug_report import input_content, machine_content

    yield "version.txt", (redaction.paths(version_text()), "what is installed")
    yield "doctor.txt", (redaction.text(_doctor_text()), "what can be observed here")
    yield "machine.json", (_json(machine_content(redaction)), "system, processors, memory, variables that are set")
    for number, path in enumerate(paths, 1):
        what = "settings, facts, coverage, problems, counts, files"
        yield f"input-{number}.json", (_json(input_content(path, redaction)), what)


def _doctor_text() -> str:
    from msmemscope.cli.commands.doctor import finding_text
    from msmemscope.configuration import Config
    from msmemscope.launch.diagnosis import diagnose
    from msmemscope.launch.faults import faults_as_errors

    parts: list[str] = []
    try:
        with faults_as_errors(during="doctor", send="this report"):
            parts.extend(map(finding_text, diagnose(Config())))
    except MsmemscopeError as error:
        parts.append(f"{error.message}\n")
    return "".join(parts)


def _json(content: object) -> str:
    return f"{json.dumps(content, indent=2)}\n"


def _write(output: Path, files: dict[str, tuple[str, str]], *, is_forced: bool) -> None:
    from msmemscope.formats.dump.output_files import OutputFolder

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.comment = _MARK.end
        for name, (content, _) in files.items():
            entry = zipfile.ZipInfo(name, _CHANGED_AT)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    with OutputFolder(output.absolute().parent) as folder:
        file = folder.create(output.name)
        try:
            file.write(buffer.getvalue())
            file.finish(replaces=check_output(output, _MARK, is_forced=is_forced))
        finally:
            file.discard()

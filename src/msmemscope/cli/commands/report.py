"""`msmemscope report PATH`: what was recorded as one HTML page."""

from __future__ import annotations

import sys
import webbrowser
from typing import TYPE_CHECKING

from msmemscope.cli.chosen_input import add_force, chosen_input, output_file, recordings_at
from msmemscope.reports.html import HTML_REPORT_FILE
from msmemscope.reports.html.words import LANGUAGES

if TYPE_CHECKING:
    import argparse

    from msmemscope.errors import MsmemscopeError


class ReportCommand:
    """Write what was recorded as one HTML page: what was found, memory over time, and the tables behind it.

    PATH is a capture folder (msmemscope_*_ascend), a folder of several, a dump (CSV or DB), or a memory snapshot of
    torch. Without it, all processes of the latest run in the output folder are taken. The page needs no network and no other file. An older page
    of that name is replaced, another file only with --force.
    """

    name = "report"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the verb."""
        parser.add_argument(
            "path",
            metavar="PATH",
            nargs="?",
            help="a capture folder, a folder of several, or a dump (CSV or DB); default: the latest run",
        )
        parser.add_argument("-o", "--output", metavar="FILE", help=f"the file to write; default: {HTML_REPORT_FILE}")
        parser.add_argument("--language", choices=tuple(LANGUAGES), default="en", help="of the page; default: en")
        parser.add_argument("--open", action="store_true", help="show the page in the browser")
        add_force(parser)

    def run(self, arguments: argparse.Namespace) -> int:
        """Write the page about all processes."""
        from msmemscope.launch.html_report import PAGE_MARK, report_parts, report_text, write_report

        # Judged before anything is read.
        name = HTML_REPORT_FILE if arguments.output is None else arguments.output
        target = output_file(name, "-o", PAGE_MARK, is_forced=arguments.force)
        path, folders = chosen_input(arguments.path)
        from msmemscope.cli.next_command import name_next_command
        from msmemscope.formats.output_place import check_output
        from msmemscope.launch import messages
        from msmemscope.launch.input_notes import note_foreign_owner
        from msmemscope.reports.report_text import relative_path
        from msmemscope.units import format_bytes

        failures: list[MsmemscopeError] = []
        paths = folders or [path]
        recordings = (recording for recording, _ in recordings_at(paths, failures))
        parts = report_parts(recordings, process_count=len(paths))
        if not parts:
            raise failures[0]
        for failure in failures:
            messages.warning(failure.message, failure.hint)
        text = report_text(parts, source=str(path), language=arguments.language)
        replaces = check_output(target, PAGE_MARK, option="-o", is_forced=arguments.force, inputs=paths)
        written = write_report(text, target, replaces=replaces)
        note_foreign_owner(path)
        sys.stdout.write(f"{relative_path(written)} ({format_bytes(written.stat().st_size)})\n")
        sys.stdout.flush()
        if arguments.open and not webbrowser.open(written.absolute().as_uri()):
            messages.warning("no browser could be started", hint=f"open {written} in one")
        name_next_command("view", [arguments.path])
        return 0

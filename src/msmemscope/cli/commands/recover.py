"""`msmemscope recover DIR`: finish what a launch could not finish."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from msmemscope.cli.chosen_input import chosen_input
from msmemscope.cli.patient_stream import make_stderr_patient
from msmemscope.configuration import OPTION_BY_SPELLING, Config, GivenOption, LogLevel, with_options
from msmemscope.errors import EXIT_STATUS_FAILURE, UsageError
from msmemscope.launch.ledger import LAUNCH_DIRECTORY_PREFIX, remove_launch_directory

if TYPE_CHECKING:
    import argparse

    from msmemscope.reports.run_summary import RunSummary

_OVERRIDES = ("--data-format", "--call-stack")


class RecoverCommand:
    """Write the dump files and the summary of captures that were left unfinished.

    Every event that was committed before the process ended is there, also after kill -9. Each capture is finished by
    itself; the exit status is 1 if one could not be. Of an archive, the capture folder is made again beside it.
    """

    name = "recover"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the verb."""
        parser.add_argument(
            "directory",
            type=Path,
            metavar="DIR",
            nargs="?",
            help="a capture (msmemscope_*_ascend), an archive of one, or a directory of several; default: the latest run",
        )
        for spelling in _OVERRIDES:
            option = OPTION_BY_SPELLING[spelling]
            parser.add_argument(
                spelling,
                *(other for other in option.other_spellings),
                metavar=option.metavar,
                help=f"instead of what the run was given: {option.accepted}; writes again what was written before",
            )
        parser.add_argument(
            "--report", action="store_true", help="also write report.html, as --report does in front of a program"
        )
        parser.add_argument("--session", metavar="ID", help="only captures of one launch or session, 16 hex digits")

    def run(self, arguments: argparse.Namespace) -> int:
        """Export what has no dump files yet, or everything if told how."""
        given = [
            GivenOption(OPTION_BY_SPELLING[spelling], spelling, value)
            for spelling in _OVERRIDES
            if (value := getattr(arguments, spelling[2:].replace("-", "_"))) is not None
        ]
        if arguments.session is not None:
            make_stderr_patient()  # the program waits for us
        with_options(Config(), given)  # values are judged before anything is read
        from msmemscope.launch.capture_folders import captures_under
        from msmemscope.launch.captures import (
            has_finished_dump,
            open_captures,
            settings_of,
        )
        from msmemscope.launch.finish import finish
        from msmemscope.reports.run_summary import RunSummary
        from msmemscope.reports.terminal import render_run

        session = _session(arguments.session)
        if arguments.directory is None:
            directory, folders = chosen_input(None)
            is_single = True  # what else lies there is not looked at
        else:
            directory = _restored(arguments.directory)
            single = directory.parent if directory.name == "event_log" else directory
            is_single = (single / "event_log").is_dir()
            folders = [single] if is_single else captures_under(directory)
        captures = open_captures(folders)
        if session is not None:
            captures = [capture for capture in captures if capture.header.session == session]
        elif not captures:
            message = "holds no capture"
            accepted = "a directory msmemscope_*_ascend with an event_log, or one that contains such"
            raise UsageError(message, option="DIR", value=str(directory), accepted=accepted)
        settings = {capture.directory: with_options(settings_of(capture, Config()), given) for capture in captures}
        ended = [capture for capture in captures if not capture.is_running()]
        unfinished = [capture for capture in ended if given or not has_finished_dump(capture.directory)]
        finished = finish(captures, {capture.directory: settings[capture.directory] for capture in unfinished})
        processes = finished.processes
        if arguments.report:
            from msmemscope.launch.html_report import with_page

            processes = with_page(processes)
        summary = RunSummary(
            processes=processes,
            recover_command=f"msmemscope recover {directory}",
        )
        if session is None:
            render_run(summary, sys.stderr)
        else:
            _tell(summary, next(iter(settings.values()), Config()))
        if not is_single and session is None:
            _remove_stale_launches(directory, running=len(ended) < len(captures))
        return EXIT_STATUS_FAILURE if finished.unwritten else 0


def _tell(summary: RunSummary, config: Config) -> None:
    """Print the same as the end of a program without a launcher, as much of it as its settings ask for."""
    from msmemscope.launch import messages
    from msmemscope.launch.proceedings import tell_end, tell_settings
    from msmemscope.reports.terminal import render_run

    with messages.printed_from(config.log_level):
        if messages.are_printed(LogLevel.INFO):
            tell_settings(config)
            tell_end(summary.processes)
        if messages.are_printed(LogLevel.WARN):
            render_run(summary, sys.stderr)


def _restored(directory: Path) -> Path:
    """Return the capture folder of an archive, made again; anything else as it is."""
    from msmemscope.formats.event_log.archive.contents import is_archive

    if not is_archive(directory):
        return directory
    from msmemscope.formats.event_log import Capture
    from msmemscope.formats.event_log.archive.restoring import restore_folder
    from msmemscope.launch import messages
    from msmemscope.launch.input_notes import note_problems

    capture = Capture(directory)
    note_problems(str(directory), capture.problems)
    folder = restore_folder(capture)
    messages.note(f"written: {folder}")
    return folder


def _session(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return int(text, 16)
    except ValueError as error:
        message = "not a session"
        raise UsageError(message, option="--session", value=text, accepted="16 hexadecimal digits") from error


def _remove_stale_launches(root: Path, *, running: bool) -> None:
    """Remove the folder that a killed launcher left; processes that still run need it."""
    if running:
        return
    for directory in root.glob(f"{LAUNCH_DIRECTORY_PREFIX}*"):
        process_id = directory.name.removeprefix(LAUNCH_DIRECTORY_PREFIX).partition("_")[0]
        with contextlib.suppress(OSError):
            is_ours = directory.lstat().st_uid == os.geteuid() and not directory.is_symlink()
            if is_ours and process_id.isdigit() and not Path(f"/proc/{process_id}").exists():
                remove_launch_directory(directory)

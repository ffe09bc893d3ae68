"""The input of a verb: the meaning of its PATH, and the processes that lie there."""

from __future__ import annotations

import argparse
import contextlib
import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msmemscope.errors import MsmemscopeError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from msmemscope.formats.output_place import Mark
    from msmemscope.recording import Recording

_PATH_HELP: Final = (
    "a capture folder or an archive of one, a folder of several, a dump (CSV or DB), a snapshot, or the number of a process that "
    "runs under msmemscope; default: the latest run"
)
_EVENT_LOG: Final = "event_log"


def describe_verb(parser: argparse.ArgumentParser, verb: object, example: str) -> None:
    """Give the parser of a verb its words of help.

    Args:
        parser: Of the verb.
        verb: Its docstring says what it does.
        example: A command line.
    """
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = inspect.getdoc(type(verb))
    parser.epilog = f"example: {example}"


def add_path(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """Give the parser of a verb PATH, as `path`; or some of them, as `paths`."""
    if several:
        parser.add_argument("paths", metavar="PATH", nargs="*", help=_PATH_HELP)
    else:
        parser.add_argument("path", metavar="PATH", nargs="?", help=_PATH_HELP)


def chosen_input(given: str | None) -> tuple[Path, Sequence[Path]]:
    """Return what a command line names, and the captures in it, if it is a folder of several.

    Args:
        given: PATH as it was typed; None for the latest run in the output folder. The number of a running process stands for
            what it has recorded so far.

    Raises:
        UsageError: If nothing is named, and there is no run; or if a process is named that is not observed.
    """
    if given == "":
        message = "names nothing"
        raise UsageError(message, option="PATH", value="", accepted="a capture folder, or a dump file")
    if given is None:
        from msmemscope.configuration import Config
        from msmemscope.launch import messages
        from msmemscope.launch.latest_runs import latest_runs

        output = Path(Config().output)
        (run,) = latest_runs(output)
        messages.note(f"the latest run: {run}")
        return (run.captures[0] if len(run.captures) == 1 else output), run.captures
    from msmemscope.live.capture_choice import captures_of_process, is_process_number

    if is_process_number(given):
        captures = captures_of_process(given)
        return captures[0], captures if len(captures) > 1 else []
    path = Path(given).expanduser()
    if not path.is_dir() or path.name == _EVENT_LOG or (path / _EVENT_LOG).is_dir():
        return path, []
    from msmemscope.formats.recognise import captures_in

    return path, captures_in(path)


def add_force(parser: argparse.ArgumentParser) -> None:
    """Give the parser of a verb that writes a file `--force`, as `force`."""
    parser.add_argument("--force", action="store_true", help="write over a file that msmemscope did not write")


def output_file(name: str, option: str, mark: Mark, *, is_forced: bool = False) -> Path:
    """Return the file to write that a command line names.

    Args:
        name: As it was typed.
        option: That it was typed for.
        mark: Of what is written.
        is_forced: Whether any file may be replaced.

    Raises:
        UsageError: It cannot be one, or something else is there.
    """
    from msmemscope.formats.output_place import check_output

    target = Path(name).expanduser()
    if not name or target.is_dir():
        message = "is no file"
        raise UsageError(message, option=option, value=name, accepted="the name of a file")
    check_output(target, mark, option=option, is_forced=is_forced)
    return target


def recordings_at(paths: Sequence[Path], failures: list[MsmemscopeError]) -> Iterator[tuple[Recording, bool]]:
    """Read the processes at some paths, one after the other, so that not all of them need fit into memory.

    Args:
        paths: The paths that were given.
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

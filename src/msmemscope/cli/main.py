"""The `msmemscope` command: the one place where errors become messages and exit statuses."""

from __future__ import annotations

import atexit
import dataclasses
import gc
import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from msmemscope.cli.arguments import HelpRequest, VerbRequest, VersionRequest, parse_command_line
from msmemscope.cli.commands import VERBS, VERBS_BY_PURPOSE, VERBS_OF_OTHERS
from msmemscope.configuration import Config, OptionGroup, with_options
from msmemscope.errors import (
    EXIT_STATUS_FAILURE,
    EXIT_STATUS_NOT_FOUND,
    EXIT_STATUS_USAGE,
    LaunchError,
    MsmemscopeError,
)
from msmemscope.launch import messages

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from msmemscope.cli.arguments import LaunchRequest
    from msmemscope.cli.project_file import ProjectFile

_OBJECTS_PER_COLLECTION = 50_000
_INTERRUPTED_STATUS = 130
_NOBODY_READS_STATUS = 141
"""As a shell shows the end by SIGPIPE."""
_DEPENDENCIES = frozenset({"elftools", "numpy", "polars", "rich", "tomli"})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line.

    Args:
        arguments: Without the name of the command; by default those of this process.

    Returns:
        The exit status.
    """
    _prepare_streams()
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except MsmemscopeError as error:
        messages.error(error)
        messages.forget_unwritten(sys.stdout)  # where it is stdout that could not be written
        return error.exit_status
    except KeyboardInterrupt:
        return _INTERRUPTED_STATUS
    except BrokenPipeError:
        messages.forget_unwritten(sys.stdout)
        return _NOBODY_READS_STATUS
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _DEPENDENCIES:
            messages.error(_fault(error, send="this command line"))
            return EXIT_STATUS_FAILURE
        messages.failed(
            f"{error.name} is not installed for {sys.executable}",
            hint=f"results are read with {', '.join(sorted(_DEPENDENCIES))}: install msmemscope there with pip",
        )
        return EXIT_STATUS_FAILURE
    except (SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - users see no traceback; a panic of Polars is no Exception
        messages.error(_fault(error, send="this command line, the files that it reads"))
        messages.forget_unwritten(sys.stdout)
        return EXIT_STATUS_FAILURE


def command() -> NoReturn:
    """Run the command line of this process, and end it.

    The interpreter does not take apart all that was loaded, which takes longer than most commands: the system does.
    """
    # What is imported stays: to look through it again and again takes a tenth of the time of a short command.
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    status = main()
    if len(sys._current_frames()) > 1:  # noqa: SLF001 - without importing threading for it
        raise SystemExit(status)  # whoever is at work still is waited for
    atexit._run_exitfuncs()  # noqa: SLF001 - no public name
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        raise SystemExit(status) from None  # the interpreter says what cannot be written
    os._exit(status)


def _fault(error: BaseException, *, send: str) -> MsmemscopeError:
    from msmemscope.launch.faults import fault_error

    return fault_error(error, send=send)


def _prepare_streams() -> None:
    """Keep our failed output from changing the program's exit status. The program still finds its stream closed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open to the end
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names of files need not be text


def _run(arguments: Sequence[str]) -> int:
    request = parse_command_line(arguments, verbs=VERBS, known_by=_known_by)
    if isinstance(request, HelpRequest):
        sys.stdout.write(_help(is_whole=request.is_whole))
        sys.stdout.flush()
        return 0
    if isinstance(request, VersionRequest):
        from msmemscope.cli.version_text import version_text

        sys.stdout.write(version_text())
        return 0
    if isinstance(request, VerbRequest):
        from msmemscope.cli.verb_parser import run_verb

        status = run_verb(request.verb, request.arguments)
        sys.stdout.flush()  # a full disk is seen here, and not when the interpreter ends
        return status
    if any(one.option.group is OptionGroup.COMPARE for one in request.given):
        from msmemscope.cli.commands.compare import compare_by_options

        return compare_by_options(request)
    project = _project_file(request)
    on_command_line = frozenset(one.option.name for one in request.given)
    if project is not None:
        request = dataclasses.replace(request, given=(*project.given, *request.given))
    config = with_options(Config(on_command_line=on_command_line), request.given)
    messages.print_from(config.log_level)
    if project is not None:
        messages.information(f"options of this project from {project.path}")
    if not request.program:
        sys.stderr.write(_help(is_whole=False))
        messages.failed("no program was given", hint="msmemscope python train.py")
        return EXIT_STATUS_USAGE
    from msmemscope.cli.patient_stream import make_stderr_patient
    from msmemscope.launch.launch import launch

    make_stderr_patient()
    try:
        return launch(request, config)
    except LaunchError as error:
        if error.hint is not None or error.exit_status != EXIT_STATUS_NOT_FOUND:
            raise
        known = VERBS_OF_OTHERS.get(request.program[0])
        if known is not None:
            raise LaunchError(error.message, exit_status=error.exit_status, hint=known) from error
        import difflib

        meant = difflib.get_close_matches(request.program[0], VERBS, n=1, cutoff=0.8)
        if not meant:
            raise
        hint = f"did you mean msmemscope {meant[0]}?"
        raise LaunchError(error.message, exit_status=error.exit_status, hint=hint) from error


def _known_by(program: Sequence[str], spellings: Collection[str]) -> str:
    from msmemscope.cli.program_options import knowing_file

    return knowing_file(program, spellings)


def _project_file(request: LaunchRequest) -> ProjectFile | None:
    if not request.program or any(one.option.name == "no-project-file" for one in request.given):
        return None
    try:
        folder = Path.cwd()
    except OSError:
        return None  # the current directory is gone
    from msmemscope.cli.project_file import read_project_file

    return read_project_file(folder)


def _help(*, is_whole: bool) -> str:
    from msmemscope.cli.help_text import help_on_a_screen, whole_help

    return whole_help(VERBS_BY_PURPOSE) if is_whole else help_on_a_screen(VERBS_BY_PURPOSE)

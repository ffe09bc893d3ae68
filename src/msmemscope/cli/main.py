"""The `msmemscope` command: the one place where errors become messages and exit statuses."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from msmemscope.cli import messages
from msmemscope.cli.arguments import HelpRequest, VerbRequest, VersionRequest, parse_command_line
from msmemscope.cli.commands import COMMANDS, run_command
from msmemscope.cli.commands.compare import COMPARING, compare_by_options
from msmemscope.cli.help_text import help_text
from msmemscope.cli.launch import launch
from msmemscope.cli.patient_stream import make_stderr_patient
from msmemscope.configuration import Config, with_options
from msmemscope.errors import EXIT_STATUS_FAILURE, EXIT_STATUS_USAGE, MsmemscopeError

if TYPE_CHECKING:
    from collections.abc import Sequence

_INTERRUPTED_STATUS = 130
_DEPENDENCIES = frozenset({"elftools", "numpy", "polars", "rich"})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line.

    Args:
        arguments: Without the name of the command; by default those of this process.

    Returns:
        The exit status.
    """
    _replace_closed_streams()
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except MsmemscopeError as error:
        messages.error(error)
        return error.exit_status
    except KeyboardInterrupt:
        return _INTERRUPTED_STATUS
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _DEPENDENCIES:
            raise
        messages.failed(
            f"{error.name} is not installed for {sys.executable}",
            hint=f"results are read with {', '.join(sorted(_DEPENDENCIES))}: install msmemscope there with pip",
        )
        return EXIT_STATUS_FAILURE


def _replace_closed_streams() -> None:
    """What we cannot say must not cost the program its exit status. The program still finds its stream closed."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open to the end


def _run(arguments: Sequence[str]) -> int:
    request = parse_command_line(arguments, verbs=[command.name for command in COMMANDS])
    if isinstance(request, HelpRequest):
        sys.stdout.write(_help())
        return 0
    if isinstance(request, VersionRequest):
        from msmemscope import __version__

        sys.stdout.write(f"msmemscope version {__version__}\n")
        return 0
    if isinstance(request, VerbRequest):
        return run_command(request.verb, request.arguments)
    if COMPARING & {one.option.name for one in request.given}:
        return compare_by_options(request)
    config = with_options(Config(), request.given)
    if not request.program:
        sys.stderr.write(_help())
        messages.failed("no program was given", hint="msmemscope python train.py")
        return EXIT_STATUS_USAGE
    make_stderr_patient()
    return launch(request, config)


def _help() -> str:
    return help_text({command.name: command.summary for command in COMMANDS})

"""The verbs: one file each, listed here."""

from __future__ import annotations

import argparse
import difflib
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from msmemscope.cli.commands.analyze import AnalyzeCommand
from msmemscope.cli.commands.bug_report import BugReportCommand
from msmemscope.cli.commands.compare import CompareCommand
from msmemscope.cli.commands.completion import CompletionCommand
from msmemscope.cli.commands.doctor import DoctorCommand
from msmemscope.cli.commands.env import EnvCommand
from msmemscope.cli.commands.events import EventsCommand
from msmemscope.cli.commands.export import ExportCommand
from msmemscope.cli.commands.live import LiveCommand
from msmemscope.cli.commands.mcp import McpCommand
from msmemscope.cli.commands.recover import RecoverCommand
from msmemscope.cli.commands.report import ReportCommand
from msmemscope.cli.commands.stats import StatsCommand
from msmemscope.cli.commands.summary import SummaryCommand
from msmemscope.cli.commands.top import TopCommand
from msmemscope.cli.commands.tree import TreeCommand
from msmemscope.cli.commands.view import ViewCommand
from msmemscope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence


class Command(Protocol):
    """One verb."""

    name: str
    """What is typed after `msmemscope`."""
    summary: str
    """One line for the list of verbs; the class docstring says more."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the verb."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Do it; returns the exit status."""


COMMANDS: tuple[Command, ...] = (
    RecoverCommand(),
    SummaryCommand(),
    TopCommand(),
    TreeCommand(),
    StatsCommand(),
    AnalyzeCommand(),
    ReportCommand(),
    ViewCommand(),
    CompareCommand(),
    ExportCommand(),
    EventsCommand(),
    LiveCommand(),
    McpCommand(),
    DoctorCommand(),
    BugReportCommand(),
    EnvCommand(),
    CompletionCommand(),
)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Leave messages and exit statuses to the caller."""
        msg = f"{self.prog}: {message}"
        raise UsageError(msg, hint=f"{self.prog} --help lists what is accepted")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Say which word may have been meant, where one is near."""
        closest = difflib.get_close_matches(str(value), list(action.choices or ()), n=1)
        if action.choices is not None and value not in action.choices and closest:
            msg = f"{self.prog}: {value!r} is no {action.metavar}"
            raise UsageError(msg, hint=f"did you mean {self.prog} {closest[0]}?")
        super()._check_value(action, value)


def parser_of(command: Command) -> argparse.ArgumentParser:
    """What takes the arguments of a verb apart."""
    parser = _Parser(prog=f"msmemscope {command.name}", description=type(command).__doc__, allow_abbrev=False)
    command.prepare_parser(parser)
    return parser


def run_command(name: str, arguments: Sequence[str]) -> int:
    """Run a verb.

    Args:
        name: One of `COMMANDS`.
        arguments: What follows it.

    Returns:
        The exit status.

    Raises:
        UsageError: If the arguments are not accepted.
    """
    command = next(command for command in COMMANDS if command.name == name)
    parser = parser_of(command)
    try:
        parsed = parser.parse_args(list(arguments))
    except SystemExit as leaving:  # --help, which argparse has printed
        return int(leaving.code or 0)
    return command.run(parsed)

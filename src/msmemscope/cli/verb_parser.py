"""Takes the arguments of a verb apart, and runs it."""

from __future__ import annotations

import argparse
import difflib
from typing import TYPE_CHECKING, Any, NoReturn

from msmemscope.cli.commands import command_named
from msmemscope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msmemscope.cli.commands import Command


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
    """Return the parser of a verb's arguments."""
    parser = _Parser(prog=f"msmemscope {command.name}", description=type(command).__doc__, allow_abbrev=False)
    command.prepare_parser(parser)
    return parser


def run_verb(verb: str, arguments: Sequence[str]) -> int:
    """Run a verb.

    Args:
        verb: One of `VERBS`.
        arguments: The arguments behind it.

    Returns:
        The exit status.

    Raises:
        UsageError: If the arguments are not accepted.
    """
    command = command_named(verb)
    parser = parser_of(command)
    try:
        parsed = parser.parse_args(list(arguments))
    except SystemExit as leaving:  # --help, which argparse has printed
        return int(leaving.code or 0)
    return command.run(parsed)

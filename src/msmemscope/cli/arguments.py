"""Takes a command line apart: our options, the program, or a verb.

The rules, in the order in which they apply:

1. A first word that is the name of a verb is that verb. Type `--` or a path (`./events`) for a program of that name.
   `run` before the options of a program changes only one thing: a script of Python needs no `python` before it. `help`
   is `--help`.
2. Before the program, every argument that begins with a dash is ours, and an unknown one is an error. `--` ends our
   options: the program follows, untouched. `-m MODULE` is `python -m MODULE`.
3. After the program only the options that the documents of the tool print there are ours. They are `--watch=...` of
   operators, `--analysis=...`, and `--steps=...` directly followed by `--level=kernel` (or `op`). They are ours only if
   we accept their value. If the program knows such an option, it is the program's all the same. Everything else belongs
   to the program. The first `--` ends this and belongs to the program as well.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from typing import TYPE_CHECKING

from msmemscope.configuration import OPTION_BY_SPELLING, GivenOption, Option
from msmemscope.configuration.watching import names_operators
from msmemscope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    KnownBy = Callable[[Sequence[str], Collection[str]], str]

_SOURCED = frozenset({"--load-api-env", "--unload-api-env"})
_RUN = "run"
_HELP = "help"
_HELP_ALL = "help-all"
_MODULE = "-m"
_PYTHON = "python"
_WATCH = "--watch"
_AFTER_PROGRAM = frozenset({_WATCH, "--analysis"})
_STEPS_AFTER_PROGRAM = "--steps"
_LEVELS_AFTER_STEPS = frozenset({"--level=kernel", "--level=op"})
"""With one of these behind it, `--steps=...` is ours; by itself it is a common option of training scripts."""


@dataclasses.dataclass(frozen=True)
class HelpRequest:
    """`--help`, `--help-all` or `help` was met."""

    is_whole: bool = False
    """Whether every option was asked for."""


@dataclasses.dataclass(frozen=True)
class VersionRequest:
    """`--version` was met."""


@dataclasses.dataclass(frozen=True)
class VerbRequest:
    """A verb and what follows it."""

    verb: str
    arguments: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class LaunchRequest:
    """A program to be observed, and how."""

    given: tuple[GivenOption, ...]
    """Our options in the order in which they stand; of one that is given twice, the last holds."""
    program: tuple[str, ...]
    """The program and its arguments; empty if there is none."""
    taken_from_program: tuple[str, ...] = ()
    """The options that stood after the program and were taken as ours, as they were written."""
    left_to_program: tuple[str, ...] = ()
    """Those that would have been, but the program knows them."""
    known_by: str = ""
    """A file of the program that has the first of these."""


CommandLine = HelpRequest | VersionRequest | VerbRequest | LaunchRequest


def _knows_nothing(program: Sequence[str], spellings: Collection[str]) -> str:
    del program, spellings
    return ""


def parse_command_line(
    arguments: Sequence[str], *, verbs: Collection[str] = (), known_by: KnownBy = _knows_nothing
) -> CommandLine:
    """Take the arguments apart, without judging the values of options.

    Args:
        arguments: The command line without the name of the command.
        verbs: The names of the verbs.
        known_by: Returns a file of a program that has one of some options, or nothing. It is asked where an option behind
            the program could be ours.

    Raises:
        UsageError: For an unknown option before the program, or an option without its value.
    """
    if arguments and arguments[0] in verbs:
        return VerbRequest(arguments[0], tuple(arguments[1:]))
    if arguments and arguments[0] == _HELP:
        return VerbRequest(arguments[1], ("--help",)) if arguments[1:] and arguments[1] in verbs else HelpRequest()
    is_run = bool(arguments) and arguments[0] == _RUN
    given: list[GivenOption] = []
    position = 1 if is_run else 0
    while position < len(arguments):
        argument = arguments[position]
        if argument == "--":
            return LaunchRequest(tuple(given), _with_python(arguments[position + 1 :], is_run=is_run))
        if argument == _MODULE:
            if not arguments[position + 1 :]:
                message = "needs the name of a module"
                raise UsageError(message, option=_MODULE, hint="msmemscope -m package.module")
            break
        if not argument.startswith("-") or argument == "-":
            break
        spelling, inline_value = _split_option(argument)
        option = OPTION_BY_SPELLING[spelling]
        if option.name == "version" and inline_value is None:
            return VersionRequest()
        if option.name in {_HELP, _HELP_ALL} and inline_value is None:
            return HelpRequest(is_whole=option.name == _HELP_ALL)
        value, position = _value_of(option, spelling, inline_value, arguments, position)
        given.append(GivenOption(option, spelling, value))
    program = _with_python(arguments[position:], is_run=is_run)
    if program and program[0] in verbs:
        message = "a verb comes first, and its options after it"
        hint = f"msmemscope {program[0]} --help lists its options; -- reaches a program of that name"
        raise UsageError(message, value=program[0], hint=hint)
    return _split_program(program, tuple(given), known_by)


def _with_python(program: Sequence[str], *, is_run: bool) -> tuple[str, ...]:
    """Put `python` before a module, and behind `run` before a script of Python."""
    is_python = program[:1] and (program[0] == _MODULE or (is_run and program[0].endswith(".py")))
    return (_python(), *program) if is_python else tuple(program)


def _python() -> str:
    """Return the name by which people call Python; where there is none of that name, ours."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    is_there = any(os.access(f"{folder or '.'}/{_PYTHON}", os.X_OK) for folder in folders)
    return _PYTHON if is_there else sys.executable


def _split_program(arguments: Sequence[str], given: tuple[GivenOption, ...], known_by: KnownBy) -> LaunchRequest:
    """Part the program's arguments from ours, which are added to `given`."""
    program = list(arguments[:1])
    ours_here: list[GivenOption] = []
    taken: list[str] = []
    left: list[str] = []
    knowing_file = ""
    position = 1
    while position < len(arguments) and arguments[position] != "--":
        ours = _ours_at(arguments, position)
        words = arguments[position : position + max(len(ours), 1)]
        file = known_by(arguments, [one.spelling for one in ours]) if ours else ""
        if ours and not file:
            ours_here.extend(ours)
            taken.extend(words)
        else:
            program.extend(words)
        if file:
            left.extend(words)
            knowing_file = knowing_file or file
        position += len(words)
    program.extend(arguments[position:])
    return LaunchRequest((*given, *ours_here), tuple(program), tuple(taken), tuple(left), knowing_file)


def _ours_at(arguments: Sequence[str], position: int) -> list[GivenOption]:
    """The options that begin at an argument after the program, one per argument; none if it is the program's."""
    spelling, equals, _ = arguments[position].partition("=")
    if not equals:
        return []
    if spelling in _AFTER_PROGRAM:
        return _accepted(arguments[position : position + 1])
    if spelling == _STEPS_AFTER_PROGRAM and _LEVELS_AFTER_STEPS.intersection(arguments[position + 1 : position + 2]):
        return _accepted(arguments[position : position + 2])
    return []


def _accepted(arguments: Sequence[str]) -> list[GivenOption]:
    """Options of the form `--name=value`; none if one of the values is not accepted."""
    given = []
    for argument in arguments:
        spelling, _, value = argument.partition("=")
        option = OPTION_BY_SPELLING[spelling]
        assert option.parse is not None  # noqa: S101 - all of them are settings
        try:
            option.parse(option.accepted, spelling, value)
        except UsageError:
            return []
        if spelling == _WATCH and value and not names_operators(value):
            return []
        given.append(GivenOption(option, spelling, value))
    return given


def _split_option(argument: str) -> tuple[str, str | None]:
    """Part `--name=value`, `-o value`, `-ovalue` and `-o=value` into spelling and value."""
    spelling, equals, value = argument.partition("=")
    if spelling in OPTION_BY_SPELLING:
        return spelling, value if equals else None
    short = argument[:2]
    if not argument.startswith("--") and short in OPTION_BY_SPELLING and OPTION_BY_SPELLING[short].metavar:
        return short, argument[2:]
    if spelling in _SOURCED:
        message = "changes the shell's environment, which only a file that is sourced can do"
        raise UsageError(message, option=spelling, hint=f"source msmemscope {spelling}")
    message = f"unknown option {spelling!r}"
    raise UsageError(message, hint=_closest_hint(spelling))


def _closest_hint(spelling: str) -> str:
    candidates = [known for known in OPTION_BY_SPELLING if known.startswith("--")]
    word = f"--{spelling.strip('-')}".replace("_", "-").lower()
    closest = [known for known in candidates if len(word) > len("--x") and known.startswith(word)]
    if not closest:
        import difflib

        closest = difflib.get_close_matches(word, candidates, n=1)
    if closest:
        return f"did you mean {closest[0]}?"
    return "msmemscope --help-all lists the options; those of the program stand after the program"


def _value_of(
    option: Option, spelling: str, inline_value: str | None, arguments: Sequence[str], position: int
) -> tuple[str, int]:
    """The value of the option at `position`, and the position after it."""
    if not option.metavar:
        if inline_value is not None:
            message = "takes no value"
            raise UsageError(message, option=spelling, value=inline_value)
        return "", position + 1
    if inline_value is not None:
        return inline_value, position + 1
    follower = arguments[position + 1] if position + 1 < len(arguments) else None
    if follower is None or follower.startswith("-"):
        message = "needs a value"
        hint = f"write {spelling}={option.metavar}"
        raise UsageError(message, option=spelling, accepted=option.accepted or None, hint=hint)
    return follower, position + 2

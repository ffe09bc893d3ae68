"""Words that can be typed after `msmemscope`: verbs, options and values, for completion in shells and the man page."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import re
from typing import TYPE_CHECKING

from msmemscope.cli.commands import VERBS, command_named
from msmemscope.cli.verb_parser import parser_of
from msmemscope.configuration import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

_FILES = frozenset({"BASE", "COMPARE", "DIR", "FILE", "PATH", "PATH,PATH", "PID|DIR"})
_LISTED_BELOW = "below"


@dataclasses.dataclass(frozen=True)
class TypedOption:
    """One option."""

    spellings: tuple[str, ...]
    """With dashes; the documented one first."""
    summary: str
    """The purpose, in one line."""
    metavar: str = ""
    """The name of its value; empty if it has none."""
    values: tuple[str, ...] = ()
    """Words that are accepted as its value; others may be, too."""
    is_list: bool = False
    """Whether several words can stand there, separated by commas."""

    @property
    def takes_file(self) -> bool:
        """Whether the value is the name of a file or folder."""
        return self.metavar in _FILES


@dataclasses.dataclass(frozen=True)
class TypedVerb:
    """One verb."""

    name: str
    summary: str
    """One line."""
    description: str
    """Some paragraphs."""
    usage: str
    """From the name of the command on, on one line."""
    options: tuple[TypedOption, ...]
    kinds: tuple[tuple[str, str], ...]
    """Words, each with a summary, if one of them follows; empty as a rule."""


def options() -> tuple[TypedOption, ...]:
    """The options of a run, which stand in front of the program."""
    return tuple(
        TypedOption(
            (one.spelling, *one.other_spellings),
            one.summary,
            one.metavar,
            _words(one.accepted) if one.metavar not in _FILES else (),
            is_list="separated by commas" in one.accepted,
        )
        for one in OPTIONS
    )


def verbs() -> tuple[TypedVerb, ...]:
    """All verbs, in the order of the help."""
    return tuple(map(_verb, VERBS))


def _verb(verb: str) -> TypedVerb:
    parser = parser_of(command_named(verb))
    kinds: list[tuple[str, str]] = []
    found: dict[tuple[str, ...], TypedOption] = {}
    for one in (parser, *_parsers_below(parser)):
        for action in one._actions:  # noqa: SLF001 - argparse has no other way to ask
            if action.option_strings:
                found.setdefault(tuple(action.option_strings), _option(action, one))
            elif isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - likewise
                kinds += [(each.dest, each.help or "") for each in action._choices_actions]  # noqa: SLF001 - likewise
            elif action.choices:
                kinds += [(str(word), "") for word in action.choices]
    usage = re.sub(r"\s+", " ", parser.format_usage()).strip().removeprefix("usage: ")
    description = "\n".join(line.strip() for line in (parser.description or "").splitlines())
    return TypedVerb(verb, VERBS[verb], description, usage, tuple(found.values()), tuple(kinds))


def _parsers_below(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to ask
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - likewise
            yield from action.choices.values()


def _option(action: argparse.Action, parser: argparse.ArgumentParser) -> TypedOption:
    text = (action.help or "").replace("%%", "%")
    spellings = tuple(sorted(action.option_strings, key=lambda spelling: not spelling.startswith("--")))
    if action.nargs == 0:
        return TypedOption(spellings, text)
    metavar = str(action.metavar or action.dest.upper())
    if action.choices:
        values = tuple(map(str, action.choices))
    elif text.endswith(_LISTED_BELOW):
        values = tuple(re.findall(r"^  (\S+)  ", parser.epilog or "", re.MULTILINE))
    else:
        values = () if metavar in _FILES else _words(text)
    return TypedOption(spellings, text, metavar, values, is_list="separated by commas" in text)


def _words(accepted: str) -> tuple[str, ...]:
    """The words in a text about what is accepted: `a, b or c`, `x: a, b`, `a: this; b: that`."""
    text = accepted.rpartition("Accepted: ")[2].partition(", separated by commas")[0]
    meanings = re.findall(r"(?:^|; )([a-z][a-z0-9-]*)(?=: )", text)
    if len(meanings) > 1:
        return tuple(meanings)
    head, _, tail = text.partition(";")[0].partition(": ")
    for listed in (head, tail):
        parts = (re.sub(r"[\[{].*", "", part) for part in re.split(r", (?:or )?| or ", listed))
        words = tuple(itertools.takewhile(re.compile(r"(?:[a-z][a-z0-9_-]*|\d)$").match, parts))
        if len(words) > 1:
            return words
    return ()

"""The texts of `msmemscope --help` and `--help-all`, made from the table of options and the list of verbs."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from msmemscope.configuration import OPTIONS, Option, OptionGroup

if TYPE_CHECKING:
    from collections.abc import Mapping

_WIDTH = 80
_INDENT = " " * 6

MOST_USED: Final = (
    ("--device=npu:0,cpu", "Observe these; by default all NPUs, or else the CPU."),
    ("--events=alloc,free", "Record these; also launch, access, traceback, allocator."),
    ("--watch=auto", "Find the operator that wrote where it may not."),
    ("--output=DIR", "Write the results there, not into memscopeDumpResults."),
)
"""Options as they may be typed, and one line about each."""

_BRIEF_USAGE: Final = "Usage: msmemscope [options] python train.py, or msmemscope VERB ..."
_BRIEF_HEADING: Final = "Find the line that leaks device memory, overwrites it or runs out of it:"
_BRIEF_AFTERWORD: Final = """\
msmemscope VERB --help says more. msmemscope --help-all has every option.
"""

USAGE: Final = """\
Usage: msmemscope [options] bash user.sh
       msmemscope [options] python train.py [its arguments]
       msmemscope [options] -- program [its arguments]
       msmemscope [options] -m module [its arguments]
       msmemscope VERB ...

Watches a program and shows where its device memory goes: every allocation,
free, operator and access, with call stacks. Results are written when the
program ends.
"""

AFTERWORD: Final = """\
Put options before the program. Everything after it goes to the program, except
--watch=... of operators, --analysis=..., and --steps=... directly followed by
--level=kernel (or op). One line says that they were taken. They go to a program
whose own files have the option. -- before the program keeps all its arguments
untouched. Lists may be separated by half-width or full-width commas.

The exit status is that of the program. Others are 2 for a wrong command line,
126 for a program that cannot be executed, and 127 for one that was not found.
"""


def help_on_a_screen(verbs: Mapping[str, Mapping[str, str]]) -> str:
    """Lay out the help that fits one screen: what is used most, and all verbs.

    Args:
        verbs: From what one wants to do to names of verbs and their one-line descriptions.

    Returns:
        Text of lines of at most 80 columns, ending with a newline.
    """
    width = max(len(option) for option, _ in MOST_USED)
    options = [f"  {option:{width}}  {description}" for option, description in MOST_USED]
    return "\n".join(
        [_BRIEF_USAGE, _BRIEF_HEADING, *options, "", *_verb_lines(verbs, is_spaced=False), "", _BRIEF_AFTERWORD]
    )


def whole_help(verbs: Mapping[str, Mapping[str, str]]) -> str:
    """Lay out the help with every option.

    Args:
        verbs: From what one wants to do to names of verbs and their one-line descriptions.

    Returns:
        Text of lines of at most 80 columns, ending with a newline.
    """
    parts = [USAGE]
    for group in OptionGroup:
        lines = [f"{group.value}:"]
        for option in OPTIONS:
            if option.group is group:
                lines.extend(_option_lines(option))
        parts.append("\n".join(lines) + "\n")
    parts.append("Verbs (msmemscope VERB --help says more):\n")
    parts.append("\n".join(_verb_lines(verbs, is_spaced=True)) + "\n")
    parts.append(AFTERWORD)
    return "\n".join(parts)


def _verb_lines(verbs: Mapping[str, Mapping[str, str]], *, is_spaced: bool) -> list[str]:
    width = max(len(name) for names in verbs.values() for name in names)
    lines: list[str] = []
    for purpose, names in verbs.items():
        if lines and is_spaced:
            lines.append("")
        lines.append(f"{purpose}:")
        lines += [f"  {name:{width}}  {description}" for name, description in names.items()]
    return lines


def _option_lines(option: Option) -> list[str]:
    value = f"={option.metavar}" if option.metavar else ""
    heading = ", ".join([f"{option.spelling}{value}", *option.other_spellings])
    texts = [option.summary]
    if option.accepted:
        texts.append(f"Accepted: {option.accepted}.")
    if option.default:
        texts.append(f"Default: {option.default}.")
    lines = [f"  {heading}"]
    for text in texts:
        lines.extend(textwrap.wrap(text, _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT))
    return lines

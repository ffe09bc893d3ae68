"""The text of `msmemscope --help`, made from the table of options and the list of verbs."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from msmemscope.configuration import OPTIONS, Option, OptionGroup

if TYPE_CHECKING:
    from collections.abc import Mapping

_WIDTH = 80
_INDENT = " " * 6

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
Options stand before the program; what stands after it belongs to the program.
Three forms are taken from there all the same, if their value is accepted, and
one line says so: --watch=... of operators, --analysis=..., and --steps=...
directly followed by --level=kernel (or op). They are passed on to a program
whose own files have the option. -- before the program keeps all its arguments
untouched. Lists may be separated by half-width or full-width commas.

The exit status is that of the program; 2 says that the command line was wrong,
126 that the program cannot be executed, 127 that it was not found.
"""


def help_text(verbs: Mapping[str, str]) -> str:
    """Lay out the help.

    Args:
        verbs: Name of each verb and its one-line description.

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
    width = max(len(name) for name in verbs) if verbs else 0
    verb_lines = [f"  {name:{width}}  {description}" for name, description in verbs.items()]
    parts.append("\n".join(["Verbs (msmemscope VERB --help says more):", *verb_lines]) + "\n")
    parts.append(AFTERWORD)
    return "\n".join(parts)


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

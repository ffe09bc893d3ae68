"""docs/options.md, from the table of options that the command line itself uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from generators import chinese
from msmemscope.configuration.options import OPTIONS, Option, OptionGroup
from msmemscope.units import SIZE_FORMS

if TYPE_CHECKING:
    from collections.abc import Callable

HEAD = """\
# Options

<!-- Generated from src/msmemscope/configuration/options.py by `make docs`; do not edit. -->

`msmemscope [options] program [arguments]` observes a program; the program may be a script, as in
`msmemscope [options] bash user.sh`. Lists are separated by commas, half-width (`,`) or full-width (`，`).

Put options before the program. Everything after it goes to the program, except three forms whose value is accepted:

- `--watch=...` of operators;
- `--analysis=...`;
- `--steps=...` directly followed by `--level=kernel` (or `op`).

One line says that they were taken. They go to a program that knows the option. Its text then stands in the script, in the package
behind `-m`, or in a Python file beside it. One line says that, too. With `--` before the program, everything goes to the program:
`msmemscope [options] -- program [arguments]`.

`msmemscope -m package.train` is `msmemscope python -m package.train`. `msmemscope run train.py` puts `python` before a script, and
`msmemscope help VERB` is `msmemscope VERB --help`.

A wrong value is refused before anything is started or written. The message names the option, the value and the accepted
values. The exit status is 2.

## Options of a project

Options that hold for every run of a project stand in a file: in `msmemscope.toml`, or in the table `[tool.msmemscope]` of
`pyproject.toml`.

```toml
[tool.msmemscope]
device = ["npu:0", "cpu"]        # a list, or the text of the command line: "npu:0,cpu"
call-stack = { python = 20 }     # or "python:20"
analysis = ["leaks", "decompose"]
max-size = "2G"
output = "build/memory"          # relative to the folder of this file
report = true                    # a switch
```

- Keys are the long options below, without their dashes, except those that compare two results. `msmemscope.toml` has the
  same keys without a table around them.
- The file is looked for in the current folder, then in its parents. The search ends at the first with `.git`, the home folder,
  or the root. Only the nearest file counts. Of two in one folder, that is `msmemscope.toml`. A file that another user put into a
  folder of all users, such as `/tmp`, is not taken.
- The command line wins, option by option. A switch that the file turns on cannot be turned off there, except by
  `--no-project-file`, which ignores the file as a whole. No environment variable sets options.
- An unknown key, or a value that is not accepted, is refused as on the command line; the message names the file and the key.
- Only `msmemscope program` reads it: not verbs, not `msmemscope.config()`, and nothing in the observed program. With
  `--verbose`, or `log-level = "info"`, one line says which file was taken.
"""


def page() -> str:
    """The page as Markdown."""
    return _page(HEAD, str)


def chinese_page() -> str:
    """The same in Chinese."""
    example = HEAD.partition("```toml\n")[2].partition("```")[0]
    return _page(chinese.OPTIONS_HEAD.replace("{example}", example), chinese.text)


def _page(head: str, text: Callable[[str], str]) -> str:
    parts = [head]
    for group in OptionGroup:
        options = [option for option in OPTIONS if option.group is group]
        if options:
            parts.append(f"\n## {text(group.value)}\n")
            parts.extend(_section(option, text) for option in options)
    return "".join(parts)


def _section(option: Option, text: Callable[[str], str]) -> str:
    value = f"={option.metavar}" if option.metavar else ""
    lines = [f"\n### `{option.spelling}{value}`\n", f"\n{text(option.summary)}\n"]
    facts = []
    if option.accepted:
        accepted = _literal(text(option.accepted)).replace(f"; {SIZE_FORMS}", f". Write {SIZE_FORMS}")
        facts.append(f"- {text('Accepted')}: {accepted}")
    if option.default:
        facts.append(f"- {text('Default')}: {_literal(text(option.default))}")
    if option.other_spellings:
        facts.append(f"- {text('Also written')}: " + ", ".join(f"`{spelling}`" for spelling in option.other_spellings))
    if facts:
        lines.append("\n" + "\n".join(facts) + "\n")
    return "".join(lines)


def _literal(text: str) -> str:
    """Keep Markdown from reading brackets and stars in a text."""
    return text.replace("[", "\\[").replace("*", "\\*").replace("<", "&lt;")

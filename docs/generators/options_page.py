"""docs/options.md, from the table of options that the command line itself uses."""

from __future__ import annotations

from msmemscope.configuration.options import OPTIONS, Option, OptionGroup

HEAD = """\
# Options

<!-- Generated from src/msmemscope/configuration/options.py by `make docs`; do not edit. -->

`msmemscope [options] program [arguments]` observes a program; the program may be a script, as in
`msmemscope [options] bash user.sh`. Lists are separated by commas, half-width (`,`) or full-width (`，`).

Options stand before the program; what stands after it belongs to the program. Three forms are taken from there all the
same, if their value is accepted, and one line says so: `--watch=...`, `--analysis=...`, and `--steps=...` directly followed
by `--level=kernel` (or `op`). With `--` before the program nothing is: `msmemscope [options] -- program [arguments]`.

A value that is not accepted is refused before anything is started or written: the message names the option, the value
and what is accepted, and the exit status is 2.
"""


def page() -> str:
    """The page as Markdown."""
    parts = [HEAD]
    for group in OptionGroup:
        options = [option for option in OPTIONS if option.group is group]
        if options:
            parts.append(f"\n## {group.value}\n")
            parts.extend(_section(option) for option in options)
    return "".join(parts)


def _section(option: Option) -> str:
    value = f"={option.metavar}" if option.metavar else ""
    lines = [f"\n### `{option.spelling}{value}`\n", f"\n{option.summary}\n"]
    facts = []
    if option.accepted:
        facts.append(f"- Accepted: {_literal(option.accepted)}")
    if option.default:
        facts.append(f"- Default: {_literal(option.default)}")
    if option.other_spellings:
        facts.append("- Also written: " + ", ".join(f"`{spelling}`" for spelling in option.other_spellings))
    if facts:
        lines.append("\n" + "\n".join(facts) + "\n")
    return "".join(lines)


def _literal(text: str) -> str:
    """Keep Markdown from reading brackets and stars in a text."""
    return text.replace("[", "\\[").replace("*", "\\*").replace("<", "&lt;")

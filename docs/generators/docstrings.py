"""Docstrings in the Google style, as Markdown."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LISTS = {"Args:": "Arguments", "Raises:": "Raises"}
_TEXTS = {"Returns:": "Returns", "Yields:": "Yields"}
_CODE = {"Example:": "Example", "Examples:": "Examples"}
_ENTRY = re.compile(r"(?P<name>\*{0,2}[\w.]+)(?: \([^)]*\))?: (?P<text>.*)")
_PROMPT = re.compile(r"(>>>|\.\.\.) ?")


def markdown(docstring: str) -> str:
    """Render a docstring: sections as lists, literal blocks as fences, everything else as it stands.

    Raises:
        ValueError: If an entry of a list of arguments or errors is not `name: text`.
    """
    return "\n\n".join(_rendered(inspect.cleandoc(docstring).splitlines())) + "\n"


def summary(docstring: str) -> str:
    """Return the first sentence of a docstring, without its full stop."""
    first = " ".join(inspect.cleandoc(docstring).partition("\n\n")[0].split("\n"))
    return re.split(r"\.(?:\s|$)", first, maxsplit=1)[0]


def _rendered(lines: Sequence[str]) -> Iterator[str]:
    place = 0
    while place < len(lines):
        line = lines[place]
        if not line:
            place += 1
            continue
        if line in _LISTS or line in _TEXTS or line in _CODE:
            block, place = _indented(lines, place + 1)
            yield f"{(_LISTS | _TEXTS | _CODE)[line]}:"
            if line in _LISTS:
                yield _entries(block)
            elif line in _TEXTS:
                yield "\n".join(block)
            else:
                yield _fence(_without_prompts(block))
            continue
        end = _end_of_paragraph(lines, place)
        paragraph = list(lines[place:end])
        block, after = _indented(lines, end)
        if paragraph[-1].endswith("::"):
            introduction = "\n".join(paragraph)[:-2].rstrip()
            if introduction:
                yield f"{introduction}:"
            yield _fence(block)
            place = after
        elif block and lines[end]:
            # A term, and below it what it means.
            yield _item(f"{' '.join(paragraph)}: {block[0]}", block[1:])
            place = after
        else:
            yield "\n".join(paragraph)
            place = end


def _end_of_paragraph(lines: Sequence[str], place: int) -> int:
    while place < len(lines) and lines[place] and not lines[place].startswith(" "):
        place += 1
    return place


def _indented(lines: Sequence[str], place: int) -> tuple[list[str], int]:
    """The indented lines from a place on, without their indentation and the empty lines around them; and their end."""
    end = place
    while end < len(lines) and (not lines[end] or lines[end].startswith("    ")):
        end += 1
    block = [line[4:] for line in lines[place:end]]
    return "\n".join(block).strip("\n").splitlines(), end


def _entries(block: Sequence[str]) -> str:
    items: list[tuple[str, list[str]]] = []
    for line in block:
        if line.startswith("    ") and items:
            items[-1][1].append(line.strip())
            continue
        match = _ENTRY.fullmatch(line)
        if match is None:
            message = f"not an entry 'name: text': {line!r}"
            raise ValueError(message)
        items.append((f"`{match['name']}`: {match['text']}", []))
    return "\n".join(_item(first, others) for first, others in items)


def _item(first: str, others: Sequence[str]) -> str:
    return "\n  ".join([f"- {first}", *others])


def _without_prompts(block: Sequence[str]) -> list[str]:
    """The statements of a session without output; a session with output as it is."""
    if all(_PROMPT.match(line) or not line for line in block):
        return [_PROMPT.sub("", line, count=1) for line in block]
    return list(block)


def _fence(block: Sequence[str]) -> str:
    text = "\n".join(block)
    try:
        compile(text, "docstring", "exec")
    except SyntaxError:
        return f"```text\n{text}\n```"
    return f"```python\n{text}\n```"

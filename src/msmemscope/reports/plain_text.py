"""Texts of the observed program, made fit for a terminal."""

from __future__ import annotations

import textwrap


def printable(text: str) -> str:
    """Replace what could steer the terminal: names come from the observed program."""
    return (
        text
        if text.isprintable()
        else "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    )


def cut_end(text: str, width: int) -> str:
    """Shorten a text to a width; blanks and line feeds become single blanks."""
    text = printable(" ".join(text.split()))
    return text if len(text) <= width else f"{text[: width - 1]}…"


def wrapped(text: str, width: int) -> list[str]:
    """Return the lines of a text, wrapped between words: a path is never broken, however long it is."""
    return textwrap.wrap(printable(text), width, break_long_words=False, break_on_hyphens=False)


def can_write(text: str, encoding: str | None) -> bool:
    """Whether a stream can hold a text.

    Args:
        text: Letters beyond ASCII, for which there are others.
        encoding: Of the stream; None if it can hold any.
    """
    try:
        text.encode(encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True

"""Texts of the observed program, made fit for the page: nothing that steers, nothing without an end."""

from __future__ import annotations

from typing import Final

from msmemscope.reports.plain_text import printable

MOST_LETTERS: Final = 300
"""Letters of a label; of a longer one the beginning and the end are kept."""


def shown(text: str, most: int = MOST_LETTERS) -> str:
    """Return a label of one line: no control or bidirectional characters, shortened in its middle.

    Args:
        text: Any, however long.
        most: Letters that are kept.
    """
    # Cut first: only the kept part has to be looked at.
    kept = text if len(text) <= most else f"{text[: most * 2 // 3]}…{text[-(most - most * 2 // 3 - 1) :]}"
    return printable(" ".join(kept.split()) if "\n" in kept or "\t" in kept else kept)


def shown_code(line: str, most: int = MOST_LETTERS) -> str:
    """Return a line of source text with its indentation; arguments as for `shown`."""
    line = line[: 4 * most].rstrip("\r\n").expandtabs(4)
    return printable(line if len(line) <= most else f"{line[: most - 1]}…")

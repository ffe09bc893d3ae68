"""A text of the terminal as an SVG: docs/images/summary.txt holds what a run printed."""

from __future__ import annotations

import unicodedata
from html import escape

CELL_WIDTH = 7.83
LINE_HEIGHT = 17
MARGIN = 18
BAR = 34

FONT = "'DejaVu Sans Mono', Menlo, Consolas, 'Noto Sans Mono CJK SC', monospace"


def picture(text: str, *, title: str) -> str:
    """The picture as SVG text.

    Args:
        text: What stood in the terminal, without control sequences.
        title: What the window's bar says.
    """
    lines = text.rstrip("\n").split("\n")
    width = round(max(_cells(line) for line in lines) * CELL_WIDTH + 3 * MARGIN)
    height = len(lines) * LINE_HEIGHT + BAR + MARGIN
    rows = [
        # The length keeps the columns in place whatever font is found.
        f'<text x="{MARGIN}" y="{BAR + (number + 1) * LINE_HEIGHT}" textLength="{_cells(line) * CELL_WIDTH:.1f}" '
        f'fill="{_colour(line)}">{escape(line)}</text>'
        for number, line in enumerate(lines)
        if line.strip()
    ]
    dots = [
        f'<circle cx="{MARGIN + 2 + 18 * number}" cy="{BAR // 2}" r="5.5" fill="{colour}"/>'
        for number, colour in enumerate(("#f2615a", "#f5bf4f", "#57c353"))
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" font-family="{FONT}" font-size="13" xml:space="preserve">\n'
        f'<rect width="{width}" height="{height}" rx="9" fill="#1d2129"/>\n'
        + "\n".join(dots)
        + f'\n<text x="{width // 2}" y="{BAR // 2 + 5}" fill="#9aa3b2" text-anchor="middle">{escape(title)}</text>\n'
        + "\n".join(rows)
        + "\n</svg>\n"
    )


def _cells(line: str) -> int:
    """The columns that a line takes: wide characters take two."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in line)


def _colour(line: str) -> str:
    """Commands and headings stand out a little."""
    if line.startswith("$ "):
        return "#8bd49c"
    if line and not line[0].isspace() and not line[0].isdigit():
        return "#f0f3f8"
    return "#c3cad6"

"""Memory over time as one line of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msmemscope.reports.plain_text import can_write

if TYPE_CHECKING:
    from collections.abc import Sequence

_BLOCKS: Final = "▁▂▃▄▅▆▇█"
_PLAIN: Final = "_.-:=+*#"
"""For terminals and files that have no such letters."""


def sparkline(values: Sequence[int], *, width: int, encoding: str | None) -> str:
    """Draw values as letters of different heights, the highest for the largest.

    Args:
        values: Amounts from 0 on.
        width: Letters at most; where there are more values, a letter is the largest of some, so that no peak is lost.
        encoding: The encoding of the text; None if it can hold any letter.
    """
    heights = _BLOCKS if can_write(_BLOCKS, encoding) else _PLAIN
    count = min(width, len(values))
    most = max(values, default=0)
    drawn = []
    for place in range(count):
        value = max(values[place * len(values) // count : (place + 1) * len(values) // count])
        drawn.append(heights[min(value * len(heights) // most, len(heights) - 1)] if most else heights[0])
    return "".join(drawn)

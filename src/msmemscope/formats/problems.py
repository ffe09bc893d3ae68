"""The skipped parts of a file, one line each. The first lines are kept, the others are counted."""

from __future__ import annotations

from typing import Final

MOST_LINES: Final = 20
"""Lines of one file; a file of something else can have millions of broken rows."""


class Problems:
    """Collects lines.

    Args:
        lines: Those to begin with.
    """

    def __init__(self, *lines: str) -> None:
        self._lines: list[str] = []
        self._more = 0
        for line in lines:
            self.add(line)

    def add(self, line: str) -> None:
        """Take in a line."""
        if len(self._lines) < MOST_LINES:
            self._lines.append(line)
        else:
            self._more += 1

    def count(self, more: int) -> None:
        """Take in lines that nobody wants to read."""
        self._more += more

    def take(self, other: Problems) -> None:
        """Take in the lines of a part of the file, behind those that are there."""
        for line in other._lines:
            self.add(line)
        self._more += other._more

    @property
    def room(self) -> int:
        """How many lines are still kept."""
        return MOST_LINES - len(self._lines)

    def lines(self) -> list[str]:
        """Return the lines, and one that counts the others."""
        return [*self._lines, *([f"and {self._more} more of this file"] if self._more else [])]

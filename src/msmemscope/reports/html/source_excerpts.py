"""The lines of source around the lines that a report blames, read when the report is written.

Others may read a report: `recording/source_files.py` decides which files it may show.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

from msmemscope.recording.source_files import NoSourceError, read_source
from msmemscope.recording.source_lines import StackFrame, site_frame
from msmemscope.reports.html.shown_text import shown, shown_code

if TYPE_CHECKING:
    from collections.abc import Sequence

LINES_AROUND: Final = 4
"""Lines that are shown before and behind the blamed one."""
_MOST_EXCERPTS: Final = 2000


@dataclasses.dataclass(frozen=True)
class SourceExcerpt:
    """Some lines of a file."""

    file: str
    line: int
    """The blamed one."""
    first_line: int
    """Number of the first of `lines`; 0 without lines."""
    lines: tuple[str, ...]
    """None if they cannot be shown."""
    note: str
    """Why there are none, or a remark about them; empty for nothing."""


class SourceExcerpts:
    """Collects the excerpts of a report, each once.

    Args:
        began_ns: CLOCK_REALTIME of the run; a file that was changed since is shown with a remark. 0 if not known.
        lines_around: Lines that are shown before and behind the blamed one.
    """

    def __init__(self, began_ns: int = 0, lines_around: int = LINES_AROUND) -> None:
        """Begin without any."""
        self.began_ns = began_ns
        self._lines_around = lines_around
        self.excerpts: list[SourceExcerpt] = []
        self._numbers: dict[tuple[str, int], int | None] = {}
        self._texts: dict[str, tuple[Sequence[str], str]] = {}

    def number(self, site: str) -> int | None:
        """Return the number of the excerpt around a call site; None if it names no line, or there are too many."""
        frame = site_frame(site)
        if frame is None:
            return None
        key = (frame.file, frame.line)
        if key not in self._numbers:
            if len(self.excerpts) >= _MOST_EXCERPTS:
                return None
            self._numbers[key] = len(self.excerpts)
            self.excerpts.append(self._excerpt(frame))
        return self._numbers[key]

    def content(self) -> list[dict[str, Any]]:
        """Return what JSON has of them."""
        return [dataclasses.asdict(excerpt) for excerpt in self.excerpts]

    def _excerpt(self, frame: StackFrame) -> SourceExcerpt:
        if frame.file not in self._texts:
            self._texts[frame.file] = self._read(frame.file)
        lines, note = self._texts[frame.file]
        if lines and not 0 < frame.line <= len(lines):
            lines, note = (), f"The file has {len(lines)} lines now, and no line {frame.line}."
        first = max(frame.line - self._lines_around, 1) if lines else 0
        part = lines[first - 1 : frame.line + self._lines_around] if lines else ()
        return SourceExcerpt(shown(frame.file), frame.line, first, tuple(map(shown_code, part)), note)

    def _read(self, file: str) -> tuple[Sequence[str], str]:
        """The lines of a file and a remark; no lines where it cannot be shown."""
        try:
            source = read_source(file)
        except NoSourceError as error:
            return (), str(error)
        is_newer = self.began_ns and source.changed_ns > self.began_ns
        note = "The file was changed after this run began: lines may have moved." if is_newer else ""
        return source.lines, note

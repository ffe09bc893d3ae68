"""How reports put text on a terminal: plain text, cut to the width, readable without colour.

Names and paths come from the observed program: they are shown as they are and never read as markup, and they cannot
steer the terminal.

rich is imported where something is to be laid out or coloured. A run that recorded nothing has one plain sentence to
say, and must not wait for it.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import IO, TYPE_CHECKING, Final

from msmemscope.reports.plain_text import cut_end, printable, wrapped
from msmemscope.units import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console

HEADING: Final = "bold"
QUIET: Final = "dim"
ALARM: Final = "bold red"

SHORTEST_LABEL: Final = 20
"""Columns that a label keeps, however narrow the terminal is."""


_INDENT: Final = 2
_GAP: Final = 2
_LEAST_LABEL_ROOM: Final = 40
"""Columns beside the numbers below which a label gets a line of its own."""
_USUAL_WIDTH: Final = 80
_COLOURING: Final = ("FORCE_COLOR", "TTY_COMPATIBLE")
"""Variables that may ask for colours even without a terminal; rich knows the meaning of their values."""


def console_for(out: IO[str], *, width: int | None = None, is_coloured: bool | None = None) -> Console:
    """Return a console that writes reports as they are, to `out` alone.

    In a notebook rich would show each line as an HTML element of its own, and leave a stream of ours empty.

    Args:
        out: Where to.
        width: Columns; by default those of the terminal, 80 where there is none.
        is_coloured: Whether to colour; by default if `out` is a terminal.
    """
    from rich.console import Console

    class ReportConsole(Console):
        """Leaves a reader that went away to the command: rich would end the program."""

        def on_broken_pipe(self) -> None:
            raise  # noqa: PLE0704 - rich calls it while it handles the error

    return ReportConsole(
        file=out,
        width=width,
        highlight=False,
        markup=False,
        emoji=False,
        force_jupyter=False,
        force_terminal=is_coloured,
        color_system="standard" if is_coloured else "auto",
        legacy_windows=False,
    )


class StyledLines:
    """Makes lines of text for a stream: as wide as it is, and with colours if it has some.

    Args:
        out: Where they will be written.
        width: Columns; by default those of the terminal, 80 where there is none.
    """

    def __init__(self, out: IO[str], *, width: int | None = None) -> None:
        """Find out whether there can be colours."""
        self._out = out
        self._width = width
        self._console: Console | None = None
        self._is_plain = not out.isatty() and not any(name in os.environ for name in _COLOURING)

    @property
    def console(self) -> Console:
        """The stream for anything but lines."""
        if self._console is None:
            self._console = console_for(self._out, width=self.width if self._is_plain else self._width)
        return self._console

    @property
    def width(self) -> int:
        """Columns of the terminal."""
        if self._width is None:
            self._width = _width_of_terminal() if self._is_plain else self.console.width
        return self._width

    def line(self, text: str, style: str = "") -> str:
        """One line as it is, however long: it may hold a path to copy."""
        return self._styled("", printable(text), style)

    def sentence(self, text: str, *, indent: int = 2, style: str = "") -> list[str]:
        """A sentence, wrapped at the width between words, its further lines indented."""
        lines = wrapped(text, max(self.width - indent, SHORTEST_LABEL))
        return [self._styled(" " * indent * min(number, 1), line, style) for number, line in enumerate(lines)]

    def _styled(self, blanks: str, text: str, style: str) -> str:
        if self._is_plain:
            return f"{blanks}{text}".rstrip()
        from rich.text import Text

        with self.console.capture() as captured:
            self.console.print(Text(blanks).append(text, style), soft_wrap=True, end="")
        return captured.get().rstrip()


def _width_of_terminal() -> int:
    """Columns of the terminal that any of the standard streams is, as rich finds them."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal():
        return int(columns) or _USUAL_WIDTH
    for descriptor in range(3):
        with contextlib.suppress(OSError):
            return os.get_terminal_size(descriptor).columns or _USUAL_WIDTH
    return _USUAL_WIDTH


class ReportWriter:
    """Writes the parts of a report.

    Args:
        out: Where to.
        width: Columns; by default those of the terminal, 80 where there is none.
        is_coloured: Whether to colour; by default if `out` is a terminal.
    """

    def __init__(self, out: IO[str], *, width: int | None = None, is_coloured: bool | None = None) -> None:
        """Prepare the console."""
        self._out = out
        self._console = console_for(out, width=width, is_coloured=is_coloured)
        self._is_begun = False

    @property
    def width(self) -> int:
        """Columns of the terminal."""
        return self._console.width

    def line(self, text: str = "", style: str = "") -> None:
        """Write one line as it is, however long: it may hold a path to copy."""
        self._print((printable(text), style))

    def gap(self) -> None:
        """Write an empty line between parts: none before the first."""
        if self._is_begun:
            self.line()

    def exact_line(self, text: str) -> None:
        """Write one line that other programs read: without colour, tabs and blanks at its end kept."""
        self._is_begun = True
        self._out.write("\t".join(map(printable, text.split("\t"))) + "\n")

    def styled_line(self, *parts: tuple[str, str]) -> None:
        """Write one line, however long, of parts with their styles."""
        self._print(*((printable(text), style) for text, style in parts))

    def sentence(self, text: str, *, indent: int = 2, style: str = "") -> None:
        """Write a sentence, wrapped at the width, all lines indented."""
        room = max(self.width - indent, SHORTEST_LABEL)
        for line in wrapped(text, room):
            self._print((" " * indent, ""), (line, style))

    def table(self, headings: Sequence[str], rows: Iterable[Sequence[str]], *, labels: int = 1) -> None:
        """Write a table whose last columns are labels.

        The last label is cut to the width, keeping its end; where little room is left for it, it gets a line of its own. It may
        have several lines: frames of a stack, the innermost first.

        Args:
            headings: Of the columns.
            rows: Texts of the cells; those that are no labels are numbers and stand to the right.
            labels: How many of the last columns are labels.
        """
        from rich.cells import cell_len

        texts = []
        frames = []
        for row in rows:
            label, *callers = row[-1].split("\n")
            texts.append([printable(cell) for cell in (*row[:-1], label)])
            frames.append([f"from {short_site(caller)}" for caller in callers])
        numbers = len(headings) - labels
        widths = [max(cell_len(row[column]) for row in [headings, *texts]) for column in range(len(headings) - 1)]
        beside = _INDENT + sum(width + _GAP for width in widths)
        is_apart = self.width - beside < _LEAST_LABEL_ROOM
        room = max(self.width - (2 * _INDENT if is_apart else beside), SHORTEST_LABEL)

        def line(cells: Sequence[str]) -> str:
            padded = []
            for column, (cell, width) in enumerate(zip(cells, widths, strict=False)):
                blanks = " " * (width - cell_len(cell))
                padded.append(blanks + cell if column < numbers else cell + blanks)
            text = f"{' ' * _INDENT}{(' ' * _GAP).join(padded)}"
            return f"{text.rstrip()}\n{' ' * 2 * _INDENT}{cells[-1]}" if is_apart else f"{text}{' ' * _GAP}{cells[-1]}"

        heading = line(headings)
        self._print((heading.partition("\n")[0] if is_apart else heading, QUIET))
        for row, callers in zip(texts, frames, strict=True):
            self._print((line([*row[:-1], cut_label(row[-1], room)]), ""))
            indent = " " * (2 * _INDENT if is_apart else beside)
            for caller in callers:
                self._print((f"{indent}{cut_label(caller, room)}", QUIET))

    def _print(self, *parts: tuple[str, str]) -> None:
        from rich.text import Text

        self._is_begun = True
        self._console.print(Text.assemble(*parts), soft_wrap=True)


_LINE: Final = re.compile(r"\.py\([0-9]+\)")
"""The mark of a label that is a line of a Python source."""
_FUNCTION: Final = re.compile(r"(?<=[0-9]\)): [^(),]*")


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: `1 block`, `1,234 blocks`."""
    return f"{format_count(count)} {noun}" if count == 1 else f"{format_count(count)} {noun}s"


def cut_label(label: str, width: int) -> str:
    """Shorten a label; a source line loses its middle: its end says more than its folders, its beginning whose it is."""
    from msmemscope.recording.source_lines import line_and_library

    label = short_site(label).removeprefix("torch._ops.")
    line, library = line_and_library(label)
    if library and len(label) > width:
        return _cut_site(line.rpartition("/")[2], library, width)
    if len(label) > width and (label.startswith("/") or _LINE.search(label)):
        end = len(label) - label.rfind("/", 0, (label.find("(") + 1) or None)
        kept = max(min(width // 4, width - 1 - end), 0)
        return f"{label[:kept]}…{label[len(label) - (width - kept - 1) :]}"
    return cut_end(label, width)


def _cut_site(line: str, library: str, width: int) -> str:
    """A line of the program and one of a library: without the library's folders, then without functions, then cut in front."""
    named = [f"{line}, in {part}" for part in (library, library.rpartition("/")[2])]
    texts = [*named, *(_FUNCTION.sub("", text) for text in named)]
    return next((text for text in texts if len(text) <= width), f"…{texts[-1][len(texts[-1]) - width + 1 :]}")


def short_site(site: str) -> str:
    """Return a source line with its path as seen from the current directory, where that is shorter; of frames, the first."""
    site = printable(" ".join(site.partition("\n")[0].split()))
    if not site.startswith("/"):
        return site
    path, parenthesis, rest = site.partition("(")
    return f"{relative_path(path)}{parenthesis}{rest}"


def relative_path(path: str | os.PathLike[str]) -> str:
    """The path as seen from the current directory, where that is shorter."""
    try:
        relative = os.path.relpath(path)
    except OSError:
        return str(path)
    return str(path) if relative.startswith("..") else relative

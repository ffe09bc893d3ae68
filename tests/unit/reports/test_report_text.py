"""Lines of reports: the same text whether rich makes them or nobody has to."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

import pytest

from msmemscope.reports.report_text import HEADING, SHORTEST_LABEL, StyledLines, console_for, cut_label

if TYPE_CHECKING:
    from collections.abc import Callable

TEXTS = (
    "",
    "plain",
    "  leads with blanks",
    "ends with blanks   ",
    "a [bold]tag[/bold], :smile: and 100 %",
    "/a/path/that/is/longer/than/any/terminal/" + "x" * 300,
    "tab\tline\nescape \x1b[31m red",
    "wide: 内存 \N{SNOWMAN}",
    "name with \udcff in it",
)


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of colours, and nothing said about widths."""
    for name in ("COLUMNS", "LINES", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("style", ["", HEADING])
def test_lines_are_what_rich_makes_of_them(monkeypatch: pytest.MonkeyPatch, text: str, style: str) -> None:
    """Where nothing can be coloured, rich is not asked; asked for nothing else, it makes the same lines."""
    plain = StyledLines(io.StringIO(), width=40)
    lines = [plain.line(text, style), *plain.sentence(text, indent=4, style=style)]
    monkeypatch.setenv("FORCE_COLOR", "")  # rich decides, and decides against it
    asked = StyledLines(io.StringIO(), width=40)
    assert [asked.line(text, style), *asked.sentence(text, indent=4, style=style)] == lines
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize(
    ("make", "variable"), [(Terminal, ""), (io.StringIO, "FORCE_COLOR"), (io.StringIO, "TTY_COMPATIBLE")]
)
def test_emphasis_is_left_to_rich(
    make: Callable[[], io.StringIO], variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal, and where a variable asks for it; the indentation is not emphasised."""
    if variable:
        monkeypatch.setenv(variable, "1")
    lines = StyledLines(make(), width=SHORTEST_LABEL + 2)
    assert lines.line("important", HEADING) == "\x1b[1mimportant\x1b[0m"
    assert lines.sentence("one two three four five six", style=HEADING) == [
        "\x1b[1mone two three four\x1b[0m",
        "  \x1b[1mfive six\x1b[0m",
    ]


def test_a_dumb_terminal_has_no_emphasis(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rich knows it."""
    monkeypatch.setenv("TERM", "dumb")
    assert StyledLines(Terminal()).line("important", HEADING) == "important"


@pytest.mark.parametrize("columns", ["33", "200", "x", "", "-1"])
@pytest.mark.parametrize("of_descriptor", [(120, 40), (0, 0), None])
def test_the_width_is_the_one_that_rich_finds(
    columns: str, of_descriptor: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From COLUMNS, from whichever standard stream is a terminal, or the usual one."""

    def size(descriptor: int) -> os.terminal_size:
        if of_descriptor is None or descriptor != 2:
            raise OSError
        return os.terminal_size(of_descriptor)

    monkeypatch.setattr(os, "get_terminal_size", size)
    monkeypatch.setenv("COLUMNS", columns)
    assert StyledLines(io.StringIO()).width == console_for(io.StringIO()).width


def test_no_columns_are_the_usual_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """COLUMNS=0, as some schedulers set it, leaves tables and sentences readable."""
    monkeypatch.setenv("COLUMNS", "0")
    lines = StyledLines(io.StringIO())
    assert (lines.width, lines.console.width) == (80, 80)


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (80, "/x/app/train.py(41): main, in accelerate/optimizer.py(186): step"),
        (60, "train.py(41): main, in accelerate/optimizer.py(186): step"),
        (50, "train.py(41): main, in optimizer.py(186): step"),
        (45, "train.py(41), in accelerate/optimizer.py(186)"),
        (40, "train.py(41), in optimizer.py(186)"),
        (30, "….py(41), in optimizer.py(186)"),
    ],
)
def test_a_line_with_a_library_behind_keeps_both(width: int, text: str) -> None:
    """Folders go first, then functions."""
    label = cut_label("/x/app/train.py(41): main, in accelerate/optimizer.py(186): step", width)
    assert len(label) <= width
    assert label == text

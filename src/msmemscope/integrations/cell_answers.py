"""The answers of `--analysis` below a cell: the reports of those questions, with cells called as their users do."""

from __future__ import annotations

import io
import os
import re
from typing import TYPE_CHECKING, Final

from msmemscope import _native
from msmemscope.errors import EventLogError
from msmemscope.formats.reading import load
from msmemscope.integrations.cell_report import cell_name
from msmemscope.questions import options_of, question_named

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PLACE: Final = re.compile(r"(?P<file>[^\s()]+)\((?P<line>[0-9]+)\)")
"""A line of a file, as reports write it."""


def answers(names: Iterable[str]) -> Iterator[str]:
    """Answer questions about all that this process has collected up to now; the cell is the newest part of it.

    Args:
        names: Of questions.

    Yields:
        A report of each, with its heading.

    Raises:
        MsmemscopeError: If the event log cannot be read.
    """
    directory = _native.capture_directory()
    if not directory:
        message = "nothing was recorded in this process"
        raise EventLogError(message)
    recording = load(directory)
    for name in names:
        question = question_named(name)
        out = io.StringIO()
        question.report(question.examine(recording, options_of(question, {})), recording, out)
        yield f"msmemscope: {name}, of all that was collected up to now\n{_PLACE.sub(_as_cell, out.getvalue())}"


def _as_cell(place: re.Match[str]) -> str:
    """Call a line of a cell's file, which reports may write as seen from the current directory, by its cell."""
    file = place["file"]
    name = cell_name(file) or cell_name(os.path.abspath(file))  # noqa: PTH100 - a key, that need not be a file
    return place[0] if name is None else f"{name}, line {place['line']}"

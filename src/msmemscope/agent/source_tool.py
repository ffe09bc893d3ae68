"""The lines of source around a call site, of files that a stack of the recording names and of no other."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from msmemscope.agent.parameters import PATH, PROCESS, Parameter
from msmemscope.agent.tool import Tool
from msmemscope.errors import InputError, UsageError
from msmemscope.launch.faults import faults_as_errors
from msmemscope.recording.source_files import is_source_name
from msmemscope.recording.source_lines import site_frame, stack_frames
from msmemscope.reports.html.source_excerpts import LINES_AROUND, SourceExcerpts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msmemscope.agent.loaded_recordings import LoadedRecordings
    from msmemscope.recording import Recording

_MOST_AROUND: Final = 100
_MOST_LINES_NAMED: Final = 20


def source_tools() -> list[Tool]:
    """Return `source_line`."""
    return [
        Tool(
            "source_line",
            "The lines of source around a call site of a finding. Only lines that a Python stack of the recording names, of "
            "files that are called as source text is.",
            (
                PATH,
                PROCESS,
                Parameter(
                    "site",
                    "file(line): function, as call sites and stacks have it, or file(line).",
                    {"type": "string"},
                    is_required=True,
                ),
                Parameter(
                    "around",
                    f"Lines before and behind it; default {LINES_AROUND}, at most {_MOST_AROUND}.",
                    {"type": "integer", "minimum": 0, "maximum": _MOST_AROUND},
                ),
            ),
            _source,
        )
    ]


def _source(recordings: LoadedRecordings, given: Mapping[str, Any]) -> dict[str, object]:
    around = given.get("around", LINES_AROUND)
    if not 0 <= around <= _MOST_AROUND:
        message = "not accepted"
        raise UsageError(message, option="around", value=str(around), accepted=f"0 to {_MOST_AROUND}")
    frame = site_frame(given["site"])
    if frame is None:
        message = "names no line"
        raise UsageError(message, option="site", value=given["site"], accepted="file(line): function, or file(line)")
    found = recordings.chosen(given["path"], given.get("process"))
    naming = [recording for recording in found if frame.line in _named_lines(recording, frame.file)]
    if not naming:
        _refuse(found, given["site"], frame.file)
    # A link of a harmless name, which came with the recording, must not lead to another file.
    if not is_source_name(os.path.realpath(frame.file)):
        message = f"{frame.file} leads to no file of source text"
        raise InputError(message)
    with faults_as_errors(during="source_line", send=naming[0].source):
        excerpts = SourceExcerpts(_began_ns(naming[0]), around)
        excerpts.number(given["site"])
    (excerpt,) = excerpts.excerpts
    if not excerpt.lines:
        message = f"{excerpt.file}: {excerpt.note}"
        raise InputError(message)
    return {
        "file": excerpt.file,
        "line": excerpt.line,
        "first_line": excerpt.first_line,
        "lines": excerpt.lines,
        "note": excerpt.note,
    }


def _named_lines(recording: Recording, file: str) -> set[int]:
    """The lines of a file that Python stacks of a recording name."""
    stacks = recording.python_stacks.filter(pl.col("text").str.contains(file, literal=True))
    return {frame.line for text in stacks["text"] for frame in stack_frames(text or "") if frame.file == file}


def _refuse(recordings: tuple[Recording, ...], site: str, file: str) -> None:
    lines = sorted(set().union(*(_named_lines(recording, file) for recording in recordings)))
    message = "no stack of the recording names this line"
    if not lines:
        message = "no stack of the recording names this file"
    named = ", ".join(map(str, lines[:_MOST_LINES_NAMED]))
    more = f" and {len(lines) - _MOST_LINES_NAMED} more" if len(lines) > _MOST_LINES_NAMED else ""
    accepted = f"of this file, lines {named}{more}" if lines else None
    raise UsageError(message, option="site", value=site, accepted=accepted)


def _began_ns(recording: Recording) -> int:
    began = recording.events["timestamp_ns"].min()
    return began if isinstance(began, int) else 0

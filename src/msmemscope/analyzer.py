"""Questions about what was recorded, for Python callers: `check_leaks`, `check_inefficient`, `analyze`.

Every question takes any device, any pool and any of these inputs:

- a capture folder
- an event log
- a CSV or DB dump of any age
- a snapshot of torch
- the result of `msmemscope.load`

A question prints its report to stdout unless it is asked to be quiet. It returns a frozen dataclass whose tables are
Polars frames; `to_polars()` returns the main one. Faults of an input that do not stop the analysis go to stderr.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from msmemscope.analysis.inefficient.inefficient import DEFAULT_IDLE_THRESHOLD
from msmemscope.analysis.options import option_words
from msmemscope.errors import ConfigurationError
from msmemscope.formats.reading import load
from msmemscope.launch import messages
from msmemscope.launch.input_notes import note_foreign_owner, note_problems
from msmemscope.questions import QUESTIONS, options_of, question_named
from msmemscope.recording import Recording

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msmemscope.analysis.inefficient.inefficient import InefficientResult
    from msmemscope.analysis.leaks.between_marks import MarkLeaks

__all__ = ["analyze", "check_inefficient", "check_leaks", "get_analyzer_config", "list_analyzers"]

InputPath: TypeAlias = "str | os.PathLike[str] | Recording"
"""A capture folder, a dump file (CSV or DB), an event log, a snapshot of torch; or the result of `msmemscope.load`."""

_ACCEPTED_INPUT: Final = "a capture folder, a dump file (CSV or DB), or what msmemscope.load returned"


def list_analyzers() -> list[str]:
    """Return the names that `analyze` takes."""
    return list(QUESTIONS)


def get_analyzer_config(
    type: str | None = None,  # noqa: A002 - the published name of the argument
    *,
    analyzer_type: str | None = None,
) -> dict[str, Any]:
    """Return what a question can be asked with.

    Args:
        type: One of `list_analyzers()`.
        analyzer_type: The same by its other name.

    Returns:
        `config_class`, the dataclass of its options, and `parameters`, the names that `analyze` takes for it.

    Raises:
        ConfigurationError: there is no such question.
        TypeError: no question is named, or two are.
    """
    options = question_named(_the_type("get_analyzer_config", type, analyzer_type)).options
    return {"config_class": options, "parameters": ["input_path", *option_words(options)]}


def _the_type(function: str, positional: str | None, keyword: str | None) -> str:
    named = [name for name in (positional, keyword) if name is not None]
    if len(named) != 1:
        what = "no analysis is named" if not named else f"two analyses are named, {named[0]!r} and {named[1]!r}"
        message = f"{function}: {what} (accepted: {', '.join(QUESTIONS)})"
        raise TypeError(message)
    return named[0]


def analyze(
    type: str | None = None,  # noqa: A002 - the published name
    *,
    analyzer_type: str | None = None,
    quiet: bool = False,
    **parameters: Any,
) -> Any:
    """Ask a question by its name.

    Args:
        type: One of `list_analyzers()`.
        analyzer_type: The same by its other name.
        quiet: True prints nothing.
        parameters: `input_path`, and options of the question, see `get_analyzer_config`.

    Returns:
        Its result: a frozen dataclass with `coverage`, what is answered and what is not, and `to_polars()`.

    Raises:
        ConfigurationError: there is no such question, or a value is not accepted.
        TypeError: a parameter is missing, unknown, or of the wrong type.
        InputError: the input cannot be read.
        DumpError: a file cannot be written.
    """
    name = _the_type("analyze", type, analyzer_type)
    question = question_named(name)
    given = {name: value for name, value in parameters.items() if name != "input_path"}
    if "input_path" not in parameters:
        accepted = ", ".join(get_analyzer_config(name)["parameters"])
        message = f"the analysis {name!r} needs the parameter 'input_path' (accepted: {accepted})"
        raise TypeError(message)
    options = options_of(question, given)
    recording = _recording(parameters["input_path"], quiet=quiet)
    question.check(recording, options)
    result = question.examine(recording, options)
    if not quiet:
        note_problems(recording.source, recording.problems)
        question.report(result, recording, sys.stdout)
    for line in question.write(result, recording, options):
        if not quiet:
            messages.note(line)
    return result


def check_leaks(input_path: InputPath, mstx_info: str, start_index: int = 0, *, quiet: bool = False) -> MarkLeaks:
    """Find what was allocated between the marks A and B, and not freed before C, and print it.

    Args:
        input_path: A dump (CSV or DB) or a capture folder.
        mstx_info: Text of the marks.
        start_index: Which of the marks with this text is A, from 0; the next two are B and C.
        quiet: True prints nothing.

    Returns:
        The leaked blocks of every pool and device.

    Raises:
        ConfigurationError: a value is not accepted, or there are no three such marks; also a ValueError.
        TypeError: a value is of the wrong type.
        InputError: the input cannot be read.
    """
    if not isinstance(mstx_info, str):
        message = f"mstx_info: not a text: {mstx_info!r} (accepted: the text of the marks)"
        raise TypeError(message)
    found = analyze("leaks", input_path=input_path, mstx_info=mstx_info, start_index=start_index, quiet=quiet)
    return cast("MarkLeaks", found)


def check_inefficient(
    input_path: InputPath,
    mem_size: int = 0,
    inefficient_type: str | Sequence[str] | None = None,
    idle_threshold: int = DEFAULT_IDLE_THRESHOLD,
    *,
    quiet: bool = False,
) -> InefficientResult:
    """Find memory that is held inefficiently, print it, and write the attribute `inefficient_type` into the dump.

    The file is replaced as a whole, and nothing else in it changes. Of a capture folder all its dumps are written.

    Args:
        input_path: A dump (CSV or DB) or a capture folder.
        mem_size: Blocks smaller than this, in bytes, are not reported.
        inefficient_type: One or several of early_allocation, late_deallocation, temporary_idleness; None for all.
        idle_threshold: A block is idle if more operators than this lie between two consecutive accesses.
        quiet: True prints nothing.

    Raises:
        ConfigurationError: a value is not accepted; also a ValueError.
        TypeError: a value is of the wrong type.
        InputError: the input cannot be read.
        DumpError: the dump cannot be replaced; it is as it was.
    """
    found = analyze(
        "inefficient",
        input_path=input_path,
        mem_size=mem_size,
        inefficient_type=inefficient_type,
        idle_threshold=idle_threshold,
        quiet=quiet,
    )
    return cast("InefficientResult", found)


def _recording(given: object, *, quiet: bool) -> Recording:
    """Read an input that is none yet.

    Raises:
        ConfigurationError: it names nothing.
        TypeError: it is no path.
        InputError: it cannot be read.
    """
    if isinstance(given, Recording):
        return given
    if not isinstance(given, (str, os.PathLike)):
        message = f"input_path: neither a path nor a Recording: {given!r} (accepted: {_ACCEPTED_INPUT})"
        raise TypeError(message)
    if not os.fspath(given):
        message = "names nothing"
        raise ConfigurationError(message, option="input_path", value="", accepted=_ACCEPTED_INPUT)
    recording = load(given)
    if not quiet:
        note_foreign_owner(Path(os.fspath(given)))
    return recording

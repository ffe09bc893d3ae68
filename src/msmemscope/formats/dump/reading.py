"""Dump files of one export, one per device, as recordings."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from msmemscope.errors import InputError
from msmemscope.formats.dump.config_json import place_beside
from msmemscope.formats.dump.recording_of_dump import DumpRowsOfProcesses
from msmemscope.formats.problems import Problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from msmemscope.formats.dump.row_reader import DumpPiece
    from msmemscope.recording import Recording


def recordings_of_dumps(
    form: str,
    pieces: Callable[[Path], Iterable[DumpPiece]],
    files: Sequence[Path],
    given: Path,
    reason: str | None = None,
) -> tuple[Recording, ...]:
    """Read the dumps of one export.

    Args:
        form: The name of the format, for the recordings.
        pieces: Reads one file in parts.
        files: One per device.
        given: The path that was asked for, the source of the recordings.
        reason: Why the dumps are read instead of something better, if they are.

    Returns:
        One recording per process. The problems name the parts of a file that cannot be read.

    Raises:
        InputError: If no file can be read.
    """
    rows = DumpRowsOfProcesses(form)
    if reason is not None:
        rows.add_problem(reason)
    failures: list[InputError] = []
    for file in files:
        problems = Problems()
        try:
            for piece in pieces(file):
                rows.add(piece)
                problems.take(piece.problems)
        except InputError as error:  # the files of other devices are read all the same
            failures.append(error)
            problems.add(f"left out: {error.message}")
        for problem in problems.lines():
            rows.add_problem(f"{file.name}: {problem}" if len(files) > 1 else problem)
    if len(failures) == len(files):
        raise failures[0]
    recordings = rows.recordings(given)
    if len(recordings) != 1:
        return recordings  # one config.json cannot be that of several processes
    facts = {key: (text,) for key, text in place_beside(files[0]).to_facts().items()}
    return (dataclasses.replace(recordings[0], facts=facts),)

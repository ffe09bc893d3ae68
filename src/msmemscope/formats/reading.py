"""One call for every input."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from msmemscope.errors import EventLogError, InputError
from msmemscope.formats.dump.csv_reader import csv_pieces
from msmemscope.formats.dump.recording_of_dump import DumpRowsOfProcesses
from msmemscope.formats.dump.sqlite_reader import database_pieces
from msmemscope.formats.event_log import Capture
from msmemscope.formats.event_log.recording_of_log import recording_of_capture
from msmemscope.formats.problems import Problems
from msmemscope.formats.recognise import Form, Found, recognise
from msmemscope.formats.torch_snapshot.reader import recording_of_snapshot

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from msmemscope.errors import MsmemscopeError
    from msmemscope.recording.recording import Recording


def load_all(path: str | os.PathLike[str]) -> tuple[Recording, ...]:
    """Reads whatever lies at a path: decided by content, never by the name of a file.

    Args:
        path: A capture folder `msmemscope_{pid}_{timestamp}_ascend` or a folder of those; a dump of ours or of
            MindStudio msMemScope of any age (CSV or DB), or a folder of those; a memory snapshot of torch or torch_npu
            (`torch.cuda.memory._dump_snapshot`), which is read without running anything of it.

    Returns:
        One recording per process, never none. What of a folder cannot be read is a problem of the first one.

    Raises:
        InputError: the path is missing or unreadable, or holds nothing of that.
        EventLogError: an event log is damaged beyond reading, no dump lies beside it, and nothing else was found.
    """
    given = Path(path)
    recordings: list[Recording] = []
    failures: list[MsmemscopeError] = []
    for found in recognise(given):
        try:
            recordings.extend(_loaded(found, given))
        except (EventLogError, InputError) as error:  # noqa: PERF203 - reads files
            failures.append(error)
    if not recordings:
        if failures:
            raise failures[0]
        message = f"{given} holds no rows"
        raise InputError(message, hint="was anything recorded?")
    if failures:
        left_out = (f"left out: {failure.message}" for failure in failures)
        recordings[0] = replace(recordings[0], problems=(*recordings[0].problems, *left_out))
    return tuple(recordings)


def load(path: str | os.PathLike[str]) -> Recording:
    """Reads the one process that lies at a path; see `load_all`.

    Raises:
        InputError: as `load_all`; or several processes lie there.
    """
    recordings = load_all(path)
    if len(recordings) > 1:
        processes = ", ".join(str(recording.process_id) for recording in recordings)
        message = f"{Path(path)} holds {len(recordings)} processes: {processes}"
        raise InputError(message, hint="load_all(path) returns all of them; or give the folder of one")
    return recordings[0]


def _loaded(found: Found, given: Path) -> tuple[Recording, ...]:
    if found.failure is not None:
        raise found.failure
    if found.form is Form.EVENT_LOG:
        return _event_log(found, given)
    if found.form is Form.TORCH_SNAPSHOT:
        return (recording_of_snapshot(found.paths[0]),)
    return _dumps(found.paths, found.form, given)


def _event_log(found: Found, given: Path) -> tuple[Recording, ...]:
    source = found.paths[0] if len(found.paths) == 1 else given
    try:
        return (recording_of_capture(Capture(found.paths[0]), source),)
    except EventLogError as error:
        if not found.fallback:
            raise
        form = recognise(found.fallback[0])[0].form
        reason = f"the event log cannot be read, its dumps were read instead: {error.message}"
        return _dumps(found.fallback, form, given, reason)


def _dumps(files: Sequence[Path], form: Form, given: Path, reason: str | None = None) -> tuple[Recording, ...]:
    rows = DumpRowsOfProcesses(form.value)
    if reason is not None:
        rows.add_problem(reason)
    failures: list[InputError] = []
    for file in files:
        problems = Problems()
        try:
            for piece in csv_pieces(file) if form is Form.CSV else database_pieces(file):
                rows.add(piece)
                problems.take(piece.problems)
        except InputError as error:  # the files of other devices are read all the same
            failures.append(error)
            problems.add(f"left out: {error.message}")
        for problem in problems.lines():
            rows.add_problem(f"{file.name}: {problem}" if len(files) > 1 else problem)
    if len(failures) == len(files):
        raise failures[0]
    return rows.recordings(given)

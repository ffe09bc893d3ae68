"""One call for every input."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from msmemscope.errors import EventLogError, InputError
from msmemscope.formats.event_log import Capture
from msmemscope.formats.event_log.recording_of_log import recording_of_capture
from msmemscope.formats.recognise import Found, recognise

if TYPE_CHECKING:
    import os

    from msmemscope.errors import MsmemscopeError
    from msmemscope.recording.recording import Recording


def load_all(path: str | os.PathLike[str]) -> tuple[Recording, ...]:
    """Read whatever lies at a path: decided by content, never by the name of a file.

    Args:
        path: One of these, or a folder of the first two:

            - a capture folder `msmemscope_{pid}_{timestamp}_ascend`, or its archive;
            - a dump of ours or of MindStudio msMemScope, of any age, as CSV or DB;
            - a memory snapshot of torch or torch_npu (`torch.cuda.memory._dump_snapshot`). Reading it runs nothing of
              it.

    Returns:
        One recording per process, never none. The first one lists the unreadable files of a folder as problems.

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
    """Read the one process that lies at a path; see `load_all`.

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
    if found.file_format is None:
        return _event_log(found, given)
    return found.file_format.read(found.paths, given, None)


def _event_log(found: Found, given: Path) -> tuple[Recording, ...]:
    source = found.paths[0] if len(found.paths) == 1 else given
    try:
        return (recording_of_capture(Capture(found.paths[0]), source),)
    except EventLogError as error:
        (dumps,) = recognise(found.fallback[0]) if found.fallback else (None,)
        if dumps is None or dumps.file_format is None:
            raise
        reason = f"the event log cannot be read, its dumps were read instead: {error.message}"
        return dumps.file_format.read(found.fallback, given, reason)

"""Dump files, CSV or SQLite: what the launcher writes at the end, from any recording."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any, Final

from msmemscope.analysis.owners.decomposition import owned_blocks
from msmemscope.analysis.owners.ownership import owners_of_capture
from msmemscope.configuration import Config, DataFormat
from msmemscope.errors import ConfigurationError, EventLogError
from msmemscope.formats.dump import BlockFindings, write_dumps
from msmemscope.formats.dump.recorded_events import EventsOfRecording
from msmemscope.formats.event_log import Capture
from msmemscope.formats.export.redaction import NAMING_SETTINGS, RedactedEvents
from msmemscope.model.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import polars as pl

    from msmemscope.formats.dump.recorded_events import RecordedEvents
    from msmemscope.formats.export.export_choice import ExportChoice
    from msmemscope.formats.export.redaction import Redaction
    from msmemscope.recording import Recording

_EVENT_LOG: Final = "event log"


def write_dump_folder(
    recording: Recording, folder: Path, choice: ExportChoice, *, data_format: DataFormat
) -> tuple[str, ...]:
    """Write the dump files of a recording into a folder, with every stack and owner that is known.

    Args:
        recording: Any. If it comes from an event log, the log itself is read. The log knows functions by name, and
            modules by time.
        folder: An empty one.
        choice: Whether names are redacted.
        data_format: CSV or DB.

    Returns:
        The parts that are left out, one line each.

    Raises:
        OSError: The disk is full, or gone.
        DumpError: The same, found by the writer of dumps.
    """
    settings = dataclasses.replace(
        _settings(recording),
        data_format=data_format,
        python_stack=True,
        native_stack=True,
        stack_scopes=(),
        unwritten=frozenset(),
    )
    if recording.form == _EVENT_LOG:
        try:
            capture = Capture(recording.source)
            owners = owners_of_capture(capture).owners
        except EventLogError:
            pass  # the log went away after it was read: the tables are still here
        else:
            _write(capture, owners, settings, folder, choice.redaction)
            return ()
    blocks, _ = owned_blocks(recording)
    found = blocks.select("malloc_sequence", "owner").drop_nulls().unique("malloc_sequence").sort("malloc_sequence")
    _write(EventsOfRecording(recording, folder), found, settings, folder, choice.redaction)
    return tuple(_left_out(recording))


def _write(
    events: RecordedEvents, owners: pl.DataFrame, settings: Config, folder: Path, redaction: Redaction | None
) -> None:
    if redaction is not None:
        events, owners = RedactedEvents(events, redaction), redaction.owners(owners)
        nameless: dict[str, Any] = dict.fromkeys(NAMING_SETTINGS, "")
        settings = dataclasses.replace(settings, **nameless)
    write_dumps(events, settings, BlockFindings(owners=owners), directory=folder)


write_csv_folder: Final = functools.partial(write_dump_folder, data_format=DataFormat.CSV)
write_db_folder: Final = functools.partial(write_dump_folder, data_format=DataFormat.DB)


def _settings(recording: Recording) -> Config:
    try:
        return Config.from_facts(recording.facts)
    except ConfigurationError:
        return Config()  # damaged ones describe nothing


def _left_out(recording: Recording) -> Iterator[str]:
    calls = recording.events["kind"].eq(EventKind.FUNCTION_CALL).sum()
    if calls:
        yield f"the Python trace of {calls} calls is left out: only an event log has the names of their functions"

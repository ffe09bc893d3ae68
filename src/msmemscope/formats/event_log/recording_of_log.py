"""Event logs: nothing to guess, everything to look up."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.formats.event_log.capture import Capture
from msmemscope.formats.event_log.history_files import read_history
from msmemscope.formats.event_log.source_texts import read_source_lines
from msmemscope.model.events import SCOPE_KINDS
from msmemscope.recording.build_tables import recording_without_stacks
from msmemscope.recording.schema import STRING_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from msmemscope.model.events import EventKind
    from msmemscope.recording.recording import Recording
    from msmemscope.recording.run_history import RunHistory

WAS_RUNNING: Final = "the process was still running: this is what it had recorded when it was archived"


def recording_of_capture(capture: Capture, source: Path, kinds: Collection[EventKind] | None = None) -> Recording:
    """Return everything that a capture holds.

    Args:
        capture: The capture to read.
        source: The path that was given.
        kinds: Only events of these kinds, and those that say when collection was on; None for all.

    Raises:
        EventLogError: the event log cannot be read.
    """
    recording = recording_without_stacks(capture, kinds if kinds is None else {*kinds, *SCOPE_KINDS})
    return dataclasses.replace(
        recording,
        source=str(source),
        python_stacks=capture.python_stack_frame(recording.events["python_stack_id"]).cast(STRING_SCHEMA),
        native_stacks=_native_stacks(capture, recording.events),
        coverage=tuple(_coverage(capture)),
        source_texts=read_source_lines(capture.log.source_lines()),
        read_history=functools.partial(_history_of, capture.directory),
    )


def _history_of(directory: Path) -> RunHistory:
    # Opened anew: a recording holds no files open, and can go to another process.
    return read_history(Capture(directory).log)


def _native_stacks(capture: Capture, events: pl.DataFrame) -> pl.DataFrame:
    """Return the texts of native stacks, each with the modules as they were when it was first seen."""
    first = (
        events.lazy()
        .filter(pl.col("native_stack_id") != 0)
        .group_by("native_stack_id")
        .agg(pl.col("sequence").min())
        .sort("sequence")
        .collect()
    )
    changes = pl.Series(capture.module_changes, dtype=pl.UInt64)
    periods = first.with_columns(period=changes.search_sorted(first["sequence"], side="right"))
    parts = [
        capture.native_stack_frame(period["native_stack_id"], int(period["sequence"][0]))
        for period in periods.partition_by("period", maintain_order=True)
    ]
    return pl.concat([STRING_SCHEMA.to_frame(), *(part.cast(STRING_SCHEMA) for part in parts)])


def _coverage(capture: Capture) -> Iterator[str]:
    """Yield the losses of the recording."""
    header = capture.header
    if header.dropped_recycled:
        yield f"{header.dropped_recycled} events were recycled to keep the log small; blocks still alive were kept"
    lost = header.dropped_failure + header.dropped_reentrant
    if lost:
        yield f"{lost} events were lost"
    if capture.is_running():
        yield "the process is still running: this is what it had recorded when it was read"
    if capture.log.was_running:
        yield WAS_RUNNING

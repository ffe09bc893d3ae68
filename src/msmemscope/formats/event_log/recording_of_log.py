"""Event logs: nothing to guess, everything to look up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from msmemscope.recording.build_tables import build_blocks, build_tables
from msmemscope.recording.recording import RECORDING_BLOCK_SCHEMA, Recording
from msmemscope.recording.schema import STRING_SCHEMA, has_attributes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from msmemscope.formats.event_log import Capture


def recording_of_capture(capture: Capture, source: Path, kinds: Collection[EventKind] | None = None) -> Recording:
    """Returns everything that a capture holds.

    Args:
        capture: What was recorded.
        source: The path that was given.
        kinds: Only events of these kinds; None for all.

    Raises:
        EventLogError: the event log cannot be read.
    """
    tables = build_tables(capture, kinds)
    attributes = capture.attribute_frame(tables.events.filter(has_attributes())["attribute_id"])
    events = _with_pinned_memory_apart(tables.events, attributes)
    blocks = build_blocks(events, tables.strings).with_columns(owner=pl.lit(None, dtype=pl.String))
    return Recording(
        source=str(source),
        form="event log",
        process_id=capture.header.process_id,
        events=events,
        blocks=blocks.select(RECORDING_BLOCK_SCHEMA.names()),
        strings=pl.concat([tables.strings, _spelled(capture, events)]),
        python_stacks=capture.python_stack_frame(events["python_stack_id"]).cast(STRING_SCHEMA),
        native_stacks=_native_stacks(capture, events),
        coverage=tuple(_coverage(capture)),
        problems=capture.problems,
        facts=capture.facts,
        attributes=attributes,
    )


def _spelled(capture: Capture, events: pl.DataFrame) -> pl.DataFrame:
    """Returns the attributes of allocations and of snapshots as texts."""
    kinds = [int(kind) for kind in (EventKind.MALLOC, EventKind.SNAPSHOT, EventKind.OOM)]
    ids = events.filter(pl.col("kind").is_in(kinds))["attribute_id"].unique().to_list()
    texts = capture.attribute_texts(ids)
    return pl.DataFrame({"id": list(texts), "text": list(texts.values())}, schema=STRING_SCHEMA)


def _with_pinned_memory_apart(events: pl.DataFrame, attributes: pl.DataFrame) -> pl.DataFrame:
    """Gives pinned memory of the host to the driver's pool on the cpu, so that CPU tensors are alone in theirs."""
    pinned_ids = attributes.filter("is_pinned")["attribute_id"]
    if pinned_ids.is_empty():
        return events
    is_begin = (pl.col("kind") == EventKind.MALLOC) & pl.col("attribute_id").is_in(pinned_ids.implode())
    pinned = events.filter(is_begin)["sequence"]
    is_end = (pl.col("kind") == EventKind.FREE) & pl.col("extra").is_in(pinned.implode())
    return events.with_columns(
        pool=pl.when(is_begin | is_end).then(pl.lit(int(Pool.HAL), dtype=pl.UInt8)).otherwise("pool"),
        device=pl.when(is_begin | is_end).then(pl.lit(DEVICE_CPU, dtype=pl.Int16)).otherwise("device"),
        # What the pool says need not be said again.
        attribute_id=pl.when(is_begin).then(pl.lit(0, dtype=pl.UInt32)).otherwise("attribute_id"),
    )


def _native_stacks(capture: Capture, events: pl.DataFrame) -> pl.DataFrame:
    """Returns the texts of native stacks, each with the modules as they were when it was first seen."""
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
    """Yields what was lost of the recording."""
    header = capture.header
    if header.dropped_recycled:
        yield f"{header.dropped_recycled} events were recycled to keep the log small; blocks still alive were kept"
    lost = header.dropped_failure + header.dropped_reentrant
    if lost:
        yield f"{lost} events were lost"
    if capture.is_running():
        yield "the process is still running: this is what it had recorded when it was read"

"""From a capture to tables that fit in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from msmemscope.recording.large_tables import collected_table, filtered_table
from msmemscope.recording.recording import RECORDING_BLOCK_SCHEMA, Recording
from msmemscope.recording.schema import BLOCK_SCHEMA, EVENT_SCHEMA, STRING_SCHEMA, has_attributes

if TYPE_CHECKING:
    from collections.abc import Collection

    from msmemscope.formats.event_log.capture import Capture

_ALLOCATOR_FACTS: Final = ("requested_bytes", "stream_id", "pool_id")


def recording_without_stacks(capture: Capture, kinds: Collection[EventKind] | None = None) -> Recording:
    """Read the events of a capture and pair allocations with frees, for those who look up few stacks or none.

    Args:
        capture: The capture of a process.
        kinds: Only events of these kinds, so that the rest of a long capture need not fit into memory; None for all.

    Returns:
        A recording whose tables of stacks are empty.

    Raises:
        EventLogError: the event log cannot be read.
    """
    chosen = capture if kinds is None else capture.restricted_to(kinds)
    counts = capture.kind_counts()
    count = sum(counts.values()) if kinds is None else sum(counts.get(kind, 0) for kind in kinds)
    events = collected_table(EVENT_SCHEMA, count, chosen.event_batches)
    # A name that was lost with the end of the process is still a name.
    texts = dict(capture.string_frame(events["name_id"]).iter_rows()) | dict(capture.strings)
    strings = pl.DataFrame({"id": list(texts), "text": list(texts.values())}, schema=STRING_SCHEMA)
    attributes = capture.attribute_frame(events.filter(has_attributes())["attribute_id"])
    events = _with_completed_frees(_with_pinned_memory_apart(events, attributes))
    blocks = build_blocks(events, strings, attributes).with_columns(owner=pl.lit(None, dtype=pl.String))
    return Recording(
        source=str(capture.directory),
        form="event log",
        process_id=capture.header.process_id,
        events=events,
        blocks=blocks.select(RECORDING_BLOCK_SCHEMA.names()),
        strings=strings,
        python_stacks=STRING_SCHEMA.to_frame(),
        native_stacks=STRING_SCHEMA.to_frame(),
        coverage=(),
        problems=capture.problems,
        facts=capture.facts,
        attributes=attributes,
    )


def _with_pinned_memory_apart(events: pl.DataFrame, attributes: pl.DataFrame) -> pl.DataFrame:
    """Give pinned memory of the host to the driver's pool on the cpu, so that CPU tensors are alone in theirs."""
    pinned_ids = attributes.filter("is_pinned")["attribute_id"]
    if pinned_ids.is_empty():
        return events
    is_begin = (pl.col("kind") == EventKind.MALLOC) & pl.col("attribute_id").is_in(pinned_ids.implode())
    pinned = events.filter(is_begin)["sequence"]
    is_end = (pl.col("kind") == EventKind.FREE) & pl.col("extra").is_in(pinned.implode())
    return events.with_columns(
        pool=pl.when(is_begin | is_end).then(pl.lit(int(Pool.HAL), dtype=pl.UInt8)).otherwise("pool"),
        device=pl.when(is_begin | is_end).then(pl.lit(DEVICE_CPU, dtype=pl.Int16)).otherwise("device"),
        # A flag need not repeat the pool.
        attribute_id=pl.when(is_begin).then(pl.lit(0, dtype=pl.UInt32)).otherwise("attribute_id"),
    )


def _with_completed_frees(events: pl.DataFrame) -> pl.DataFrame:
    """Name the block of each FREE_COMPLETED: the last one freed at its address whose memory nobody has yet."""
    kind = pl.col("kind")
    completed = events.filter((kind == EventKind.FREE_COMPLETED) & (pl.col("extra") == 0))
    if completed.is_empty():
        return events
    place = ["device", "pool", "address"]
    before = events.filter(kind.is_in([int(EventKind.MALLOC), int(EventKind.FREE)])).join(
        completed, on=place, how="semi"
    )
    block = pl.when(kind == EventKind.FREE).then("extra").otherwise(0)
    found = completed.select("sequence", *place).join_asof(
        before.select("sequence", *place, block=block), on="sequence", by=place, check_sortedness=False
    )
    return (
        events.join(found.select("sequence", "block"), on="sequence", how="left", maintain_order="left")
        .with_columns(extra=pl.coalesce("block", "extra"))
        .drop("block")
    )


def build_blocks(
    events: pl.DataFrame,
    strings: pl.DataFrame,
    attributes: pl.DataFrame | None = None,
    waiting_pools: Collection[int] = (),
) -> pl.DataFrame:
    """Pair each MALLOC with the FREE that names it.

    A FREE of a block that was never seen makes no block, and one that stands before its block ends none.

    Args:
        events: Of EVENT_SCHEMA, in sequence order.
        strings: Of STRING_SCHEMA.
        attributes: Of ATTRIBUTE_SCHEMA; none by default.
        waiting_pools: Pools whose FREE_COMPLETED events are all recorded. Memory of others returns with the FREE, unless
            there is one.

    Returns:
        A table of BLOCK_SCHEMA.
    """
    kind = pl.col("kind")
    allocations = filtered_table(events.select(EVENT_SCHEMA.names()), kind == EventKind.MALLOC)
    ends = (
        events.lazy()
        .filter((kind == EventKind.FREE) & (pl.col("extra") != 0) & (pl.col("extra") < pl.col("sequence")))
        .select(
            pl.col("extra").alias("block"),
            pl.col("timestamp_ns").alias("freed_ns"),
            pl.col("sequence").alias("free_sequence"),
            pl.col("thread_id").alias("free_thread_id"),
            pl.col("python_stack_id").alias("free_python_stack_id"),
            pl.col("native_stack_id").alias("free_native_stack_id"),
        )
        .collect()
    )
    names = allocations.select("name_id").join(
        strings, left_on="name_id", right_on="id", how="left", maintain_order="left"
    )
    rows = _first_rows(allocations["sequence"], ends["block"])
    blocks = allocations.with_columns(
        *ends.drop("block").select(pl.all().gather(rows)).get_columns(),
        pl.col("sequence").alias("allocation_id"),
        pl.col("timestamp_ns").alias("allocated_ns"),
        pl.col("sequence").alias("malloc_sequence"),
        names["text"].alias("name"),
    )
    returned = pl.col("free_sequence")
    completed = events.filter((kind == EventKind.FREE_COMPLETED) & (pl.col("extra") != 0)).select("sequence", "extra")
    if waiting_pools or len(completed):
        found = completed["sequence"].gather(_first_rows(allocations["sequence"], completed["extra"]))
        is_told = pl.col("pool").is_in(list(waiting_pools))
        returned = pl.when(is_told).then(pl.lit(found)).otherwise(pl.coalesce(pl.lit(found), returned))
    facts = _allocator_facts(blocks["attribute_id"], attributes)
    requested = events.filter((kind == EventKind.REQUESTED) & (pl.col("size") >= 0)).select("extra", "size")
    if len(requested):
        told = requested["size"].gather(_first_rows(allocations["sequence"], requested["extra"]))
        facts = facts.with_columns(requested_bytes=pl.coalesce("requested_bytes", pl.lit(told)))
    return blocks.with_columns(*facts.get_columns(), returned_sequence=returned).select(BLOCK_SCHEMA.names())


def _allocator_facts(ids: pl.Series, attributes: pl.DataFrame | None) -> pl.DataFrame:
    """Return the columns of BLOCK_SCHEMA that come from attributes."""
    types = pl.Schema({name: BLOCK_SCHEMA[name] for name in _ALLOCATOR_FACTS})
    is_known = pl.any_horizontal(pl.col(*_ALLOCATOR_FACTS).is_not_null())
    known = None if attributes is None else attributes.filter(is_known)
    if known is None or known.is_empty():
        absent = {name: pl.lit(None, dtype=dtype) for name, dtype in types.items()}
        return ids.to_frame().with_columns(**absent).drop("attribute_id")
    # A value that fits no column is unknown: a damaged log may say that a block is larger than any memory.
    chosen = known.select("attribute_id", *_ALLOCATOR_FACTS).cast(types, strict=False)
    return ids.to_frame().join(chosen, on="attribute_id", how="left", maintain_order="left").drop("attribute_id")


def _first_rows(known: pl.Series, named: pl.Series) -> pl.Series:
    """Return for each known number the row of the first that names it; null if none does.

    Args:
        known: Rising numbers.
        named: Any numbers.
    """
    numbers, wanted = known.to_numpy(), named.to_numpy()
    places = np.searchsorted(numbers, wanted)
    is_known = places < len(numbers)
    is_known[is_known] = numbers[places[is_known]] == wanted[is_known]
    # A damaged log may name a block twice: it was freed the first time. Of repeated places the last one written stays.
    rows = np.flatnonzero(is_known)[::-1]
    found = np.full(len(numbers), len(named), dtype=np.uint32)
    found[places[rows]] = rows
    series = pl.Series(found)
    return series.set(series == len(named), None)

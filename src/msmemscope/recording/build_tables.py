"""From a capture to tables that fit in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from msmemscope.model.events import EventKind
from msmemscope.recording.schema import BLOCK_SCHEMA, EVENT_SCHEMA, STRING_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Collection

    from msmemscope.formats.event_log.capture import Capture


@dataclass(frozen=True)
class Tables:
    """Everything that analyses need of one process."""

    events: pl.DataFrame
    """EVENT_SCHEMA: every event, in sequence order."""
    blocks: pl.DataFrame
    """BLOCK_SCHEMA: every block whose MALLOC was seen, in MALLOC order."""
    strings: pl.DataFrame
    """STRING_SCHEMA: texts of all string ids."""


def build_tables(capture: Capture, kinds: Collection[EventKind] | None = None) -> Tables:
    """Reads the events of a capture and pairs allocations with frees.

    Args:
        capture: What was recorded.
        kinds: Only events of these kinds, so that the rest of a long capture need not fit into memory; None for all.
    """
    chosen = capture if kinds is None else capture.restricted_to(kinds)
    events = pl.concat([EVENT_SCHEMA.to_frame(), *chosen.event_batches()])
    texts = dict(capture.strings)
    strings = pl.DataFrame({"id": list(texts), "text": list(texts.values())}, schema=STRING_SCHEMA)
    return Tables(events, build_blocks(events, strings), strings)


def build_blocks(events: pl.DataFrame, strings: pl.DataFrame) -> pl.DataFrame:
    """Pairs each MALLOC with the FREE that names it.

    A FREE of a block that was never seen makes no block, and one that stands before its block ends none.

    Args:
        events: Of EVENT_SCHEMA, in sequence order.
        strings: Of STRING_SCHEMA.

    Returns:
        A table of BLOCK_SCHEMA.
    """
    kind = pl.col("kind")
    allocations = events.filter(kind == EventKind.MALLOC)
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
    return allocations.with_columns(
        *ends.drop("block").select(pl.all().gather(rows)).get_columns(),
        pl.col("sequence").alias("allocation_id"),
        pl.col("timestamp_ns").alias("allocated_ns"),
        pl.col("sequence").alias("malloc_sequence"),
        names["text"].alias("name"),
    ).select(BLOCK_SCHEMA.names())


def _first_rows(known: pl.Series, named: pl.Series) -> pl.Series:
    """Returns for each known number the row of the first that names it; null if none does.

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

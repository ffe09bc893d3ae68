"""From a capture to tables that fit in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
    allocations = events.lazy().filter(pl.col("kind") == EventKind.MALLOC)
    frees = (
        events.lazy()
        .filter((pl.col("kind") == EventKind.FREE) & (pl.col("extra") != 0) & (pl.col("extra") < pl.col("sequence")))
        .select(
            pl.col("extra").alias("sequence"),
            pl.col("timestamp_ns").alias("freed_ns"),
            pl.col("sequence").alias("free_sequence"),
            pl.col("thread_id").alias("free_thread_id"),
            pl.col("python_stack_id").alias("free_python_stack_id"),
            pl.col("native_stack_id").alias("free_native_stack_id"),
        )
        # A damaged log may name a block twice: it was freed the first time.
        .unique("sequence", keep="first", maintain_order=True)
    )
    return (
        allocations.join(frees, on="sequence", how="left", maintain_order="left")
        .join(strings.lazy(), left_on="name_id", right_on="id", how="left", maintain_order="left")
        .with_columns(
            pl.col("sequence").alias("allocation_id"),
            pl.col("timestamp_ns").alias("allocated_ns"),
            pl.col("sequence").alias("malloc_sequence"),
            pl.col("text").alias("name"),
        )
        .select(BLOCK_SCHEMA.names())
        .collect()
    )

"""The overview of one process that the exit summary shows."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import polars as pl

from msmemscope.analysis.peak.out_of_memory import OutOfMemoryOptions, OutOfMemoryResult, describe_failures
from msmemscope.model.events import MEMORY_KINDS, PINNED, EventKind
from msmemscope.model.owners import DRIVER_MODULE_PATTERN
from msmemscope.model.pools import Pool
from msmemscope.recording import EVENT_SCHEMA, build_blocks
from msmemscope.recording.source_lines import source_lines
from msmemscope.recording.timeline import (
    NeverFreed,
    PoolPeak,
    blocks_at_peaks,
    find_never_freed,
    find_peaks,
    never_freed_blocks,
    peak_moments,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from msmemscope.formats.event_log import Capture

DEFAULT_LIMIT = 5
"""Shares that are listed by name."""


@dataclasses.dataclass(frozen=True)
class MemoryOverview:
    """Events, peaks and blocks never freed of one process."""

    event_count: int
    events_by_kind: Mapping[int, int]
    """`EventKind` value to number of events."""
    peaks: tuple[PoolPeak, ...]
    never_freed: tuple[NeverFreed, ...]
    out_of_memory: OutOfMemoryResult | None = None
    """None if no allocation failed for lack of memory."""


def memory_events(batches: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Keep what blocks are made of, so that the rest of a long capture need not fit into memory.

    Args:
        batches: Parts of a table of `recording.EVENT_SCHEMA`, in sequence order.

    Returns:
        The MALLOC and FREE rows, in sequence order.
    """
    kinds = [int(kind) for kind in MEMORY_KINDS]
    return pl.concat([EVENT_SCHEMA.to_frame(), *(batch.filter(pl.col("kind").is_in(kinds)) for batch in batches)])


def memory_overview(capture: Capture, *, limit: int = DEFAULT_LIMIT) -> MemoryOverview:
    """Read a capture once and sum it up.

    Args:
        capture: The process concerned.
        limit: How many operators and source lines to list by name.
    """
    events = memory_events(capture.event_batches())
    texts = capture.string_frame(events.get_column("attribute_id"))
    blocks = _with_pinned_memory_apart(build_blocks(events, capture.string_frame(events.get_column("name_id"))), texts)
    moments = peak_moments(blocks)
    # Only stacks of blocks that will be shown are looked up: a capture has far more.
    shown = pl.concat([*blocks_at_peaks(blocks, moments), never_freed_blocks(blocks)])
    modules = modules_of_cann(texts)
    lines = source_lines(shown.get_column("python_stack_id"), capture.python_stack_frames)
    return MemoryOverview(
        event_count=capture.event_count(),
        events_by_kind=dict(capture.kind_counts()),
        peaks=find_peaks(blocks, moments, lines, limit, modules),
        never_freed=find_never_freed(blocks, lines, limit, modules),
        out_of_memory=_out_of_memory(capture, blocks, modules, limit),
    )


def _out_of_memory(
    capture: Capture, blocks: pl.DataFrame, modules: pl.DataFrame, limit: int
) -> OutOfMemoryResult | None:
    if EventKind.OOM not in capture.kind_counts():
        return None
    is_needed = pl.col("kind").is_in([EventKind.OOM, EventKind.SNAPSHOT])
    events = pl.concat([batch.filter(is_needed) for batch in capture.event_batches()])
    return describe_failures(
        events,
        blocks,
        capture.string_frame(pl.concat([events.get_column("name_id"), events.get_column("attribute_id")])),
        lambda stack_ids: source_lines(stack_ids, capture.python_stack_frames),
        OutOfMemoryOptions(limit=limit),
        modules,
    )


def modules_of_cann(texts: pl.DataFrame) -> pl.DataFrame:
    """Find the module of CANN that the owner labels of a block name (`CANN@RUNTIME`).

    Args:
        texts: Attribute texts of blocks: `id` (u32), `text`.

    Returns:
        `id` and `text` of those that name one; the text is the module.
    """
    return texts.with_columns(pl.col("text").str.extract(DRIVER_MODULE_PATTERN)).drop_nulls("text")


def _with_pinned_memory_apart(blocks: pl.DataFrame, texts: pl.DataFrame) -> pl.DataFrame:
    """Gives pinned memory of the host to the driver's pool, so that it is not summed up with CPU tensors."""
    pinned = texts.filter(pl.col("text") == PINNED).get_column("id")
    is_pinned = pl.col("attribute_id").is_in(pinned.implode())
    return blocks.with_columns(
        pool=pl.when(is_pinned).then(pl.lit(int(Pool.HAL), dtype=pl.UInt8)).otherwise(pl.col("pool"))
    )

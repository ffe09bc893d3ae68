"""The overview of one process that the exit summary shows."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.model.events import MEMORY_KINDS, EventKind
from msmemscope.recording import recording_without_stacks
from msmemscope.recording.block_sets import BlockSet, describe_blocks
from msmemscope.recording.driver_owners import driver_modules
from msmemscope.recording.source_lines import source_lines
from msmemscope.recording.timeline import MemoryCurve, blocks_in_use, memory_curve, peaks_of_pools

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from msmemscope.analysis.peak.out_of_memory import OutOfMemoryResult
    from msmemscope.formats.event_log import Capture
    from msmemscope.recording import Recording

MOST_SHARES: Final = 5
"""Shares that are listed by name."""
_OF_CURVES: Final = ("device", "pool", "malloc_sequence", "free_sequence", "size", "allocated_ns", "freed_ns")
CURVE_POINTS: Final = 60
"""Stretches of time that a curve of memory over time has."""
_KINDS: Final = (*MEMORY_KINDS, EventKind.SNAPSHOT)
"""Kinds of events that are kept of a capture, so that the rest of a long one need not fit into memory."""


@dataclasses.dataclass(frozen=True)
class PoolPeak:
    """The highest use of one memory pool of one device."""

    device: int
    pool: int
    peak_bytes: int
    sequence: int
    """The event that first reached it."""
    timestamp_ns: int
    """CLOCK_REALTIME of that event."""
    in_use: BlockSet
    """The blocks that were in use right after that event."""
    curve: MemoryCurve | None = None
    """How much was in use over time; None if there is nothing to draw."""


@dataclasses.dataclass(frozen=True)
class NeverFreed:
    """The blocks of one memory pool of one device that have no FREE."""

    device: int
    pool: int
    blocks: BlockSet


@dataclasses.dataclass(frozen=True)
class MemoryOverview:
    """Events, peaks and blocks never freed of one process."""

    event_count: int
    events_by_kind: Mapping[int, int]
    """`EventKind` value to number of events."""
    peaks: tuple[PoolPeak, ...]
    never_freed: tuple[NeverFreed, ...]
    """Without blocks that are known to have leaked."""
    out_of_memory: OutOfMemoryResult | None = None
    """None if no allocation failed for lack of memory."""


def memory_overview(
    capture: Capture,
    *,
    leaked: pl.Series | None = None,
    read: Recording | None = None,
    out_of_memory: OutOfMemoryResult | None = None,
) -> MemoryOverview:
    """Read a capture once and sum it up.

    Args:
        capture: The process concerned.
        leaked: `malloc_sequence` of blocks that leaked: they are not listed among those that were never freed.
        read: Its events about memory, among others, if they have been read: they are not read again.
        out_of_memory: The findings on its failed allocations; None where none failed.
    """
    counts = capture.kind_counts()
    recording = read if read is not None else recording_without_stacks(capture, _KINDS)
    kept = recording.blocks
    if leaked is not None:
        kept = kept.filter(~pl.col("malloc_sequence").is_in(leaked.implode()))
    return _overview(recording, counts, kept, capture.python_stack_frame, out_of_memory)


def recording_overview(recording: Recording, *, out_of_memory: OutOfMemoryResult | None = None) -> MemoryOverview:
    """Sum up a process that has been read; blocks that were never freed are left out.

    Args:
        recording: Any.
        out_of_memory: The findings on its failed allocations, if they were looked at.
    """

    def stacks(ids: pl.Series) -> pl.DataFrame:
        return recording.python_stacks.filter(pl.col("id").is_in(ids.unique().implode()))

    return _overview(recording, recording.kind_counts, recording.blocks.clear(), stacks, out_of_memory)


def _overview(
    recording: Recording,
    counts: Mapping[int, int],
    kept: pl.DataFrame,
    stacks: Callable[[pl.Series], pl.DataFrame],
    out_of_memory: OutOfMemoryResult | None,
) -> MemoryOverview:
    blocks, moments = recording.blocks, peaks_of_pools(recording)
    # Only stacks of blocks that will be shown are looked up: a capture has far more.
    shown = [part["python_stack_id"] for part in (*blocks_at_peaks(blocks, moments), _never_freed(kept))]
    lines, modules = source_lines(stacks(pl.concat(shown))), driver_modules(recording)
    return MemoryOverview(
        event_count=sum(counts.values()),
        events_by_kind=dict(counts),
        peaks=find_peaks(blocks, moments, lines, MOST_SHARES, modules),
        never_freed=find_never_freed(kept, lines, MOST_SHARES, modules),
        out_of_memory=out_of_memory,
    )


def _never_freed(blocks: pl.DataFrame) -> pl.DataFrame:
    return blocks.filter(pl.col("free_sequence").is_null())


def find_peaks(
    blocks: pl.DataFrame,
    moments: pl.DataFrame,
    source_lines: pl.DataFrame,
    limit: int,
    modules: pl.DataFrame | None = None,
) -> tuple[PoolPeak, ...]:
    """Describe the peak of each pool.

    Args:
        blocks: A table of `BLOCK_SCHEMA`.
        moments: The result of `peak_moments`.
        source_lines: Python stack id to the line to blame: `id` (u32), `text`; for the blocks concerned.
        limit: How many shares to list by name.
        modules: Attribute id of a block to its module of CANN: `id` (u32), `text`; None if no block has one.

    Returns:
        One peak per device and pool, in their order; pools that never held a byte are left out.
    """
    reached = moments.filter(pl.col("peak_bytes") > 0)
    by_pool = blocks.lazy().select(_OF_CURVES)
    at_peaks = zip(reached.iter_rows(), blocks_at_peaks(blocks, reached), strict=True)
    # A peak is reached by an allocation, so the newest block in use is that one.
    return tuple(
        PoolPeak(
            device,
            pool,
            peak_bytes,
            sequence,
            in_use["allocated_ns"][-1],
            describe_blocks(in_use, source_lines, limit, modules),
            memory_curve(by_pool.filter(pl.col("device") == device, pl.col("pool") == pool).collect(), CURVE_POINTS),
        )
        for (device, pool, peak_bytes, sequence), in_use in at_peaks
    )


def find_never_freed(
    blocks: pl.DataFrame, source_lines: pl.DataFrame, limit: int, modules: pl.DataFrame | None = None
) -> tuple[NeverFreed, ...]:
    """Describe the blocks of each pool that have no FREE; arguments as for `find_peaks`."""
    parts = _never_freed(blocks).partition_by("device", "pool", as_dict=True)
    return tuple(
        NeverFreed(device, pool, describe_blocks(part, source_lines, limit, modules))
        for (device, pool), part in sorted(parts.items())
    )


def blocks_at_peaks(blocks: pl.DataFrame, moments: pl.DataFrame) -> list[pl.DataFrame]:
    """Return the blocks of each pool that are in use at its moment, in the order of `peak_moments`."""
    return [
        blocks_in_use(blocks.filter(pl.col("device") == device, pl.col("pool") == pool), sequence)
        for device, pool, sequence in moments.select("device", "pool", "sequence").iter_rows()
    ]

"""The overview of one process that the exit summary shows."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.analysis.peak.out_of_memory import (
    OutOfMemoryOptions,
    OutOfMemoryResult,
    analyze_out_of_memory,
    stacks_of_failures,
)
from msmemscope.model.events import MEMORY_KINDS, EventKind
from msmemscope.recording import recording_without_stacks
from msmemscope.recording.driver_owners import driver_modules
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
    from collections.abc import Mapping

    from msmemscope.formats.event_log import Capture

DEFAULT_LIMIT: Final = 5
"""Shares that are listed by name."""
_KINDS: Final = (*MEMORY_KINDS, EventKind.OOM, EventKind.SNAPSHOT)
"""What is kept of a capture, so that the rest of a long one need not fit into memory."""


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


def memory_overview(capture: Capture, *, limit: int = DEFAULT_LIMIT) -> MemoryOverview:
    """Read a capture once and sum it up.

    Args:
        capture: The process concerned.
        limit: How many operators and source lines to list by name.
    """
    counts = capture.kind_counts()
    recording = recording_without_stacks(capture, _KINDS)
    blocks, options = recording.blocks, OutOfMemoryOptions(limit=limit)
    moments = peak_moments(blocks)
    # Only stacks of blocks that will be shown are looked up: a capture has far more.
    shown = [part["python_stack_id"] for part in (*blocks_at_peaks(blocks, moments), never_freed_blocks(blocks))]
    if EventKind.OOM in counts:
        shown.append(stacks_of_failures(recording, options))
    stacks = capture.python_stack_frame(pl.concat(shown))
    lines, modules = source_lines(stacks), driver_modules(recording.strings)
    recording = dataclasses.replace(recording, python_stacks=stacks)
    return MemoryOverview(
        event_count=capture.event_count(),
        events_by_kind=dict(counts),
        peaks=find_peaks(blocks, moments, lines, limit, modules),
        never_freed=find_never_freed(blocks, lines, limit, modules),
        out_of_memory=analyze_out_of_memory(recording, options) if EventKind.OOM in counts else None,
    )

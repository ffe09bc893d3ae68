"""Gaps in the reserve of a pool as the reason why an allocation failed: which kind, and which setting closes them.

That gaps add up to enough does not say that a setting closes them. So the allocations of the device are replayed with
several settings, and with the bytes that the driver had left. Only a setting that serves the request is a remedy. The
rest of the step must fit, too, as far as it is known.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.analysis.peak.candidates import Candidate
from msmemscope.analysis.peak.cause_words import Cause
from msmemscope.analysis.peak.figures import most_of
from msmemscope.analysis.replay.allocator_settings import read_settings
from msmemscope.analysis.replay.recorded_allocations import Action, allocating_devices, recorded_allocations
from msmemscope.analysis.replay.replay import replay
from msmemscope.recording.failed_allocations import failed_attempts, is_in_pieces

if TYPE_CHECKING:
    from msmemscope.analysis.fragmentation.fragmentation import Fragmentation
    from msmemscope.analysis.peak.comparison import FailingStep
    from msmemscope.analysis.peak.figures import MemoryFigures
    from msmemscope.analysis.replay.recorded_allocations import Allocations, Column

PINNING_SHARE: Final = 1 / 8
"""Of the segments with gaps: blocks that have less of them pin them, others split them."""
_LEAST_OF_RESERVE: Final = 1 / 6
"""Of the reserve: gaps that are a cause where nobody knows what the step would still have asked for. Any full device has
smaller ones, as blocks are rounded up to segments; with them closed the step gets a little further, and fails again.
"""
_SETTINGS: Final = ("expandable_segments:True", *(f"max_split_size_mb:{size}" for size in (21, 32, 64, 128, 256)))
"""Tried in this order."""


def gaps_candidate(step: FailingStep, figures: MemoryFigures, gaps: Fragmentation | None) -> Candidate | None:
    """Return the gaps as a candidate; None if they are no part of why the request was refused.

    Args:
        step: Of the failure.
        figures: Of the failure.
        gaps: In the reserve then; None for a host.
    """
    slack, request = figures.slack_bytes or 0, figures.request_bytes
    if gaps is None or slack <= 0 or (figures.free_bytes or 0) >= request:
        return None
    is_sum_enough = slack >= request if figures.missing_bytes is None else figures.is_room
    is_compared = step.comparison is not None and step.comparison.is_same_operator
    is_need_known = is_compared or step.bytes_to_come is not None
    if not is_need_known and slack < _LEAST_OF_RESERVE * (figures.reserved_bytes or 0):
        is_sum_enough = False
    cause, pinning_site = _kind(figures, gaps)
    setting = _setting_that_serves(step, figures) if is_sum_enough else "" if is_need_known else None
    return Candidate(
        cause, slack, pinning_site or step.site, is_enough=is_sum_enough and setting != "", setting=setting
    )


def returnable_candidate(step: FailingStep, figures: MemoryFigures, gaps: Fragmentation | None) -> Candidate | None:
    """Return the memory that the pool could have given back as a candidate, where somebody else asked the driver.

    A pool that is refused gives back what it can, and asks again. So a request that comes once, while the pool has
    segments without any block, is not the pool's. Nobody empties its cache for such a request. Arguments as for
    `gaps_candidate`.
    """
    is_pool = step.failure["attempts"] > 1 or figures.function.startswith("torch.")
    if gaps is None or is_pool or not figures.is_full:
        return None
    size = int(gaps.totals["returnable_bytes"].sum())
    is_enough = (figures.free_bytes or 0) + size >= figures.request_bytes
    return Candidate(Cause.RESERVED_BY_POOL, size, step.site, is_enough=True) if is_enough else None


def _kind(figures: MemoryFigures, gaps: Fragmentation) -> tuple[Cause, str]:
    """Return the kind of fragmentation, and the line that holds the gaps."""
    pinned = gaps.pinned()
    if pinned.is_empty():
        return Cause.SPLIT, ""
    largest = figures.largest_gap_bytes
    if largest is not None and largest >= figures.request_bytes:
        held = pinned.filter(pl.col("largest_gap_bytes") >= figures.request_bytes)
        return Cause.OTHER_STREAM, (held if len(held) else pinned)["pin_site"][0] or ""
    is_pinned = int(pinned["in_use_bytes"].sum()) < PINNING_SHARE * int(pinned["size"].sum())
    return (Cause.PINNED_SEGMENTS if is_pinned else Cause.SPLIT), most_of(pinned, "pin_site", "free_bytes")


def _setting_that_serves(step: FailingStep, figures: MemoryFigures) -> str | None:
    """Return the first setting with which the step would finish, empty for none; None if nothing can be replayed."""
    capacity, used, reserved = figures.capacity_bytes, figures.device_used_bytes, figures.reserved_bytes
    is_allocating = figures.device in allocating_devices(step.recording)
    if capacity is None or used is None or reserved is None or not is_allocating or is_in_pieces(figures.function):
        return None
    budget = capacity - used + reserved
    if figures.need_bytes > budget:
        return ""
    allocations = recorded_allocations(step.recording, figures.device)
    # Up to the first attempt, and then the request as one that the model tries.
    before = allocations.sequences < step.failure["first_attempt"]
    until = int(before.argmin()) if not before.all() else allocations.count
    stretches = [np.arange(until)]
    failed = failed_attempts(step.recording).filter(pl.col("device") == figures.device)["sequence"]
    earlier = failed.filter(failed < step.failure["first_attempt"]).max()
    if earlier is not None:
        # Another setting may not get as far as that one, where the device was just as full.
        stretches.append(_since(allocations, int(str(earlier)), until))
    # Whoever is served goes on: best is a setting with which the same request would be served once more.
    for times in (2, 1):
        if figures.in_use_bytes + times * figures.request_bytes > budget:
            continue
        ways = [_with_requests(allocations, places, figures.request_bytes, times) for places in stretches]
        for text in _SETTINGS:
            settings = dataclasses.replace(read_settings(text, allocations.kind), capacity_bytes=budget)
            if any(replay(tried, settings).failure is None for tried in ways):
                return text
    return ""


def _since(allocations: Allocations, sequence: int, until: int) -> Column:
    """Return the places of the allocations of blocks in use at an event, and of the events from there on.

    Args:
        allocations: Of the device.
        sequence: Of the event.
        until: The place of the first event that is left out.
    """
    places = np.arange(until)
    begin = int(np.searchsorted(allocations.sequences, sequence))
    actions, blocks = allocations.actions[:until], allocations.blocks[:until]
    is_freed = np.isin(actions, (Action.REQUEST_FREE, Action.COMPLETE_FREE)) & (places < begin)
    is_in_use = (actions == Action.ALLOCATE) & ~np.isin(blocks, blocks[is_freed])
    return np.flatnonzero((places >= begin) | is_in_use)


def _with_requests(allocations: Allocations, places: Column, request_bytes: int, times: int) -> Allocations:
    """Return some events of a recording, and behind them a request, so many times, that is kept."""
    until = len(places)
    columns: dict[str, Any] = {
        field.name: np.append(value[places], np.repeat(value[:1] if until else np.zeros(1, value.dtype), times))
        for field in dataclasses.fields(allocations)
        if getattr(value := getattr(allocations, field.name), "shape", None) == (allocations.count,)
    }
    block = int(allocations.blocks.max(initial=0)) + 1
    columns["blocks"][until:] = np.arange(block, block + times)
    same = {"actions": Action.ALLOCATE, "streams": 0, "pools": 0, "requested_bytes": request_bytes}
    for name, value in same.items():
        columns[name][until:] = value
    return dataclasses.replace(allocations, **columns, released=None, block_count=block + times)

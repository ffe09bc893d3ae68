"""Gaps in the reserve of a pool as the reason why an allocation failed: which kind, and which setting closes them.

That gaps add up to enough does not say that a setting closes them. So the allocations of the device are replayed with several
settings, and what the driver had left: only one with which the request is served is a remedy. The rest of the step must fit,
too, as far as it is known.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.analysis.peak.candidates import Candidate
from msmemscope.analysis.peak.cause_words import Cause
from msmemscope.analysis.replay.allocator_settings import read_settings
from msmemscope.analysis.replay.recorded_allocations import Action, allocating_devices, recorded_allocations
from msmemscope.analysis.replay.replay import replay
from msmemscope.recording.failed_allocations import failed_attempts, is_in_pieces

if TYPE_CHECKING:
    from msmemscope.analysis.fragmentation.fragmentation import Fragmentation
    from msmemscope.analysis.peak.figures import MemoryFigures
    from msmemscope.analysis.replay.recorded_allocations import Allocations
    from msmemscope.recording import Recording

PINNING_SHARE: Final = 1 / 8
"""Of the segments with gaps: blocks that have less of them pin them, others split them."""
_SETTINGS: Final = ("expandable_segments:True", *(f"max_split_size_mb:{size}" for size in (21, 32, 64, 128, 256)))
"""Tried in this order."""


def gaps_candidate(
    recording: Recording, sequence: int, figures: MemoryFigures, gaps: Fragmentation, site: str
) -> Candidate | None:
    """Return the gaps as a candidate; None if they are no part of why the request was refused.

    Args:
        recording: Of the process.
        sequence: The event of the failure.
        figures: Of the failure.
        gaps: In the reserve then.
        site: The call site of the request.
    """
    slack, request = figures.slack_bytes or 0, figures.request_bytes
    if slack <= 0 or (figures.free_bytes or 0) >= request:
        return None
    missing = figures.missing_bytes
    is_sum_enough = missing <= 0 if missing is not None else slack >= request
    cause, pinning_site = _kind(figures, gaps)
    setting = _setting_that_serves(recording, sequence, figures) if is_sum_enough else ""
    return Candidate(cause, slack, pinning_site or site, is_enough=is_sum_enough and setting != "", setting=setting)


def returnable_candidate(
    recording: Recording, sequence: int, figures: MemoryFigures, gaps: Fragmentation, site: str
) -> Candidate | None:
    """Return what the pool could have given back to the driver as a candidate, where somebody else asked the driver.

    A pool that is refused gives back what it can, and asks again: who asks once, and while the pool has segments without any
    block, is not the pool. Nobody empties its cache for such a request.

    Args:
        recording: Of the process.
        sequence: The event of the failure.
        figures: Of the failure.
        gaps: In the reserve then.
        site: The call site of the request.
    """
    size, free, request = int(gaps.totals["returnable_bytes"].sum()), figures.free_bytes, figures.request_bytes
    if free is None or not free < request <= free + size or figures.function.startswith("torch."):
        return None
    attempts = failed_attempts(recording)
    call = attempts.filter(pl.col("sequence") == sequence)["call"][0]
    if attempts.filter(pl.col("call") == call).height > 1:
        return None
    return Candidate(Cause.RESERVED_BY_POOL, size, site, is_enough=True)


def _kind(figures: MemoryFigures, gaps: Fragmentation) -> tuple[Cause, str]:
    """Returns which fragmentation it is, and the line that holds the gaps."""
    pinned = gaps.pinned()
    if pinned.is_empty():
        return Cause.SPLIT, ""
    largest = figures.largest_gap_bytes
    if largest is not None and largest >= figures.request_bytes:
        held = pinned.filter(pl.col("largest_gap_bytes") >= figures.request_bytes)
        return Cause.OTHER_STREAM, (held if len(held) else pinned)["pin_site"][0] or ""
    in_use, size = int(pinned["in_use_bytes"].sum()), int(pinned["size"].sum())
    is_pinned = in_use < PINNING_SHARE * size
    sums = pinned.drop_nulls("pin_site").group_by("pin_site").agg(pl.col("free_bytes").sum())
    ordered = sums.sort("free_bytes", "pin_site", descending=[True, False])["pin_site"]
    return (Cause.PINNED_SEGMENTS if is_pinned else Cause.SPLIT), str(ordered[0]) if len(ordered) else ""


def _setting_that_serves(recording: Recording, sequence: int, figures: MemoryFigures) -> str | None:
    """Returns the first setting with which the step would finish, empty for none; None if nothing can be replayed."""
    capacity, used, reserved = figures.capacity_bytes, figures.device_used_bytes, figures.reserved_bytes
    if (
        is_in_pieces(figures.function)
        or None in {capacity, used, reserved}
        or figures.device not in allocating_devices(recording)
    ):
        return None
    budget = (capacity or 0) - (used or 0) + (reserved or 0)
    if figures.need_bytes > budget:
        return ""
    allocations = recorded_allocations(recording, figures.device)
    # Up to the first attempt, and then the request as one that the model tries.
    before = allocations.sequences < _first_attempt(recording, sequence)
    until = int(before.argmin()) if not before.all() else allocations.count
    # Whoever is served goes on: best is a setting with which the same request would be served once more.
    for times in (2, 1):
        if figures.in_use_bytes + times * figures.request_bytes > budget:
            continue
        tried = _with_requests(allocations, until, figures.request_bytes, times)
        for text in _SETTINGS:
            settings = dataclasses.replace(read_settings(text, allocations.kind), capacity_bytes=budget)
            if replay(tried, settings).failure is None:
                return text
    return ""


def _with_requests(allocations: Allocations, until: int, request_bytes: int, times: int) -> Allocations:
    """Returns the first allocations of a recording, and behind them a request, so many times, that is kept."""
    columns: dict[str, Any] = {
        field.name: np.append(value[:until], np.repeat(value[:1] if until else np.zeros(1, value.dtype), times))
        for field in dataclasses.fields(allocations)
        if getattr(value := getattr(allocations, field.name), "shape", None) == (allocations.count,)
    }
    block = int(allocations.blocks.max(initial=0)) + 1
    columns["blocks"][until:] = np.arange(block, block + times)
    same = {"actions": Action.ALLOCATE, "streams": 0, "pools": 0, "requested_bytes": request_bytes}
    for name, value in same.items():
        columns[name][until:] = value
    return dataclasses.replace(allocations, **columns, released=None, block_count=block + times)


def _first_attempt(recording: Recording, sequence: int) -> int:
    """Returns the event of the first attempt at the allocation whose last one has a number."""
    attempts = failed_attempts(recording)
    call = attempts.filter(pl.col("sequence") == sequence)["call"][0]
    return int(attempts.filter(pl.col("call") == call)["sequence"].to_numpy().min())

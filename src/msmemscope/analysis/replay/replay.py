"""The caching allocator's treatment of a recording's allocations, under chosen settings."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from msmemscope import _native
from msmemscope.analysis.replay.recorded_allocations import Action, Allocations
from msmemscope.errors import InputError

if TYPE_CHECKING:
    from msmemscope.analysis.replay.allocator_settings import AllocatorSettings
    from msmemscope.analysis.replay.recorded_allocations import Column

_EMPTIED_BEFORE: Final = 1
_RELEASED_WITHIN: Final = 2


@dataclasses.dataclass(frozen=True)
class Failure:
    """An allocation for which there was no memory."""

    sequence: int
    """Number of the event in the recording."""
    limit: str
    """`driver`, or `fraction` where the allocator did not ask it."""
    requested_bytes: int
    block_bytes: int
    """The rounded size of the request."""
    segment_bytes: int
    """The bytes that would have been asked from the driver."""
    allocated_bytes: int
    reserved_bytes: int
    free_bytes: int
    """In segments that could not be given back."""
    largest_free_bytes: int
    """The largest free block of the pool and the stream."""
    fits_after_release: bool
    """Whether the pool had the room after its cached blocks were released, and was not searched again."""


@dataclasses.dataclass(frozen=True)
class Replay:
    """The result of the allocations of one device."""

    settings: AllocatorSettings
    event_count: int
    replayed_events: int
    """Fewer than there are if an allocation fails that the recording saw succeed."""
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    peak_reserved_sequence: int
    allocated_at_peak_bytes: int
    """In use when the reserve was largest."""
    most_segments: int
    retries: int
    """How often all cached blocks were released to go on."""
    failure: Failure | None
    """The first one; the replay goes on behind it only if the program did."""
    course: dict[str, Column] | None = None
    """By event, if it was asked for: address, segment, block_bytes, allocated_bytes, reserved_bytes, segment_count."""

    @property
    def fragmentation_bytes(self) -> int:
        """Reserved and not in use, when the reserve was largest."""
        return self.peak_reserved_bytes - self.allocated_at_peak_bytes


MOST_POOLS: Final = 1 << 20
"""Pairs of a stream and a pool."""


def replay(
    allocations: Allocations,
    settings: AllocatorSettings,
    *,
    as_recorded: bool = False,
    from_states: bool = False,
    with_course: bool = False,
) -> Replay:
    """Replay the allocations of a device.

    Args:
        allocations: Of the device.
        settings: Of the allocator.
        as_recorded: Whether new segments get their recorded addresses, and the driver has memory when it had some in the
            recording. It is for the settings of the recording alone.
        from_states: Whether the allocator begins with its state when its recording began, where that is known: for
            these settings, too. Otherwise, and under others, the blocks in use then are allocated at the begin. Implied
            by `as_recorded`.
        with_course: Whether to keep the state behind each event.

    Raises:
        InputError: There are more streams and private pools than any program has: each pair of them takes memory.
    """
    streams = max(allocations.stream_count, int(allocations.streams.max(initial=0)) + 1)
    pools = streams * max(allocations.pool_count, int(allocations.pools.max(initial=0)) + 1)
    if pools > MOST_POOLS:
        message = f"{pools} pools of streams are more than any program has (accepted: {MOST_POOLS})"
        raise InputError(message)
    follows = as_recorded and allocations.has_segments
    states = allocations.states if from_states or as_recorded else None
    leads = allocations.leads_to_state
    summary, course = _native.replay(
        allocations.actions,
        allocations.blocks,
        allocations.requested_bytes,
        allocations.streams,
        allocations.pools,
        settings.for_model(),
        allocations.released if follows else None,
        allocations.first_address if follows else None,
        allocations.segment_addresses if follows else None,
        None if states is None or leads is None else states.for_model(leads),
        allocations.block_count,
        allocations.stream_count,
        allocations.pool_count,
        with_course,
    )
    sequences = allocations.sequences
    found: dict[str, Any] | None = summary["failure"]
    failure = None
    if found is not None:
        failure = Failure(sequence=int(sequences[found.pop("event")]), **found)
    return Replay(
        settings=settings,
        event_count=allocations.count,
        replayed_events=summary["replayed_events"],
        peak_allocated_bytes=summary["peak_allocated_bytes"],
        peak_reserved_bytes=summary["peak_reserved_bytes"],
        peak_reserved_sequence=int(sequences[summary["peak_reserved_event"]]) if allocations.count else 0,
        allocated_at_peak_bytes=summary["allocated_at_peak_bytes"],
        most_segments=summary["most_segments"],
        retries=summary["retries"],
        failure=failure,
        course=course,
    )


def with_block_sizes(allocations: Allocations, recorded: Replay) -> Allocations:
    """Return the allocations with the sizes of blocks that were recorded without one.

    Args:
        allocations: Of a recording; of torch_npu, whose blocks are larger than their requests.
        recorded: Their replay as recorded, with its course.
    """
    course = recorded.course
    if course is None or allocations.has_block_sizes:
        return allocations
    found = np.zeros(allocations.count, np.int64)
    found[: len(course["block_bytes"])] = course["block_bytes"]
    is_request = (allocations.recorded_bytes == allocations.requested_bytes.astype(np.int64)) & (found > 0)
    return dataclasses.replace(allocations, recorded_bytes=np.where(is_request, found, allocations.recorded_bytes))


def with_emptied_caches(allocations: Allocations, recorded: Replay) -> Allocations:
    """Return the allocations with the program's releases of the cache, as events of their own.

    Segments that were given back right before an allocation have one of two reasons. The program emptied the cache, or
    the allocator released its cached blocks because the driver had nothing left. It was the program if the allocation
    did not need the driver. It was the program, too, if the driver had once given more than the allocation would have
    needed.

    Args:
        allocations: Of a recording with segments.
        recorded: Their replay as recorded, with its course.
    """
    course = recorded.course
    if course is None or not allocations.has_segments:
        return allocations
    replayed = recorded.replayed_events
    inferred = course["inferred"]
    before = np.concatenate([[0], course["reserved_bytes"][:-1]]).astype(np.int64)
    most = int(course["reserved_bytes"].max(initial=0))
    needed = np.maximum(course["block_bytes"].astype(np.int64), recorded.settings.large_segment_bytes)
    within = (inferred == _RELEASED_WITHIN) & (before + needed <= most)
    places = np.flatnonzero((inferred == _EMPTIED_BEFORE) | within)
    places = places[places < replayed]
    columns: dict[str, Any] = {}
    for field in dataclasses.fields(allocations):
        column = getattr(allocations, field.name)
        if not isinstance(column, np.ndarray) or field.name == "segment_addresses":
            continue
        keeps = field.name in {"sequences", "recorded_reserved", "first_address"}
        columns[field.name] = np.insert(column, places, column[places] if keeps else 0)
    here = places + np.arange(len(places))
    columns["actions"][here] = Action.EMPTY_CACHE
    columns["released"][here + 1] = 0
    return dataclasses.replace(allocations, **columns)

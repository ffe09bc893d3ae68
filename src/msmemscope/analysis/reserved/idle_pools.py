"""Memory that a caching allocator holds through whole steps and nobody uses: because of streams.

A block goes back to the stream that it was allocated for, and serves no other one. A block that another stream was said to use
(`record_stream`) serves nobody until that stream has got so far. How much a pool would hold without either is no sum: free
blocks merge and split. So the allocations are replayed, once with each free complete at once, and once with all blocks on one
stream as well.

Idle memory is judged by whole steps, and only where most of them show it. Memory that a step uses at any time is in
use. Nothing is replayed where all blocks are of one stream and no free waits.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.analysis.replay.advice import without_blocks
from msmemscope.analysis.replay.recorded_allocations import Action, allocating_devices, allocator_kind
from msmemscope.analysis.replay.replay import replay
from msmemscope.analysis.replay.replayed_recording import ReplayOptions, prepared
from msmemscope.analysis.reserved.idle_memory import Cause, IdleMemory, is_much
from msmemscope.model.pools import CACHING_POOLS
from msmemscope.recording.call_sites import STACK_COLUMNS, call_sites
from msmemscope.recording.step_bounds import WARM_UP_STEPS
from msmemscope.recording.timeline import blocks_in_use

if TYPE_CHECKING:
    from collections.abc import Iterator

    from msmemscope.analysis.replay.allocator_settings import AllocatorSettings
    from msmemscope.analysis.replay.recorded_allocations import Allocations, Column
    from msmemscope.recording import Recording

_LEAST_STEPS: Final = 3
_STRETCHES: Final = 10
"""Of a program without steps; the first is not judged."""
_LEAST_LIKENESS: Final = 0.9
"""The share of the allocator's reported reserve that the replay must have."""
_MOST_STREAMS: Final = 64
FIRST_STREAM: Final = 1
"""Of blocks that say nothing of their stream."""


@dataclasses.dataclass(frozen=True)
class _Windows:
    """Steps of a program, as numbers of its events."""

    begins: Column
    ends: Column

    def held(self, allocations: Allocations, course: dict[str, Column]) -> tuple[Column, Column]:
        """Return the bytes that were reserved all through each of them, and the most that was in use."""
        reserved, in_use = course["reserved_bytes"].astype(np.int64), course["allocated_bytes"].astype(np.int64)
        sequences = np.maximum.accumulate(allocations.sequences)
        # Blocks from before a step began are part of it.
        begins = np.maximum(np.searchsorted(sequences, self.begins) - 1, 0)
        ends = np.maximum(np.searchsorted(sequences, self.ends, side="right"), begins + 1)
        ranges = list(zip(begins.tolist(), ends.tolist(), strict=True))
        return (
            np.array([reserved[begin:end].min() for begin, end in ranges]),
            np.array([in_use[begin:end].max() for begin, end in ranges]),
        )


@dataclasses.dataclass(frozen=True)
class StreamedPool:
    """A caching allocator whose blocks are of several streams, or wait for others."""

    device: int
    pool: int
    blocks: pl.DataFrame
    waiting: pl.DataFrame
    """Those whose memory came back later than their free."""


def pools_with_streams(recording: Recording) -> list[StreamedPool]:
    """Return the caching allocators that can have idle memory because of streams.

    Args:
        recording: With MALLOC and FREE. The judgement needs the streams of blocks, and FREE_COMPLETED.
    """
    found = []
    for device in allocating_devices(recording):
        pool = int(CACHING_POOLS[allocator_kind(device)])
        blocks = recording.blocks.filter((pl.col("device") == device) & (pl.col("pool") == pool))
        waiting = blocks.filter(pl.col("returned_sequence") > pl.col("free_sequence"))
        if blocks["stream_id"].fill_null(FIRST_STREAM).n_unique() > 1 or len(waiting):
            found.append(StreamedPool(device, pool, blocks, waiting))
    return found


def find_idle(recording: Recording, pool: StreamedPool) -> Iterator[IdleMemory]:
    """Find the memory that a caching allocator holds through most steps because of streams: at most one for each cause.

    Args:
        recording: Of the process.
        pool: One of `pools_with_streams`.
    """
    yield from _Pool(recording, pool).idle()


class _Pool:
    """The replays of one pool.

    Args:
        recording: Of the process.
        pool: One of `pools_with_streams`.
    """

    def __init__(self, recording: Recording, pool: StreamedPool) -> None:
        self._recording = recording
        self._device, self._pool, self._blocks, self._waiting = pool.device, pool.pool, pool.blocks, pool.waiting
        self._allocations, self._settings, _, _ = prepared(recording, pool.device, ReplayOptions())

    def idle(self) -> Iterator[IdleMemory]:
        allocations = self._allocations
        windows = _windows(self._recording, allocations)
        recorded = course_of(allocations, self._settings)
        if windows is None or recorded is None or not is_like_recorded(allocations, recorded):
            return
        reserved, in_use = windows.held(allocations, recorded)
        if np.mean([is_much(*pair) for pair in zip(reserved - in_use, reserved, strict=True)]) <= 1 / 2:
            return
        at_once = _completed_at_once(allocations)
        together = dataclasses.replace(at_once, streams=np.zeros_like(at_once.streams))
        held = [reserved]
        for variant in (at_once, together):
            course = course_of(variant, self._settings)
            if course is None:
                return
            held.append(windows.held(variant, course)[0])
        totals = int(np.median(reserved)), int(np.median(in_use))
        for cause, saved in ((Cause.WAITING, held[0] - held[1]), (Cause.STREAM, held[1] - held[2])):
            size = int(np.median(saved))
            if not is_much(size, totals[0]):
                continue
            stream = None
            sites = self._waiting_sites() if cause is Cause.WAITING else pl.DataFrame()
            if cause is Cause.STREAM:
                size, stream, sites = self._worst_stream(at_once, windows, size)
                if not is_much(size, totals[0]):
                    continue
            is_cache = self._is_given_back(windows, size)
            yield IdleMemory(self._device, self._pool, cause, size, *totals, sites, stream, is_cache)

    def _worst_stream(self, allocations: Allocations, windows: _Windows, most: int) -> tuple[int, int, pl.DataFrame]:
        """Return the memory of one stream that no step uses, that stream, and the lines that made it so large.

        It is the stream with most such memory.
        """
        stream_of = self._blocks.select("malloc_sequence", stream=pl.col("stream_id").fill_null(FIRST_STREAM))
        found = []
        for stream in stream_of["stream"].unique().sort().head(_MOST_STREAMS):
            others = stream_of.filter(pl.col("stream") != stream)["malloc_sequence"].to_numpy()
            alone, _ = without_blocks(allocations, others)
            course = course_of(alone, self._settings)
            if course is not None:
                reserved, in_use = windows.held(alone, course)
                peak = int(alone.sequences[course["allocated_bytes"].argmax()])
                found.append((float(np.median(reserved - in_use)), -stream, peak))
        idle, number, peak = max(found)
        of_stream = self._blocks.filter(pl.col("stream_id").fill_null(FIRST_STREAM) == -number)
        return min(most, int(idle)), -number, size_by_site(self._recording, blocks_in_use(of_stream, peak))

    def _is_given_back(self, windows: _Windows, size: int) -> bool:
        """Whether emptying the cache once, before the steps that are judged, does away with it."""
        allocations = self._allocations
        place = int(np.searchsorted(np.maximum.accumulate(allocations.sequences), windows.begins[0]))
        columns = {
            name: np.insert(column, place, column[place - 1] if name in _PLACED and place else 0)
            for name, column in _columns(allocations).items()
        }
        columns["actions"][place] = Action.EMPTY_CACHE
        emptied = dataclasses.replace(allocations, **{**columns, **_UNTOLD})
        before, after = course_of(allocations, self._settings), course_of(emptied, self._settings)
        if before is None or after is None:
            return False
        gained = windows.held(allocations, before)[0] - windows.held(emptied, after)[0]
        return bool(np.median(gained) >= size / 2)

    def _waiting_sites(self) -> pl.DataFrame:
        """Return the lines whose blocks waited when most did."""
        waits = self._waiting.with_columns(malloc_sequence="free_sequence", free_sequence="returned_sequence")
        changes = pl.concat(
            [
                waits.select(sequence="malloc_sequence", change="size"),
                waits.select(sequence="free_sequence", change=-pl.col("size")),
            ]
        ).sort("sequence")
        most = changes.with_columns(total=pl.col("change").cum_sum())["total"].arg_max() or 0
        return size_by_site(self._recording, blocks_in_use(waits, int(changes["sequence"][most])))


def size_by_site(recording: Recording, blocks: pl.DataFrame) -> pl.DataFrame:
    """Return the lines that allocated some blocks, the largest first: `site`, `size_bytes`, `block_count`.

    Args:
        recording: Where stacks are looked up.
        blocks: Rows of its blocks.
    """
    sites = call_sites(recording, blocks).select(*STACK_COLUMNS, "site")
    return (
        blocks.join(sites, on=STACK_COLUMNS, how="left")
        .group_by("site")
        .agg(size_bytes=pl.col("size").sum(), block_count=pl.len())
        .sort("size_bytes", "site", descending=[True, False])
    )


def _windows(recording: Recording, allocations: Allocations) -> _Windows | None:
    """Return the steps behind the warm-up; of a program without them equal stretches behind the first."""
    steps = recording.steps.drop_nulls("end_sequence").filter(pl.col("number") > WARM_UP_STEPS)
    if len(steps) >= _LEAST_STEPS:
        return _Windows(steps["begin_sequence"].to_numpy(), steps["end_sequence"].to_numpy())
    if allocations.count < _STRETCHES:
        return None
    sequences = np.maximum.accumulate(allocations.sequences)
    edges = sequences[np.linspace(0, allocations.count - 1, _STRETCHES + 1).astype(np.int64)[1:]]
    return _Windows(edges[:-1], edges[1:])


def course_of(allocations: Allocations, settings: AllocatorSettings) -> dict[str, Column] | None:
    """Replay allocations, and return the state behind each event: a column per figure; None if memory ran out."""
    replayed = replay(allocations, settings, with_course=True)
    return replayed.course if replayed.replayed_events == allocations.count else None


def is_like_recorded(allocations: Allocations, course: dict[str, Column]) -> bool:
    """Whether a replay, by its `course_of`, has the reserve that the allocator reported: otherwise it means nothing."""
    said = int(allocations.recorded_reserved.max(initial=-1))
    replayed = int(course["reserved_bytes"].max(initial=0))
    return said < 0 or _LEAST_LIKENESS * said <= replayed <= said / _LEAST_LIKENESS


def _completed_at_once(allocations: Allocations) -> Allocations:
    """Return the allocations with each free complete right behind it; events stay in their places."""
    is_free = allocations.actions == Action.REQUEST_FREE
    is_completion = allocations.actions == Action.COMPLETE_FREE
    place = np.arange(allocations.count, dtype=np.float64)
    freed_at = np.zeros(int(allocations.blocks.max(initial=0)) + 1)
    freed_at[allocations.blocks[is_free]] = place[is_free]
    of_block = freed_at[allocations.blocks[is_completion]]
    place[is_completion] = np.where(of_block > 0, of_block + 1 / 2, place[is_completion])
    order = np.argsort(place, kind="stable")
    moved = {
        name: column if name in _PLACED else np.ascontiguousarray(column[order])
        for name, column in _columns(allocations).items()
    }
    return dataclasses.replace(allocations, **{**moved, **_UNTOLD})


def _columns(allocations: Allocations) -> dict[str, Any]:
    """Return the columns that have a row for each event."""
    columns = {field.name: getattr(allocations, field.name) for field in dataclasses.fields(allocations)}
    return {name: column for name, column in columns.items() if getattr(column, "shape", None) == (allocations.count,)}


_PLACED: Final = ("sequences", "recorded_reserved")
"""Columns that say when an event was."""
_UNTOLD: Final[dict[str, Any]] = {"released": None, "first_address": None, "segment_addresses": None, "states": None}
"""Columns that are known only of allocations as they were recorded."""

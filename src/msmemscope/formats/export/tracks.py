"""The tracks that viewers of traces show of a recording: counters of bytes in use, slices and instants, as columns.

Both trace formats are made of these tracks, so that they show the same numbers.
"""

from __future__ import annotations

import dataclasses
import heapq
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import polars as pl

from msmemscope.analysis.owners.decomposition import owned_blocks
from msmemscope.model.devices import DEVICE_NONE, device_name
from msmemscope.model.events import EventKind
from msmemscope.model.pools import pool_word
from msmemscope.recording.recording import STEP_RANGE_NAME
from msmemscope.recording.timeline import byte_changes, memory_timeline, running_total

if TYPE_CHECKING:
    from msmemscope.recording import Recording

Nanoseconds: TypeAlias = "np.ndarray[Any, np.dtype[np.uint64]]"

_POOL: Final = ["device", "pool"]
_OWNER: Final = [*_POOL, "owner"]
_TOTALS: Final = {
    "in_use_bytes": "in use",
    "requested_bytes": "requested",
    "waiting_bytes": "waiting for other streams",
    "reserved_bytes": "reserved",
}
"""Columns of `Recording.timeline`, and what counters call them."""
_NS_PER_EVENT: Final = 1000
"""Between two events of a recording without times."""
NO_TIMES: Final = "the recording has no times: from each event to the next, one microsecond was put"

COUNTER_TRACK_SCHEMA: Final = pl.Schema(
    {"track": pl.UInt32(), "device": pl.Int16(), "pool": pl.UInt8(), "owner": pl.String(), "name": pl.String()}
)
"""One row per counter: its number from 0 on, whose bytes it counts, and what it is called.

owner: null of the totals of a pool.
"""
SLICE_TRACK_SCHEMA: Final = pl.Schema({"track": pl.UInt32(), "thread_id": pl.UInt32(), "name": pl.String()})
"""One row per row of slices: its number from 0 on; `thread_id` is null where it is of no one thread."""


@dataclasses.dataclass(frozen=True)
class Tracks:
    """A recording as viewers of traces show one. Times are nanoseconds of `clock`."""

    counters: pl.DataFrame
    """COUNTER_TRACK_SCHEMA."""
    counts: pl.DataFrame
    """`track` of `counters`, `time_ns`, `value` (bytes, i64): in the order of events, at each change."""
    slice_tracks: pl.DataFrame
    """SLICE_TRACK_SCHEMA."""
    slices: pl.DataFrame
    """`track` of `slice_tracks`, `begin_ns`, `end_ns`, `name`: those of one track do not overlap, and stand in order."""
    instants: pl.DataFrame
    """`track` of `slice_tracks`, `time_ns`, `name`."""
    has_times: bool
    """False where the recording has no times: then there is one microsecond from each event to the next."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on parts of the trace that are not as they seem, one line each."""
        return () if self.has_times else (NO_TIMES,)


@dataclasses.dataclass(frozen=True)
class Clock:
    """When events happened, never going back: threads may read their clocks in another order than they draw numbers.

    A trace is shown in the order of its times, so that a counter's values would be swapped otherwise.
    """

    sequences: Nanoseconds
    times_ns: Nanoseconds
    has_times: bool

    @classmethod
    def of(cls, recording: Recording) -> Clock:
        """Make the clock of a recording."""
        sequences = recording.events["sequence"].to_numpy()
        times = np.maximum.accumulate(recording.events["timestamp_ns"].to_numpy())
        if len(times) > 1 and times[0] == times[-1]:
            return cls(sequences, np.arange(len(times), dtype=np.uint64) * _NS_PER_EVENT, has_times=False)
        return cls(sequences, times, has_times=True)

    def at(self, sequences: pl.Series) -> pl.Series:
        """Return the time of each event; of a number that no event has, that of the next, or of the last one."""
        if not len(self.times_ns):
            return pl.Series(np.zeros(len(sequences), np.uint64))
        rows = np.searchsorted(self.sequences, sequences.to_numpy())
        return pl.Series(self.times_ns[np.minimum(rows, len(self.times_ns) - 1)])

    @property
    def end(self) -> int:
        """The number of the last event."""
        return int(self.sequences[-1]) if len(self.sequences) else 0


def pool_name(device: int, pool: int) -> str:
    """Return how a pool of a device is called: `npu:0 PTA`."""
    return f"{device_name(device)} {pool_word(pool, device)}"


def tracks_of(recording: Recording) -> Tracks:
    """Return counters of the bytes in use of each pool and each owner, operators, steps, ranges and marks."""
    clock = Clock.of(recording)
    totals = _pool_totals(recording)
    owners = _owner_totals(recording)
    counters = (
        pl.concat([totals.select(*_OWNER, "what").unique(), owners.select(*_OWNER, "what").unique()])
        .sort(*_POOL, "owner", "what", nulls_last=False)
        .with_row_index("track")
    )
    keys = [*_OWNER, "what"]
    counts = (
        pl.concat([totals, owners])
        .join(counters, on=keys, nulls_equal=True, how="left", maintain_order="left")
        .sort("sequence", maintain_order=True)
    )
    slice_tracks, slices, instants = _slices(recording, clock)
    names = [_counter_name(*row) for row in counters.select(keys).iter_rows()]
    return Tracks(
        counters=counters.with_columns(name=pl.Series(names, dtype=pl.String))
        .select(COUNTER_TRACK_SCHEMA.names())
        .cast(COUNTER_TRACK_SCHEMA),
        counts=counts.select("track", time_ns=clock.at(counts["sequence"]), value="value"),
        slice_tracks=slice_tracks,
        slices=slices,
        instants=instants,
        has_times=clock.has_times,
    )


def _counter_name(device: int, pool: int, owner: str | None, what: str) -> str:
    return f"{pool_name(device, pool)} {what}" if owner is None else f"{device_name(device)} {owner}"


def _pool_totals(recording: Recording) -> pl.DataFrame:
    timeline = memory_timeline(recording).lazy()
    parts = []
    for column, what in _TOTALS.items():
        value = pl.col(column)
        is_change = value.is_not_null() & value.ne_missing(value.shift(1).over(_POOL))
        parts.append(
            timeline.filter(is_change).select(
                *_POOL,
                pl.lit(None, dtype=pl.String).alias("owner"),
                pl.lit(what).alias("what"),
                "sequence",
                value.alias("value"),
            )
        )
    return pl.concat(parts).collect()


def _owner_totals(recording: Recording) -> pl.DataFrame:
    blocks, _ = owned_blocks(recording)
    return byte_changes(blocks, *_OWNER).select(
        *_OWNER,
        pl.lit("in use").alias("what"),
        "sequence",
        running_total(pl.col("change"), *_OWNER).alias("value"),
    )


def _slices(recording: Recording, clock: Clock) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    operators = recording.operators.select(
        thread_id=pl.col("thread_id").cast(pl.UInt32),
        lane=pl.lit(None, dtype=pl.String),
        begin="begin_sequence",
        end=pl.col("end_sequence").fill_null(clock.end),
        name=pl.col("name").fill_null("?"),
    )
    marks = _instants(recording)
    parts = [operators, step_slices(recording, clock), range_slices(recording, clock)]
    slices = pl.concat([part.cast(operators.schema) for part in parts])
    key = ["thread_id", "lane"]
    tracks = (
        pl.concat([slices.select(key), marks.select("thread_id", lane=pl.lit(None, dtype=pl.String))])
        .unique()
        .sort(key, nulls_last=False)
        .with_row_index("track")
        .with_columns(pl.coalesce("lane", pl.format("thread {}", "thread_id")).alias("name"))
    )
    slices = slices.join(tracks.drop("name"), on=key, nulls_equal=True, how="left", maintain_order="left")
    slices = slices.sort("track", "begin", maintain_order=True)
    threads = tracks.filter(pl.col("lane").is_null()).select("thread_id", "track")
    marks = marks.join(threads, on="thread_id", how="left", maintain_order="left")
    return (
        tracks.select(SLICE_TRACK_SCHEMA.names()).cast(SLICE_TRACK_SCHEMA),
        slices.select("track", begin_ns=clock.at(slices["begin"]), end_ns=clock.at(slices["end"]), name="name"),
        marks.select("track", time_ns=clock.at(marks["sequence"]), name="name"),
    )


def step_slices(recording: Recording, clock: Clock) -> pl.DataFrame:
    """Return the steps, as `in_lanes` does."""
    steps = recording.steps.select(
        what=pl.when(pl.col("device") == DEVICE_NONE)
        .then(pl.lit("steps"))
        .otherwise(pl.lit("steps of ") + _device_words(recording.steps["device"])),
        begin="begin_sequence",
        end=pl.col("end_sequence").fill_null(clock.end),
        name=pl.format("step {}", "number"),
    )
    return in_lanes(steps)


def range_slices(recording: Recording, clock: Clock) -> pl.DataFrame:
    """Return the ranges that the program marked, other than its steps, as `in_lanes` does."""
    marked = recording.events.filter(pl.col("kind").is_in([int(EventKind.RANGE_START), int(EventKind.RANGE_END)]))
    is_begin = pl.col("kind") == EventKind.RANGE_START
    begins = marked.filter(is_begin).select("sequence", "extra", "name_id", "device")
    ends = marked.filter(~is_begin).select("extra", "sequence", end="sequence")
    ranges = begins.join_asof(ends, on="sequence", by="extra", strategy="forward", check_sortedness=False)
    names = recording.strings.select(name_id="id", name="text")
    ranges = ranges.join(names, on="name_id", how="left", maintain_order="left").filter(
        pl.col("name").fill_null("").str.strip_chars('"') != STEP_RANGE_NAME
    )
    return in_lanes(
        ranges.select(
            pl.lit("ranges").alias("what"), begin="sequence", end=pl.col("end").fill_null(clock.end), name=_named()
        )
    )


def in_lanes(slices: pl.DataFrame) -> pl.DataFrame:
    """Spread slices that overlap over several tracks: within one, a viewer takes them for calls of each other.

    Args:
        slices: Columns `what` (their kind), `begin` and `end` (numbers of events), `name`.

    Returns:
        `thread_id` (null), `lane` (the name of the track), `begin`, `end`, `name`.
    """
    lanes: list[str] = []
    free: dict[str, list[int]] = {}
    busy: dict[str, list[tuple[int, int]]] = {}
    slices = slices.sort("begin", maintain_order=True)
    for what, begin, end in slices.select("what", "begin", "end").iter_rows():
        running, unused = busy.setdefault(what, []), free.setdefault(what, [])
        while running and running[0][0] <= begin:
            heapq.heappush(unused, heapq.heappop(running)[1])
        lane = heapq.heappop(unused) if unused else len(running)
        heapq.heappush(running, (max(end, begin), lane))
        lanes.append(what if lane == 0 else f"{what} ({lane + 1})")
    return slices.select(
        pl.lit(None, dtype=pl.UInt32).alias("thread_id"),
        pl.Series("lane", lanes, dtype=pl.String),
        "begin",
        "end",
        "name",
    )


def _instants(recording: Recording) -> pl.DataFrame:
    """Return marks and failed allocations: `thread_id`, `sequence`, `name`."""
    kinds = [int(EventKind.MARK), int(EventKind.OOM)]
    names = recording.strings.select(name_id="id", name="text")
    found = recording.events.filter(pl.col("kind").is_in(kinds)).join(
        names, on="name_id", how="left", maintain_order="left"
    )
    failed = pl.format("out of memory: {} bytes", "size")
    return found.select(
        "thread_id", "sequence", name=pl.when(pl.col("kind") == EventKind.OOM).then(failed).otherwise(_named())
    )


def _named() -> pl.Expr:
    return pl.col("name").fill_null("?").str.strip_chars('"')


def _device_words(devices: pl.Series) -> pl.Series:
    words = {device: device_name(device) for device in devices.unique()}
    return pl.Series([words[device] for device in devices], dtype=pl.String)

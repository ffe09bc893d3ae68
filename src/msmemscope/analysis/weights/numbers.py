"""The numbers of a process at a glance: events, steps, and how the blocks of each pool are spread."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from msmemscope.analysis.coverage import Coverage, Subject, coverage_of
from msmemscope.analysis.recorded import Need
from msmemscope.analysis.weights.measures import NS_PER_SECOND, POOL_KEY
from msmemscope.analysis.weights.ranked_sites import RankedBy, site_weights
from msmemscope.model.events import EventKind
from msmemscope.recording.timeline import peaks_of_pools

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msmemscope.model.place import Place
    from msmemscope.recording import Recording

SUBJECT: Final = Subject(
    "Numbers", helpful=(Need.ALLOCATIONS, Need.FREES, Need.OPERATORS, Need.ACCESSES, Need.KERNELS, Need.STACKS)
)
MOST_SIZES: Final = 5
"""Sizes of a pool that are listed as the most frequent ones."""

_LARGEST: Final = (1 << 63) - 1
_SIZES_FROM: Final = np.array([0, *(1 << power for power in range(63))], dtype=np.int64)
_LIFETIMES_FROM: Final = np.array([0, *(10**power for power in range(3, 19))], dtype=np.int64)

POOL_NUMBER_SCHEMA: Final = pl.Schema(
    {
        "device": pl.Int16(),
        "pool": pl.UInt8(),
        "allocations": pl.Int64(),
        "frees": pl.Int64(),
        "allocated_bytes": pl.Int64(),
        "peak_bytes": pl.Int64(),
        "end_bytes": pl.Int64(),
        "allocations_per_second": pl.Float64(),
        "call_sites": pl.Int64(),
        "operators": pl.Int64(),
    }
)
"""One row per pool, in the order of devices and pools.

end_bytes: of the blocks that were never freed. allocations_per_second: null where no time passed.
operators: different ones that allocated there.
"""

SIZE_BIN_SCHEMA: Final = pl.Schema(
    {
        "device": pl.Int16(),
        "pool": pl.UInt8(),
        "from_bytes": pl.Int64(),
        "block_count": pl.Int64(),
        "size_bytes": pl.Int64(),
    }
)
"""One row per pool and power of two that a block has: those of `from_bytes` up to twice that; 0: blocks of no bytes."""

LIFETIME_BIN_SCHEMA: Final = pl.Schema(
    {
        "device": pl.Int16(),
        "pool": pl.UInt8(),
        "from_ns": pl.Int64(),
        "block_count": pl.Int64(),
        "size_bytes": pl.Int64(),
    }
)
"""One row per pool and power of ten: blocks in use for `from_ns` up to ten times that. The first row is below 1 us;
null: those that were never freed.
"""

SIZE_SCHEMA: Final = pl.Schema(
    {
        "device": pl.Int16(),
        "pool": pl.UInt8(),
        "block_bytes": pl.Int64(),
        "block_count": pl.Int64(),
        "size_bytes": pl.Int64(),
    }
)
"""One row per pool and each of its most frequent sizes, the most frequent first."""


@dataclasses.dataclass(frozen=True)
class ProcessNumbers:
    """The counts of one process."""

    process_id: int
    place: Place
    """In a distributed job; empty if it is in none."""
    program: str
    """Its command line, for people."""
    form: str
    event_count: int
    events_by_kind: Mapping[str, int]
    """By the name of the `EventKind`, in their order."""
    begin_ns: int | None
    """CLOCK_REALTIME of the first event; None without any."""
    duration_ns: int
    """From the first event to the last."""
    step_count: int
    step_source: str
    """Where steps are taken from, for people."""
    pools: pl.DataFrame
    """POOL_NUMBER_SCHEMA."""
    block_sizes: pl.DataFrame
    """SIZE_BIN_SCHEMA, ascending."""
    lifetimes: pl.DataFrame
    """LIFETIME_BIN_SCHEMA, ascending, blocks that were never freed last."""
    frequent_sizes: pl.DataFrame
    """SIZE_SCHEMA."""
    coverage: Coverage


def count_process(recording: Recording, program: str) -> ProcessNumbers:
    """Count the events and blocks of a process.

    Args:
        recording: Any.
        program: Its command line, for people.
    """
    times = recording.events["timestamp_ns"].to_numpy()
    begin_ns = int(times.min()) if len(times) else None
    duration_ns = int(times.max()) - begin_ns if begin_ns is not None else 0
    blocks = _binned(recording.blocks)
    sizes = _sums(blocks, "from_bytes").sort(*POOL_KEY, "from_bytes")
    lifetimes = _sums(blocks, "from_ns").sort(*POOL_KEY, "from_ns", nulls_last=True)
    frequent = _frequent(_sums(blocks, "block_bytes"))
    kinds = recording.events["kind"].value_counts().sort("kind")
    return ProcessNumbers(
        process_id=recording.process_id,
        place=recording.place,
        program=program,
        form=recording.form,
        event_count=recording.events.height,
        events_by_kind={_kind_name(kind): count for kind, count in kinds.iter_rows()},
        begin_ns=begin_ns,
        duration_ns=duration_ns,
        step_count=recording.steps.height,
        step_source=recording.step_source.value,
        pools=_pools(recording, duration_ns),
        block_sizes=sizes.select(SIZE_BIN_SCHEMA.names()).cast(SIZE_BIN_SCHEMA),
        lifetimes=lifetimes.select(LIFETIME_BIN_SCHEMA.names()).cast(LIFETIME_BIN_SCHEMA),
        frequent_sizes=frequent.select(SIZE_SCHEMA.names()).cast(SIZE_SCHEMA),
        coverage=coverage_of(SUBJECT, recording),
    )


def _frequent(sizes: pl.DataFrame) -> pl.DataFrame:
    """The most frequent sizes of each pool; a long run has millions of sizes, which are not sorted for that."""
    order = ["block_count", "block_bytes"]
    parts = [
        part.top_k(MOST_SIZES, by=order).sort(order, descending=True)
        for part in sizes.partition_by(POOL_KEY, maintain_order=True)
    ]
    return pl.concat([sizes.clear(), *parts]).sort(POOL_KEY, maintain_order=True)


def _kind_name(kind: int) -> str:
    try:
        return EventKind(kind).name.lower()
    except ValueError:  # of a later version, or damaged
        return f"kind_{kind}"


def _pools(recording: Recording, duration_ns: int) -> pl.DataFrame:
    sites = (
        site_weights(recording, RankedBy.ALLOCATED)
        .group_by(POOL_KEY)
        .agg(call_sites=pl.col("site_path").n_unique(), operators=pl.col("operator").drop_nulls().n_unique())
    )
    is_alive = pl.col("free_sequence").is_null()
    sums = recording.blocks.group_by(POOL_KEY).agg(
        allocations=pl.len(),
        frees=(~is_alive).sum(),
        allocated_bytes=pl.col("size").sum(),
        end_bytes=pl.col("size").filter(is_alive).sum(),
    )
    per_second = (
        pl.col("allocations") / (duration_ns / NS_PER_SECOND) if duration_ns else pl.lit(None, dtype=pl.Float64)
    )
    return (
        sums.join(peaks_of_pools(recording), on=POOL_KEY, how="left")
        .join(sites, on=POOL_KEY, how="left")
        .with_columns(allocations_per_second=per_second)
        .sort(POOL_KEY)
        .select(POOL_NUMBER_SCHEMA.names())
        .cast(POOL_NUMBER_SCHEMA)
    )


def _binned(blocks: pl.DataFrame) -> pl.DataFrame:
    """Add the bin of each block by size and by lifetime, and its size as a key."""
    lasted = pl.col("freed_ns").cast(pl.Int128) - pl.col("allocated_ns").cast(pl.Int128)
    chosen = blocks.select(
        *POOL_KEY,
        "size",
        is_alive=pl.col("free_sequence").is_null(),
        lasted_ns=lasted.fill_null(0).clip(0, _LARGEST).cast(pl.Int64),
        block_bytes="size",
    )
    return chosen.with_columns(
        from_bytes=_lower_bounds(chosen["size"], _SIZES_FROM),
        from_ns=_lower_bounds(chosen["lasted_ns"], _LIFETIMES_FROM),
    ).with_columns(from_ns=pl.when(~pl.col("is_alive")).then("from_ns"))


def _lower_bounds(values: pl.Series, bounds: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pl.Series:
    """The largest bound that is not above each value; the first one where there is none."""
    places = np.searchsorted(bounds, values.to_numpy(), side="right") - 1
    return pl.Series(bounds[np.maximum(places, 0)])


def _sums(blocks: pl.DataFrame, key: str) -> pl.DataFrame:
    return blocks.group_by(*POOL_KEY, key).agg(block_count=pl.len(), size_bytes=pl.col("size").sum())

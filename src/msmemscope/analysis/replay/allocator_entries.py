"""The reports of a caching allocator about itself while it was observed, in the form of a snapshot's history.

The entries have requested sizes, streams, private pools and segments, in the order of the allocator's lock. The MALLOC
of a block has its size. Collection can begin, or begin again, while the allocator has memory already. Then the log has
the state of the allocator as well: rows with the flag of shadows, written a moment later, and a fact. The fact has the
least number of the first event behind that state, and its number of rows.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.analysis.replay.allocator_states import (
    ALLOC,
    ENTRY_SCHEMA,
    GROWTH,
    OWN,
    AllocatorStates,
    with_attributes,
)
from msmemscope.model.devices import DeviceKind, device_number
from msmemscope.model.events import ALLOCATOR_KINDS, EventFlag, EventKind
from msmemscope.model.pools import Pool

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from msmemscope.recording import Recording

SETTINGS_FACT: Final = "allocator.settings"
STREAMS_FACT: Final = "allocator.streams"
"""Streams of blocks are known, and FREE_COMPLETED where a free waited for them."""
STATE_FACT: Final = "allocator.state"
"""`0/17/23`: of device 0, before event 17, 23 rows."""
LEFT_OUT_FACT: Final = "allocator.left_out"
"""`0/17`: of device 0, from event 17 on, as nobody knew the state of the allocator."""
_BLOCK_KINDS: Final = {
    EventKind.ALLOCATOR_ALLOC: EventKind.MALLOC,
    EventKind.ALLOCATOR_FREE: EventKind.FREE,
    EventKind.ALLOCATOR_FREE_COMPLETED: EventKind.FREE_COMPLETED,
    EventKind.ALLOCATOR_OOM: EventKind.OOM,
}
_RELEASE: Final = (int(EventKind.SEGMENT_FREE), int(EventKind.SEGMENT_UNMAP))
_MOST_ADDRESS: Final = 1 << 62
"""Addresses of a process have at most 57 bits."""


@dataclasses.dataclass(frozen=True)
class AllocatorEntries:
    """The reports of a caching allocator about itself."""

    rows: pl.DataFrame
    """Rows of blocks, segments and the reserve. Those of a state are SNAPSHOT, with its number in `extra`."""
    parts: pl.DataFrame
    """The memory of the allocator at each state, of PART_SCHEMA: by segment and address."""
    has_block_sizes: bool
    """Whether all blocks have their size; otherwise some that only the allocator reports have the requested size."""


def allocator_entries(recording: Recording, device: int, pool: int) -> AllocatorEntries | None:
    """Return the entries of the allocator of a device.

    Args:
        recording: Any.
        device: The device.
        pool: The pool of its allocator.

    Returns:
        None if there are none, or if they do not tell all. They may have gaps, or begin neither with the allocator nor
        with a state of it.
    """
    facts = recording.facts
    if "observed.allocator" not in facts or "unobserved.allocator" in facts:
        return None
    of_pool = recording.events.filter((pl.col("device") == device) & (pl.col("pool") == pool))
    told = of_pool.filter(pl.col("kind").is_in([int(kind) for kind in ALLOCATOR_KINDS])).filter(
        pl.col("kind") != int(EventKind.ALLOCATOR_SETTING)
    )
    blocks = of_pool.filter(pl.col("kind").is_in([int(EventKind.MALLOC), int(EventKind.FREE)]))
    is_shadow = (pl.col("flags") & int(EventFlag.SHADOW)) != 0
    held, entries = told.filter(is_shadow), told.filter(~is_shadow)
    moments = _moments(recording, device)
    left_out = [numbers[0] for numbers in _numbers(facts.get(LEFT_OUT_FACT, ()), device, 1)]
    if left_out and (not moments or max(left_out) >= moments[-1][0]):
        return None
    is_whole = held.height == sum(count for _, count in moments)
    if moments and not (is_whole and (held["address"] < _MOST_ADDRESS).all() and (held["size"] >= 0).all()):
        return None
    own = entries.filter(pl.col("kind") != int(EventKind.CACHE_EMPTIED))
    begins_with_allocator = own.height > 0 and own["kind"][0] in GROWTH
    if not moments and (not begins_with_allocator or bool(blocks.select(is_shadow.any()).item())):
        return None
    if moments and not begins_with_allocator:
        entries = entries.filter(pl.col("sequence") >= moments[0][0])
    if entries.is_empty() and held.is_empty():
        return None
    mallocs = blocks.filter(pl.col("kind") == int(EventKind.MALLOC))
    own_entries = _own_entries(recording, entries, mallocs.filter(~is_shadow), [moment for moment, _ in moments])
    states = AllocatorStates(recording, held, moments, own_entries, blocks)
    is_alloc = pl.col("kind") == ALLOC
    has_block_sizes = own_entries.filter(is_alloc)["malloc"].null_count() == 0
    return AllocatorEntries(_rows(pl.concat([own_entries, states.entries]), pool), states.parts, has_block_sizes)


def recorded_settings(recording: Recording, device: int) -> tuple[str, int] | None:
    """Return the settings that the allocator of a device began with, and how many the program chose after that.

    Args:
        recording: Any.
        device: The device.

    Returns:
        None if they were not recorded.
    """
    texts = recording.facts.get(SETTINGS_FACT)
    if texts is None:
        return None
    events = recording.events.filter(pl.col("device") == device)
    chosen = events.filter(pl.col("kind") == int(EventKind.ALLOCATOR_SETTING))
    first = events.filter(pl.col("kind") == int(EventKind.ALLOCATOR_ALLOC))["sequence"].min()
    early = chosen if first is None else chosen.filter(pl.col("sequence") < first)
    names = early.select(id="name_id").join(recording.strings, on="id", how="left", maintain_order="left")["text"]
    return ",".join(filter(None, (texts[-1], *names.to_list()))), chosen.height - early.height


def _numbers(texts: Iterable[str], device: int, count: int) -> list[tuple[int, ...]]:
    """Return the text behind the device in facts about it."""
    pattern = re.compile(r"(\d{1,4})" + r"/(\d{1,18})" * count)
    found = []
    for text in texts:
        match = pattern.fullmatch(text)
        if match is not None and device_number(DeviceKind.NPU, int(match[1])) == device:
            found.append(tuple(int(number) for number in match.groups()[1:]))
    return found


def _moments(recording: Recording, device: int) -> list[tuple[int, int]]:
    """Return before which event each state of a device stands, and how many rows it has."""
    return sorted((moment, count) for moment, count in _numbers(recording.facts.get(STATE_FACT, ()), device, 2))


def _own_entries(
    recording: Recording, entries: pl.DataFrame, mallocs: pl.DataFrame, moments: Sequence[int]
) -> pl.DataFrame:
    """Return the reports of the allocator as they happened, of ENTRY_SCHEMA."""
    # The MALLOC of a block follows on the same thread, before the memory can be handed out again.
    sized = (
        with_attributes(recording, entries)
        .join_asof(
            mallocs.select(
                "sequence",
                "address",
                "thread_id",
                pl.col("size").alias("block_bytes"),
                pl.col("sequence").alias("malloc"),
            ),
            on="sequence",
            by=["address", "thread_id"],
            strategy="forward",
            check_sortedness=False,
        )
        .sort("sequence")
    )
    is_alloc = pl.col("kind") == ALLOC
    is_block = pl.col("kind").is_in([int(told) for told in _BLOCK_KINDS])
    window = pl.Series("window", moments, dtype=pl.UInt64).search_sorted(sized["sequence"], side="right")
    return sized.select(
        pl.col("sequence").alias("place"),
        pl.lit(OWN, pl.Int8).alias("part"),
        "sequence",
        "kind",
        "address",
        pl.when(is_alloc).then(pl.coalesce("block_bytes", "size")).otherwise("size").alias("size"),
        "stream_id",
        "pool_id",
        pl.when(is_block).then("size").alias("requested_bytes"),
        pl.when(is_alloc).then("malloc").alias("malloc"),
        pl.lit(window).alias("window"),
        pl.lit(value=False).alias("leads"),
    ).cast(ENTRY_SCHEMA)


def _rows(entries: pl.DataFrame, pool: int) -> pl.DataFrame:
    """Return entries as the history of a snapshot has them, and the reserve behind each that changes it."""
    entries = entries.sort("place", "part", "sequence", maintain_order=True)
    kind = pl.col("kind")
    is_alloc, is_growth, is_release, is_state = (
        kind == ALLOC,
        kind.is_in(GROWTH),
        kind.is_in(_RELEASE),
        kind == int(EventKind.SNAPSHOT),
    )
    is_block = kind.is_in([int(told) for told in _BLOCK_KINDS])
    change = pl.when(is_growth).then("size").when(is_release).then(-pl.col("size")).otherwise(0)
    begin = pl.when(is_alloc).then("sequence").forward_fill().over("address")
    segment = pl.when(is_growth).then("sequence").forward_fill().over(pl.col("pool_id").fill_null(""))
    reported = pl.when(is_alloc).then(pl.coalesce("malloc", "sequence")).when(pl.col("leads")).then("place")
    rows = entries.select(
        "sequence",
        reported.otherwise("sequence").alias("reported"),
        pl.when(is_growth)
        .then(int(EventKind.MALLOC))
        .when(is_release)
        .then(int(EventKind.FREE))
        .otherwise(kind.replace({int(told): int(meant) for told, meant in _BLOCK_KINDS.items()}))
        .cast(pl.UInt8)
        .alias("kind"),
        pl.when(is_growth | is_release).then(int(Pool.HAL)).otherwise(pool).cast(pl.UInt8).alias("pool"),
        pl.lit(0, pl.UInt8).alias("flags"),
        "address",
        pl.col("size").fill_null(0),
        pl.when(is_release)
        .then(segment)
        .when(is_block & ~is_alloc)
        .then(begin)
        .when(is_state)
        .then(pl.col("size").cast(pl.UInt64))
        .otherwise(0)
        .fill_null(0)
        .alias("extra"),
        "stream_id",
        "pool_id",
        "requested_bytes",
        pl.when(kind == int(EventKind.SEGMENT_MAP)).then(pl.lit("map")).alias("allocation_kind"),
        "leads",
        change.cum_sum().over("window").alias("reserved"),
        (is_growth | is_release | is_state).alias("changes_reserve"),
        pl.int_range(pl.len()).alias("order"),
    )
    reserved = rows.filter("changes_reserve").with_columns(
        pl.lit(int(EventKind.RESERVED), pl.UInt8).alias("kind"),
        pl.lit(pool, pl.UInt8).alias("pool"),
        pl.col("reserved").alias("size"),
        pl.lit(0, pl.UInt64).alias("extra"),
    )
    # Those of a state stand right before it, as reports stand before the event that they came from.
    is_of_state = rows["kind"] == int(EventKind.SNAPSHOT)
    return (
        pl.concat(
            [
                rows.with_columns(part=pl.lit(is_of_state).cast(pl.Int8)),
                reserved.with_columns(part=pl.lit(value=1, dtype=pl.Int8)),
            ],
            how="vertical_relaxed",
        )
        .sort("order", "part", pl.col("kind") == int(EventKind.SNAPSHOT), maintain_order=True)
        .drop("part", "reserved", "changes_reserve", "order")
    )

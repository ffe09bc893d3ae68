"""The allocations of a recording as columns for the model of the allocator.

Snapshots of torch say when a block's memory could be handed out again, which stream it is for, what was requested, and each
segment; so do captures with the allocator's own entries (`--events=allocator`). Other recordings do not: there every block belongs to one stream, can be handed out again when it is freed, and what
was requested is taken to be its size without the padding.
"""

from __future__ import annotations

import dataclasses
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.analysis.replay.allocator_entries import allocator_entries
from msmemscope.model.devices import DeviceKind, kind_of
from msmemscope.model.events import EventFlag, EventKind
from msmemscope.model.pools import CACHING_POOLS, Pool

if TYPE_CHECKING:
    from typing import TypeAlias

    from msmemscope.recording import Recording

Column: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

COMMON_POOL: Final = "0/0"
"""Pool id of blocks that belong to no private pool."""


class Action(IntEnum):
    """What an event does; values as in `native/offline/replay/replay.h`."""

    ALLOCATE = 0
    REQUEST_FREE = 1
    COMPLETE_FREE = 2
    EMPTY_CACHE = 3
    FAILED_ALLOCATION = 4
    GIVE_UP_POOL = 5


@dataclasses.dataclass(frozen=True)
class Allocations:
    """What happened to the caching allocator of one device, in order. Columns have one row per event."""

    device: int
    kind: DeviceKind
    actions: Column
    """uint8, of Action."""
    blocks: Column
    """uint32: dense numbers of blocks, 0 where an event has none."""
    requested_bytes: Column
    """uint64: of allocations, 0 for others."""
    streams: Column
    """uint32: dense numbers."""
    pools: Column
    """uint32: 0 is the common pool."""
    sequences: Column
    """uint64: number of the event in the recording; that of the next one where the recording has none itself."""
    recorded_addresses: Column
    """uint64: of allocated blocks, 0 for others."""
    recorded_bytes: Column
    """int64: of allocated blocks as the recording has them, 0 for others."""
    recorded_reserved: Column
    """int64: reserved after the event, -1 where it is not known."""
    released: Column | None = None
    """uint32: segments that were given back right before the event; None where segments were not recorded."""
    first_address: Column | None = None
    """uint32, one more row: where the addresses of an event begin in `segment_addresses`."""
    segment_addresses: Column | None = None
    """uint64: of segments that were got from the driver."""
    is_expandable: bool = False
    """Whether segments grew by pieces."""
    older_blocks: int = 0
    """Blocks that are older than the recording: in which order they came is not known."""

    @property
    def count(self) -> int:
        """Events."""
        return len(self.actions)

    @property
    def has_segments(self) -> bool:
        """Whether segments were recorded."""
        return self.released is not None


def allocating_devices(recording: Recording) -> list[int]:
    """Return the devices of which blocks of a caching allocator were recorded."""
    pools = list(CACHING_POOLS.values())
    return sorted(recording.blocks.filter(pl.col("pool").is_in(pools) & (pl.col("device") >= 0))["device"].unique())


def allocator_kind(device: int) -> DeviceKind:
    """Return whose caching allocator a device has.

    Args:
        device: One of `allocating_devices`.
    """
    kind = kind_of(device)
    assert kind is not None, device  # noqa: S101 - blocks of caching allocators are on accelerators
    return kind


def recorded_allocations(recording: Recording, device: int) -> Allocations:
    """Read what happened to the caching allocator of a device.

    Args:
        recording: Any.
        device: One of `allocating_devices`.
    """
    kind = allocator_kind(device)
    pool = int(CACHING_POOLS[kind])
    told = allocator_entries(recording, device, pool)
    if told is not None:
        return _Reader(told, device, kind, is_snapshot=True).allocations()
    is_block = (pl.col("pool") == pool) & pl.col("kind").is_in(
        [int(EventKind.MALLOC), int(EventKind.FREE), int(EventKind.FREE_COMPLETED)]
    )
    is_failure = pl.col("kind") == int(EventKind.OOM)
    has_maps = "allocation_kind" in recording.attributes.columns and recording.form == "torch snapshot"
    is_segment = (
        (pl.col("pool") == int(Pool.HAL))
        & pl.col("kind").is_in([int(EventKind.MALLOC), int(EventKind.FREE)])
        & has_maps
    )
    is_reserve = (pl.col("kind") == int(EventKind.RESERVED)) & (pl.col("pool") == pool)
    rows = (
        recording.events.filter((pl.col("device") == device) & (is_block | is_failure | is_segment | is_reserve))
        .select("sequence", "kind", "pool", "flags", "address", "size", "extra", "attribute_id")
        .join(
            recording.attributes.select("attribute_id", "stream_id", "pool_id", "requested_bytes", "allocation_kind"),
            on="attribute_id",
            how="left",
            maintain_order="left",
        )
        .with_columns(pl.col("sequence").alias("reported"))
    )
    return _Reader(rows, device, kind, is_snapshot=has_maps).allocations()


class _Reader:
    """Makes columns of rows of one device."""

    def __init__(self, rows: pl.DataFrame, device: int, kind: DeviceKind, *, is_snapshot: bool) -> None:
        self._device, self._kind, self._is_snapshot = device, kind, is_snapshot
        kinds = rows["kind"].to_numpy()
        of_driver = rows["pool"].to_numpy() == Pool.HAL
        begins_block = (kinds == EventKind.MALLOC) & ~of_driver
        numbers = rows["sequence"].to_numpy()[begins_block]
        holder = np.where(kinds == EventKind.MALLOC, rows["sequence"].to_numpy(), rows["extra"].to_numpy())
        block = np.searchsorted(numbers, holder)
        block[block == len(numbers)] = 0
        is_known = len(numbers) > 0 and numbers[block] == holder
        is_own = ~of_driver & (
            (kinds == EventKind.OOM)
            | (np.isin(kinds, [EventKind.MALLOC, EventKind.FREE, EventKind.FREE_COMPLETED]) & is_known)
        )
        self._rows = rows
        self._kinds = kinds
        self._of_driver = of_driver
        self._is_own = is_own
        self._block = block
        self._next_own = np.cumsum(is_own) - is_own
        """By row: how many own events come before it, which is the number of the next one."""

    def allocations(self) -> Allocations:
        rows, own = self._rows, self._is_own
        sequences = rows["reported"].to_numpy()
        kinds = self._kinds[own]
        count = len(kinds)
        if not count:
            empty = np.zeros(0, np.uint64)
            return Allocations(self._device, self._kind, *(empty.astype(np.uint8), *(empty,) * 8))
        begins = kinds == EventKind.MALLOC
        failed = kinds == EventKind.OOM
        actions = np.select(
            [begins, kinds == EventKind.FREE, failed],
            [Action.ALLOCATE, Action.REQUEST_FREE, Action.FAILED_ALLOCATION],
            Action.COMPLETE_FREE,
        ).astype(np.uint8)
        owned = rows.filter(pl.Series(own))
        sizes = owned["size"].to_numpy()
        requested = owned["requested_bytes"].fill_null(0).to_numpy()
        padding = 32 if self._kind is DeviceKind.NPU else 0
        # Of a failure the history has the block that was looked for, padded and rounded.
        requested = np.where((requested > 0) & ~failed, requested, np.maximum(sizes - padding, 1))
        streams = owned["stream_id"].fill_null(0).rank("dense").to_numpy() - 1
        names = owned["pool_id"].fill_null(COMMON_POOL)
        # The common pool is the first one.
        ranks = {name: number for number, name in enumerate(sorted({COMMON_POOL, *names}, key=_pool_key))}
        pools = names.replace_strict(ranks, return_dtype=pl.UInt32).to_numpy()
        columns = {
            "actions": actions,
            "blocks": np.where(failed, 0, self._block[own]).astype(np.uint32),
            "requested_bytes": np.where(begins | failed, requested, 0).astype(np.uint64),
            "streams": np.where(begins | failed, streams, 0).astype(np.uint32),
            "pools": np.where(begins | failed, pools, 0).astype(np.uint32),
            "sequences": sequences[own],
            "recorded_addresses": np.where(begins, owned["address"].to_numpy(), 0),
            "recorded_bytes": np.where(begins, sizes, 0),
            "recorded_reserved": self._reserved(count),
        }
        shadow = (owned["flags"].to_numpy() & EventFlag.SHADOW) != 0
        segments = self._segments(count)
        given_up, released_with_pools = self._given_up_pools(ranks)
        segments[0][:] -= released_with_pools
        is_emptied = self._emptied(count, begins, segments[0])
        segments[0][is_emptied] = 0
        return self._with_inserted(columns, is_emptied, given_up, segments, shadow & begins)

    def _reserved(self, count: int) -> Column:
        """What was reserved after each own event, -1 where nothing was reported yet."""
        reserved = np.full(count, -1, dtype=np.int64)
        is_report = self._kinds == EventKind.RESERVED
        # A report stands right before the event that it came from.
        place = self._next_own[is_report]
        sizes = self._rows["size"].to_numpy()[is_report]
        is_inside = (place >= 0) & (place < count)
        reserved[place[is_inside]] = sizes[is_inside]
        known = np.maximum.accumulate(np.where(reserved >= 0, np.arange(count), -1))
        return np.where(known >= 0, reserved[np.maximum(known, 0)], -1)

    def _segments(self, count: int) -> tuple[Column, Column, Column]:
        is_release = self._of_driver & (self._kinds == EventKind.FREE)
        is_growth = self._of_driver & (self._kinds == EventKind.MALLOC)
        released = np.bincount(self._next_own[is_release], minlength=count + 1)
        places = self._next_own[is_growth]
        addresses = self._rows["address"].to_numpy()[is_growth]
        first_address = np.searchsorted(places, np.arange(count + 2))
        # A segment that begins with several pieces begins with the lowest one.
        return released, first_address, addresses[np.lexsort((addresses, places))]

    def _given_up_pools(self, ranks: dict[str, int]) -> tuple[list[tuple[int, int]], Column]:
        """Private pools whose first segment was given back: the number of the next own event, and the pool.

        Also how many segments were given back with them, by the number of the next own event.
        """
        is_release = self._of_driver & (self._kinds == EventKind.FREE)
        places = self._next_own[is_release]
        count = int(self._is_own.sum())
        if len(ranks) == 1 or not len(places):
            return [], np.zeros(count + 1, np.int64)
        begins = self._rows.filter(pl.Series(self._of_driver & (self._kinds == EventKind.MALLOC)))
        owner = dict(zip(begins["sequence"].to_list(), begins["pool_id"].to_list(), strict=True))
        pools = [
            ranks.get(owner.get(begin) or COMMON_POOL, 0)
            for begin in self._rows["extra"].to_numpy()[is_release].tolist()
        ]
        found: dict[int, int] = {}
        with_pools = []
        for place, pool in zip(places.tolist(), pools, strict=True):
            if pool and found.setdefault(pool, place) == place:
                with_pools.append(place)
        return [(place, pool) for pool, place in found.items()], np.bincount(
            np.array(with_pools, np.int64), minlength=count + 1
        )

    def _emptied(self, count: int, begins: Column, released: Column) -> Column:
        """Before which own events, or at the end, the cache was emptied for sure: segments went, nothing was allocated."""
        if self._is_snapshot:
            said: Column = np.zeros(count + 1, np.bool_)
            said[self._next_own[self._kinds == EventKind.CACHE_EMPTIED]] = True
            return said | (np.append(~begins, values=True) & (released > 0))
        is_report = self._kinds == EventKind.RESERVED
        sizes = self._rows["size"].to_numpy()[is_report]
        fell = np.diff(sizes, prepend=sizes[:1]) < 0
        emptied: Column = np.zeros(count + 1, np.bool_)
        emptied[self._next_own[is_report][fell]] = True
        return emptied

    def _with_inserted(
        self,
        columns: dict[str, Column],
        is_emptied: Column,
        given_up: list[tuple[int, int]],
        segments_of_own: tuple[Column, Column, Column],
        older: Column,
    ) -> Allocations:
        """Puts events in that stand nowhere: emptying the cache, giving up a pool, and completing a free where none is."""
        released, first_address, addresses = segments_of_own
        count = len(columns["actions"])
        order = np.arange(count) * 4 + 2
        keys, parts = [order], [columns]
        inserted: list[tuple[Column, int, Column]] = []
        emptied = np.flatnonzero(is_emptied)
        inserted.append((emptied * 4 + 1, Action.EMPTY_CACHE, np.zeros(len(emptied), np.uint32)))
        if given_up:
            places, pools = (np.array(numbers) for numbers in zip(*given_up, strict=True))
            inserted.append((places * 4, Action.GIVE_UP_POOL, pools.astype(np.uint32)))
        if not (columns["actions"] == Action.COMPLETE_FREE).any():
            frees = np.flatnonzero(columns["actions"] == Action.REQUEST_FREE)
            inserted.append((frees * 4 + 3, Action.COMPLETE_FREE, np.zeros(len(frees), np.uint32)))
        for places, action, pools in inserted:
            nearest = np.minimum(places // 4, count - 1)
            part = {name: np.zeros(len(places), column.dtype) for name, column in columns.items()}
            part["actions"] = np.full(len(places), action, np.uint8)
            part["pools"] = pools
            part["sequences"] = columns["sequences"][nearest]
            if action == Action.COMPLETE_FREE:
                part["blocks"] = columns["blocks"][nearest]
            part["recorded_reserved"] = columns["recorded_reserved"][nearest]
            keys.append(places)
            parts.append(part)
        key = np.concatenate(keys)
        arranged = np.argsort(key, kind="stable")
        merged = {name: np.concatenate([part[name] for part in parts])[arranged] for name in columns}
        own_rows = arranged < count
        own = arranged[own_rows]
        segments: dict[str, Any] = {}
        if self._is_snapshot:
            release = np.zeros(len(arranged), np.uint32)
            is_allocation = columns["actions"][own] == Action.ALLOCATE
            release[own_rows] = np.where(is_allocation, released[own], 0)
            # Rows that were put in have no addresses: theirs begin where those of the next own event do.
            owner = np.minimum(key[arranged] // 4, count)
            begins = np.append(first_address[owner], len(addresses))
            # Behind the own event of the same number there is nothing left of its addresses.
            behind = np.append(key[arranged] % 4 == 3, values=False)  # noqa: PLR2004
            begins[behind] = first_address[np.minimum(np.append(owner, count)[behind] + 1, count + 1)]
            segments = {
                "released": release,
                "first_address": begins.astype(np.uint32),
                "segment_addresses": np.ascontiguousarray(addresses),
            }
        maps = self._rows.filter(pl.Series(self._of_driver))["allocation_kind"] == "map"
        return Allocations(
            self._device,
            self._kind,
            **{name: np.ascontiguousarray(column) for name, column in merged.items()},
            **segments,
            is_expandable=bool(maps.any()),
            older_blocks=int(older.sum()),
        )


def _pool_key(name: str) -> tuple[bool, str]:
    return name != COMMON_POOL, name

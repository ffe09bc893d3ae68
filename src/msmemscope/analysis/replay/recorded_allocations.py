"""The allocations of a recording as columns for the model of the allocator.

Snapshots of torch have four facts, and so do captures with the allocator's own entries (`--events=allocator`):

- when a block's memory could be handed out again
- the stream that it is for
- the size that was requested
- each segment

For other recordings three assumptions are made:

- Every block belongs to one stream.
- It can be handed out again when it is freed.
- Its size without the padding was requested.
"""

from __future__ import annotations

import dataclasses
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.analysis.replay.allocator_entries import STREAMS_FACT, allocator_entries
from msmemscope.analysis.replay.allocator_states import PART_SCHEMA
from msmemscope.model.devices import DeviceKind, kind_of
from msmemscope.model.events import EventFlag, EventKind
from msmemscope.model.pools import CACHING_POOLS, Pool

if TYPE_CHECKING:
    from typing import TypeAlias

    from msmemscope.recording import Recording

Column: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

_NOBODY: Final = (1 << 32) - 1
COMMON_POOL: Final = "0/0"
"""Pool id of blocks that belong to no private pool."""


class Action(IntEnum):
    """The action of an event; values as in `native/offline/replay/replay.h`."""

    ALLOCATE = 0
    REQUEST_FREE = 1
    COMPLETE_FREE = 2
    EMPTY_CACHE = 3
    FAILED_ALLOCATION = 4
    GIVE_UP_POOL = 5
    RESTORE = 6


@dataclasses.dataclass(frozen=True)
class States:
    """The allocator's memory when its recording began, and each time that it began again: parts of segments."""

    count: int
    parts: dict[str, Column]
    """By state, segment and address: state, segment_address, address, bytes, stream, pool, holder, use, is_small and
    is_expandable, as `native/offline/replay/allocator_model.h` has them."""
    reserved_bytes: tuple[int, ...]
    """Of each."""

    def for_model(self, leads_to_state: Column) -> dict[str, Any]:
        """Return the values that the native model takes."""
        return {"count": self.count, "leads_to_one": leads_to_state, **self.parts}


@dataclasses.dataclass(frozen=True)
class Allocations:
    """The events of the caching allocator of one device, in order. Columns have one row per event."""

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
    leads_to_state: Column | None = None
    """uint8: of events that lead from the last known state to the next one: blocks that had come or gone by then."""
    states: States | None = None
    """The allocator's memory, for each RESTORE, whose number stands in `blocks`."""
    block_count: int = 0
    """As far as states have more blocks, streams and pools than events do."""
    stream_count: int = 0
    pool_count: int = 0
    has_block_sizes: bool = True
    """Whether `recorded_bytes` are the sizes of all blocks; otherwise those of some are their requested sizes."""
    has_streams: bool = False
    """Whether streams are known, and when each free was completed, although segments are not."""
    unknown_requests: int = 0
    """Blocks that are older than the recording and have no requested size in it."""

    @property
    def count(self) -> int:
        """Events."""
        return len(self.actions)

    @property
    def has_segments(self) -> bool:
        """Whether segments were recorded."""
        return self.released is not None


def allocating_devices(recording: Recording) -> list[int]:
    """Return the devices that have recorded blocks of a caching allocator."""
    is_of_pool = pl.col("pool").is_in(list(CACHING_POOLS.values())) & (pl.col("device") >= 0)
    devices = {*recording.blocks.filter(is_of_pool)["device"].unique()}
    # The allocator also speaks for itself where nobody else tells of its blocks.
    told = recording.events.filter(is_of_pool & (pl.col("kind") == int(EventKind.ALLOCATOR_ALLOC)))["device"].unique()
    devices |= {
        device
        for device in told
        if device not in devices and allocator_entries(recording, device, _pool_of(device)) is not None
    }
    return sorted(devices)


def allocator_kind(device: int) -> DeviceKind:
    """Return whose caching allocator a device has.

    Args:
        device: One of `allocating_devices`.
    """
    kind = kind_of(device)
    assert kind is not None, device  # noqa: S101 - blocks of caching allocators are on accelerators
    return kind


def _pool_of(device: int) -> int:
    return int(CACHING_POOLS[allocator_kind(device)])


def recorded_allocations(recording: Recording, device: int) -> Allocations:
    """Read the events of the caching allocator of a device.

    Args:
        recording: Any.
        device: One of `allocating_devices`.
    """
    kind, pool = allocator_kind(device), _pool_of(device)
    told = allocator_entries(recording, device, pool)
    if told is not None:
        found = _Reader(told.rows, device, kind, is_snapshot=True, parts=told.parts).allocations()
        return dataclasses.replace(found, has_block_sizes=told.has_block_sizes)
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
    found = _Reader(rows, device, kind, is_snapshot=has_maps).allocations()
    return dataclasses.replace(found, has_streams=STREAMS_FACT in recording.facts)


class _Reader:
    """Makes columns of rows of one device."""

    def __init__(
        self,
        rows: pl.DataFrame,
        device: int,
        kind: DeviceKind,
        *,
        is_snapshot: bool,
        parts: pl.DataFrame | None = None,
    ) -> None:
        self._device, self._kind, self._is_snapshot = device, kind, is_snapshot
        self._is_told = parts is not None
        self._parts = PART_SCHEMA.to_frame() if parts is None else parts
        kinds = rows["kind"].to_numpy()
        of_driver = rows["pool"].to_numpy() == Pool.HAL
        leads = rows["leads"].to_numpy() if parts is not None else np.zeros(len(rows), np.bool_)
        begins_block = (kinds == EventKind.MALLOC) & ~of_driver
        self._numbers = rows["sequence"].to_numpy()[begins_block]
        holder = np.where(kinds == EventKind.MALLOC, rows["sequence"].to_numpy(), rows["extra"].to_numpy())
        block, is_known = self._block_of(holder)
        is_state = (kinds == EventKind.SNAPSHOT) & self._is_told
        block = np.where(is_state, rows["extra"].to_numpy(), block)
        is_own = ~of_driver & (
            (kinds == EventKind.OOM)
            | is_state
            | (np.isin(kinds, [EventKind.MALLOC, EventKind.FREE, EventKind.FREE_COMPLETED]) & is_known)
        )
        self._leads = leads
        self._rows = rows
        self._kinds = kinds
        self._of_driver = of_driver
        self._is_own = is_own
        self._block = block
        self._next_own = np.cumsum(is_own) - is_own
        """By row: how many own events come before it, which is the number of the next one."""
        self._is_release = of_driver & (kinds == EventKind.FREE) & ~leads
        self._is_growth = of_driver & (kinds == EventKind.MALLOC) & ~leads

    def _block_of(self, begins: Column) -> tuple[Column, Column]:
        """Return the dense numbers of blocks by the events that begin them, and whether they are known."""
        numbers = self._numbers
        if not len(numbers):
            return np.zeros(len(begins), np.int64), np.zeros(len(begins), np.bool_)
        order = np.argsort(numbers, kind="stable")
        place = np.searchsorted(numbers, begins, sorter=order)
        block = order[np.minimum(place, len(numbers) - 1)]
        return block, numbers[block] == begins

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
            [begins, kinds == EventKind.FREE, failed, kinds == EventKind.SNAPSHOT],
            [Action.ALLOCATE, Action.REQUEST_FREE, Action.FAILED_ALLOCATION, Action.RESTORE],
            Action.COMPLETE_FREE,
        ).astype(np.uint8)
        owned = rows.filter(pl.Series(own))
        sizes = owned["size"].to_numpy()
        requested = owned["requested_bytes"].fill_null(0).to_numpy()
        padding = 32 if self._kind is DeviceKind.NPU else 0
        # Of a failure the history has the block that was looked for, padded and rounded.
        requested = np.where((requested > 0) & ~failed, requested, np.maximum(sizes - padding, 1))
        both = pl.concat(
            [table.select("stream_id", "pool_id") for table in (owned, self._parts)], how="vertical_relaxed"
        )
        all_streams = both["stream_id"].fill_null(0).rank("dense").to_numpy() - 1
        names = both["pool_id"].fill_null(COMMON_POOL)
        # The common pool is the first one.
        ranks = {name: number for number, name in enumerate(sorted({COMMON_POOL, *names}, key=_pool_key))}
        all_pools = names.replace_strict(ranks, return_dtype=pl.UInt32).to_numpy()
        streams, pools = all_streams[:count], all_pools[:count]
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
            "leads_to_state": (self._leads[own] & (kinds != EventKind.SNAPSHOT)).astype(np.uint8),
        }
        older = columns["leads_to_state"] == 1 if self._is_told else (owned["flags"].to_numpy() & EventFlag.SHADOW) != 0
        segments = self._segments(count)
        given_up, released_with_pools = self._given_up_pools(ranks)
        segments[0][:] -= released_with_pools
        is_emptied = self._emptied(count, begins, segments[0])
        segments[0][is_emptied] = 0
        found = self._with_inserted(columns, is_emptied, given_up, segments)
        older = older & begins
        is_unasked = older & owned["requested_bytes"].is_null().to_numpy() & self._is_told
        return dataclasses.replace(
            found,
            older_blocks=int(older.sum()),
            unknown_requests=int(is_unasked.sum()),
            states=self._states(all_streams[count:], all_pools[count:]),
            block_count=len(self._numbers),
            stream_count=int(all_streams.max(initial=0)) + 1,
            pool_count=len(ranks),
        )

    def _states(self, streams: Column, pools: Column) -> States | None:
        count = int(((self._kinds == EventKind.SNAPSHOT) & self._is_own).sum())
        if not count:
            return None
        parts = self._parts
        begins = parts["block"].fill_null(0).to_numpy()
        blocks, is_known = self._block_of(begins)
        states = parts["state"].to_numpy()
        columns = {
            "state": parts["state"].to_numpy(),
            "segment_address": parts["segment_address"].to_numpy(),
            "address": parts["address"].to_numpy(),
            "bytes": parts["bytes"].to_numpy(),
            "stream": streams.astype(np.uint32),
            "pool": pools.astype(np.uint32),
            "holder": np.where(is_known, blocks, _NOBODY).astype(np.uint32),
            "use": parts["use"].to_numpy(),
            "is_small": parts["is_small"].to_numpy().astype(np.uint8),
            "is_expandable": parts["is_expandable"].to_numpy().astype(np.uint8),
        }
        reserved = np.bincount(states, weights=columns["bytes"], minlength=count)
        contiguous = {name: np.ascontiguousarray(column) for name, column in columns.items()}
        return States(count, contiguous, tuple(int(size) for size in reserved))

    def _reserved(self, count: int) -> Column:
        """The reserve after each own event, -1 where nothing was reported yet."""
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
        released = np.bincount(self._next_own[self._is_release], minlength=count + 1)
        places = self._next_own[self._is_growth]
        addresses = self._rows["address"].to_numpy()[self._is_growth]
        first_address = np.searchsorted(places, np.arange(count + 2))
        # A segment that begins with several pieces begins with the lowest one.
        return released, first_address, addresses[np.lexsort((addresses, places))]

    def _given_up_pools(self, ranks: dict[str, int]) -> tuple[list[tuple[int, int]], Column]:
        """Private pools whose first segment was given back: the number of the next own event, and the pool.

        Also how many segments were given back with them, by the number of the next own event.
        """
        is_release = self._is_release
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
    ) -> Allocations:
        """Put in events that stand nowhere: emptying the cache, giving up a pool, completing a free where none is."""
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
        is_completed = columns["actions"] == Action.COMPLETE_FREE
        if not self._is_told and not (self._is_snapshot and is_completed.any()):
            # Of the others nothing is said: nobody used them any more.
            waiting = columns["blocks"][is_completed]
            frees = np.flatnonzero((columns["actions"] == Action.REQUEST_FREE) & ~np.isin(columns["blocks"], waiting))
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
        found: dict[str, Any] = {name: np.ascontiguousarray(column) for name, column in merged.items()}
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
            found |= {
                "released": release,
                "first_address": begins.astype(np.uint32),
                "segment_addresses": np.ascontiguousarray(addresses),
            }
        maps = self._rows.filter(pl.Series(self._of_driver))["allocation_kind"] == "map"
        return Allocations(
            self._device,
            self._kind,
            **found,
            is_expandable=bool(maps.any()),
        )


def _pool_key(name: str) -> tuple[bool, str]:
    return name != COMMON_POOL, name

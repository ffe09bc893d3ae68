"""When each block was allocated, used and freed, in rows of the event table and in operators of its device."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
import polars as pl

from msmemscope.model.events import ACCESS_KINDS, EventFlag, EventKind
from msmemscope.model.pools import Pool
from msmemscope.recording.operators import (
    NOWHERE,
    DeviceOrder,
    IntegerArray,
    MaskArray,
    Operators,
    ShortIntegerArray,
    find_operators,
    order_of_device,
)
from msmemscope.recording.timeline import MemoryUse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from msmemscope.recording import Recording


Number = TypeVar("Number", int, IntegerArray)

_TABLE_ENTRIES_PER_NUMBER: Final = 8
"""A table of this many entries per number is still faster than a search."""


@dataclasses.dataclass(frozen=True)
class BlockUses:
    """The blocks of a process and their uses; one entry per row of `Recording.blocks` where nothing else is said.

    Rows are those of `Recording.events`, NOWHERE where there is no such event.
    """

    operators: Operators
    row_count: int
    """Events of the process: the row that is after all of them."""
    devices: IntegerArray
    pools: IntegerArray
    sizes: IntegerArray
    """Bytes."""
    malloc_rows: IntegerArray
    free_rows: IntegerArray
    first_access_rows: IntegerArray
    last_access_rows: IntegerArray
    last_read_rows: IntegerArray
    """Of the last access that is not known to be a mere write."""
    ends_with_write: MaskArray
    """Whether the last access is a write."""
    is_malloc_timed: MaskArray
    """Whether the MALLOC happened when it was recorded: not so for blocks that were alive when collection began."""
    is_free_timed: MaskArray
    """Whether there is a FREE and it happened when it was recorded: not so for frees that are written at an end."""
    access_rows: IntegerArray
    """Accesses of known blocks, one entry per access, in sequence order."""
    access_blocks: IntegerArray
    """Block of each of them."""
    stray_free_rows: IntegerArray
    """FREEs of blocks that are not known, one entry per FREE."""
    stray_free_places: IntegerArray
    """Device and pool that each of them names, as `place_of` has them."""
    unknown_accesses: int
    """Accesses that name no block of the table."""

    def pools_of_devices(self) -> Iterator[tuple[int, int, IntegerArray]]:
        """Return each device and pool that has blocks, in their order, with the indexes of these blocks."""
        places = place_of(self.devices, self.pools)
        for place in np.unique(places).tolist():
            yield place // 256, place % 256, np.flatnonzero(places == place)

    def stray_frees(self, device: int, pool: int) -> IntegerArray:
        """Return the FREEs of blocks that are not known, of one pool of one device."""
        rows: IntegerArray = self.stray_free_rows[self.stray_free_places == place_of(device, pool)]
        return rows


def place_of(device: Number, pool: Number) -> Number:
    """Return one number for a device and a pool."""
    return device * 256 + pool


def find_block_uses(recording: Recording) -> BlockUses:
    """Bring together the events of each block.

    An access belongs to the block that it names, even an access through a view. One that names none belongs to no
    block.
    """
    events, blocks = recording.events, recording.blocks
    sequences = events["sequence"].to_numpy()
    kinds = events["kind"].to_numpy()
    is_timed = (events["flags"].to_numpy() & int(EventFlag.SHADOW)) == 0
    named = events["extra"].to_numpy()

    identities = blocks["allocation_id"].to_numpy()
    malloc_rows = np.searchsorted(sequences, blocks["malloc_sequence"].to_numpy()).astype(np.int64)
    free_events = np.flatnonzero(kinds == EventKind.FREE)
    freed_blocks = _places(identities, named[free_events])
    is_known = freed_blocks != NOWHERE
    # A damaged input may name a block twice: it was freed the first time, as in the table of blocks.
    free_rows = last_rows(freed_blocks[is_known][::-1], free_events[is_known][::-1], blocks.height)
    is_freed = free_rows != NOWHERE

    all_accesses = np.flatnonzero((kinds >= min(ACCESS_KINDS)) & (kinds <= max(ACCESS_KINDS)))
    access_blocks = _places(identities, named[all_accesses])
    access_rows = all_accesses[access_blocks != NOWHERE]
    access_blocks = access_blocks[access_blocks != NOWHERE]
    is_write = kinds[access_rows] == EventKind.ACCESS_WRITE

    is_stray = ~is_known & is_timed[free_events]
    last_access_rows = last_rows(access_blocks, access_rows, blocks.height)
    return BlockUses(
        operators=find_operators(events),
        row_count=events.height,
        devices=blocks["device"].to_numpy().astype(np.int64),
        pools=blocks["pool"].to_numpy().astype(np.int64),
        sizes=blocks["size"].to_numpy().astype(np.int64),
        malloc_rows=malloc_rows,
        free_rows=free_rows,
        first_access_rows=last_rows(access_blocks[::-1], access_rows[::-1], blocks.height),
        last_access_rows=last_access_rows,
        last_read_rows=last_rows(access_blocks[~is_write], access_rows[~is_write], blocks.height),
        ends_with_write=(last_access_rows != NOWHERE) & (kinds[last_access_rows] == EventKind.ACCESS_WRITE)
        if len(kinds)
        else np.zeros(0, np.bool_),
        is_malloc_timed=is_timed[malloc_rows],
        is_free_timed=is_freed & is_timed[free_rows] if len(kinds) else is_freed,
        access_rows=access_rows,
        access_blocks=access_blocks,
        stray_free_rows=free_events[is_stray],
        stray_free_places=place_of(
            events["device"].to_numpy()[free_events[is_stray]].astype(np.int64),
            events["pool"].to_numpy()[free_events[is_stray]].astype(np.int64),
        ),
        unknown_accesses=len(all_accesses) - len(access_rows),
    )


def device_orders(uses: BlockUses) -> dict[int, DeviceOrder]:
    """Number the operators of each device that has blocks.

    Allocations, frees and accesses count for the device of their block.
    """
    access_devices = uses.devices[uses.access_blocks]
    orders = {}
    for device in np.unique(uses.devices):
        of_device = uses.devices == device
        rows = [
            uses.malloc_rows[of_device],
            uses.free_rows[of_device & (uses.free_rows != NOWHERE)],
            uses.access_rows[access_devices == device],
            uses.stray_free_rows[uses.stray_free_places // 256 == device],
        ]
        orders[int(device)] = order_of_device(uses.operators, int(device), np.concatenate(rows))
    return orders


def pool_use(uses: BlockUses, blocks: IntegerArray) -> MemoryUse:
    """Follow how much of a pool was in use, in rows of events.

    Args:
        uses: The blocks of the process.
        blocks: Indexes of the blocks of the pool.
    """
    freed = blocks[uses.free_rows[blocks] != NOWHERE]
    rows = np.concatenate([uses.malloc_rows[blocks], uses.free_rows[freed]])
    changes = np.concatenate([uses.sizes[blocks], -uses.sizes[freed]])
    order = np.argsort(rows, kind="stable")
    return MemoryUse.of_changes(rows[order], changes[order])


def holds_tensors(pool: int) -> bool:
    """Whether the blocks of a pool are tensors: those of the driver hold pools, those of workspaces are scratch."""
    return pool not in {Pool.NONE, Pool.HAL, Pool.PTA_WORKSPACE}


class OperatorPlaces:
    """The names and the places of the operators of a device, by their numbers."""

    def __init__(self, recording: Recording, order: DeviceOrder) -> None:
        """Look them up.

        Args:
            recording: The recording that the operators are of.
            order: Of the device.
        """
        # As numbers: the texts would be a third of all the bytes of a table of blocks.
        words = recording.strings["text"].drop_nulls().unique(maintain_order=True)
        strings = recording.strings.with_columns(pl.col("text").cast(pl.Enum(words)))
        self.order = order
        begins = order.operators.begin_rows[order.members]
        names = recording.events["name_id"].gather(begins).alias("id").to_frame()
        names = names.join(strings, on="id", how="left", maintain_order="left").select("text")
        # Number 0 is none.
        self._places = pl.concat(
            [
                pl.DataFrame(
                    {"text": [None], "sequence": [None]}, {"text": names.schema["text"], "sequence": pl.UInt64}
                ),
                names.with_columns(recording.events["sequence"].gather(begins)),
            ]
        )

    def names(self, numbers: IntegerArray) -> pl.Series:
        """Return the name of each operator (an Enum), null for the number 0."""
        return self._places["text"].gather(numbers)

    def of(self, numbers: IntegerArray, prefix: str) -> list[pl.Series]:
        """Return columns with operators.

        Args:
            numbers: Of the operators, 0 for none.
            prefix: Begins the names of the columns.

        Returns:
            `{prefix}` (an Enum, the name), `{prefix}_sequence` (u64, that of its start) and `{prefix}_index` (i64, the
            number); null for none.
        """
        return [
            self.names(numbers).alias(prefix),
            self._places["sequence"].gather(numbers).alias(f"{prefix}_sequence"),
            pl.Series(f"{prefix}_index", numbers, dtype=pl.Int64).set(pl.Series(numbers == 0), None),
        ]


def begin_of_operator(uses: BlockUses, rows: IntegerArray) -> IntegerArray:
    """Return where the operator of each row begins; the row itself outside of operators."""
    inside = uses.operators.of_row[rows]
    return np.where(inside == NOWHERE, rows, taken(uses.operators.begin_rows, inside))


def end_of_operator(uses: BlockUses, rows: IntegerArray) -> IntegerArray:
    """Return where the operator of each row ends; the row itself outside of operators."""
    inside = uses.operators.of_row[rows]
    return np.where(inside == NOWHERE, rows, taken(uses.operators.end_rows, inside))


def taken(values: IntegerArray, places: IntegerArray | ShortIntegerArray) -> IntegerArray:
    """Return the value at each place; any value where the place is NOWHERE."""
    return values[places] if len(values) else np.full(len(places), NOWHERE, np.int64)


def _places(known: IntegerArray, wanted: IntegerArray) -> IntegerArray:
    """Return where each wanted number is among the known, ascending ones; NOWHERE for others."""
    if not len(known):
        return np.full(len(wanted), NOWHERE, np.int64)
    first, span = known[0], int(known[-1] - known[0]) + 1
    if span <= _TABLE_ENTRIES_PER_NUMBER * (len(known) + len(wanted)):
        # Dense numbers: looked up in a table, which is ten times as fast.
        table = np.full(span + 1, NOWHERE, np.int64)
        table[(known - first).astype(np.int64)] = np.arange(len(known))
        is_within = (wanted >= first) & (wanted <= known[-1])
        return table[np.where(is_within, wanted - first, span).astype(np.int64)]
    places = np.searchsorted(known, wanted)
    places[places == len(known)] = 0
    return np.where(known[places] == wanted, places, NOWHERE)


def last_rows(blocks: IntegerArray, rows: IntegerArray, count: int) -> IntegerArray:
    """Return for each block the row that comes last in the given order: of repeated indexes the last one is kept."""
    result = np.full(count, NOWHERE, np.int64)
    result[blocks] = rows
    return result

"""The history of one device: its entries paired, and completed by the memory that existed before them.

The history is a ring, and recording it can be interrupted. Memory that is freed, or alive at the end, without an
allocation in the history is older than the history. If something is allocated on memory in use, that memory was freed
while nothing was recorded.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import polars as pl

from msmemscope.formats.torch_snapshot.block_sizes import BlockSizes, padding_of
from msmemscope.formats.torch_snapshot.rows import SEGMENT_BEGINS, SEGMENT_ENDS, WAITING
from msmemscope.model.events import EventFlag, EventKind
from msmemscope.model.pools import CACHING_POOLS, Pool

if TYPE_CHECKING:
    from msmemscope.model.devices import DeviceKind

BEFORE: Final = -1
"""Place of what happened before the history."""
EVENT_COLUMNS: Final = pl.Schema(
    {
        "place": pl.Int64(),
        "row": pl.Int64(),
        "has_stack": pl.Boolean(),
        "kind": pl.UInt8(),
        "pool": pl.UInt8(),
        "address": pl.UInt64(),
        "size": pl.Int64(),
        "requested_bytes": pl.Int64(),
        "flags": pl.UInt8(),
        "begin": pl.Int64(),
    }
)
"""One row per event, in their order.

place: the entry that it happened with, BEFORE for older ones.
row: the entry that has its other columns; has_stack: also its call stack.
requested_bytes: of a MALLOC or OOM, null where it is not known.
begin: number of the MALLOC's row here; null where there is none.
"""
_SHADOW: Final = int(EventFlag.SHADOW)
_OTHERS: Final = {"oom": EventKind.OOM, "snapshot": EventKind.SNAPSHOT}


@dataclass(eq=False)
class _Block:
    """Memory from its MALLOC to its FREE: a block, or a part of a segment that is freed as one."""

    row: int
    """The entry that it is known from."""
    pool: int
    address: int
    size: int
    """0 of a block until it is known."""
    begin: int
    """Place of its MALLOC."""
    requested: int | None = None
    free: int | None = None
    """Place of its FREE."""
    is_free_unseen: bool = False
    completed: int | None = None
    """Place from which on its memory could be handed out again."""
    number: int = 0
    """Of its MALLOC's row among all events."""


class _Change(NamedTuple):
    """One event of memory."""

    place: int
    order: int
    """Among those of the same place."""
    kind: int
    block: _Block


class DeviceHistory:
    """The events of one device.

    Args:
        kind: The kind of the device.
        history: Its entries in their order: ROW_SCHEMA, and their number among those of all devices as `row`.
        present: The segments and blocks of it in the snapshot itself, likewise.
        has_block_sizes: Whether the history is known to have the sizes of blocks, not the requested sizes.
    """

    def __init__(
        self, kind: DeviceKind, history: pl.DataFrame, present: pl.DataFrame, *, has_block_sizes: bool = False
    ) -> None:
        self._pool = CACHING_POOLS[kind]
        self._blocks: list[_Block] = []
        self._others: list[tuple[int, int, int]] = []
        self._segments = _Segments()
        self._live: dict[int, _Block] = {}
        self._waiting: dict[int, _Block] = {}
        columns = ("row", "action", "address", "size")
        for entry in zip(*(history[name].to_list() for name in columns), strict=True):
            self._take(*entry)
        known = self._take_present(present, has_block_sizes=has_block_sizes)
        is_split = any("segment_map" in part["action"] for part in (history, present))
        self._changes = self._ordered()
        self.worked_out, self.odd = self._find_sizes(padding_of(kind, known), is_split=is_split)
        """Blocks whose size was worked out. Then blocks alive where the rules and the snapshot differ in the size."""

    @property
    def older(self) -> int:
        """Blocks and segments that are older than the history."""
        return sum(block.begin == BEFORE for block in (*self._blocks, *self._segments.all))

    def events(self) -> pl.DataFrame:
        """Return what happened, of EVENT_COLUMNS."""
        rows: list[tuple[int, ...] | tuple[int | None, ...]] = []
        reserved = 0
        others = iter([*self._others, None])
        other = next(others)
        last = len(self._changes) - 1
        for index, (place, _, kind, block) in enumerate(self._changes):
            while other is not None and other[0] < place:
                rows.append(self._other_row(*other))
                other = next(others)
            is_begin = kind == EventKind.MALLOC
            if is_begin:
                block.number = len(rows)
            is_unseen = place == BEFORE or (block.is_free_unseen and not is_begin)
            row = block.row if place == BEFORE or is_begin else place
            has_stack = not is_unseen or (is_begin and block.free is None)
            requested = block.requested if is_begin else None
            begin = None if is_begin else block.number
            flags = _SHADOW if is_unseen else 0
            rows.append((place, row, has_stack, kind, block.pool, block.address, block.size, requested, flags, begin))
            if block.pool == Pool.HAL:
                reserved += block.size if is_begin else -block.size
                following = self._changes[index + 1] if index < last else None
                if following is None or following.place != place or following.block.pool != Pool.HAL:
                    rows.append((place, row, False, EventKind.RESERVED, self._pool, 0, reserved, None, 0, None))
        while other is not None:
            rows.append(self._other_row(*other))
            other = next(others)
        return pl.DataFrame(rows, schema=EVENT_COLUMNS, orient="row")

    @staticmethod
    def _other_row(row: int, kind: int, size: int) -> tuple[int | None, ...]:
        requested = size if kind == EventKind.OOM else None
        return (row, row, True, kind, Pool.NONE, 0, size, requested, 0, None)

    def _take(self, row: int, action: str, address: int, size: int) -> None:
        """Take the next entry of the history in."""
        if action in _OTHERS:
            self._others.append((row, _OTHERS[action], size))
        elif action in SEGMENT_BEGINS:
            self._segments.begin(row, address, size)
        elif action in SEGMENT_ENDS:
            self._segments.end(row, address, size)
        elif action == "alloc":
            there = self._live.pop(address, None)
            if there is not None:
                there.free, there.is_free_unseen, there.completed = row, True, row
            there = self._waiting.pop(address, None)
            if there is not None:
                there.completed = row
            self._live[address] = self._new(row, address, size, begin=row)
        elif action == "free_requested":
            live = self._live.pop(address, None)
            block = self._new(row, address, size, begin=BEFORE) if live is None else live
            block.free = row
            self._waiting[address] = block
        else:
            held = self._waiting if address in self._waiting else self._live
            known = held.pop(address, None)
            block = self._new(row, address, size, begin=BEFORE) if known is None else known
            if block.free is None:
                block.free = BEFORE if known is None else row
            block.completed = row

    def _new(self, row: int, address: int, requested: int | None, *, begin: int) -> _Block:
        block = _Block(row, self._pool, address, 0, begin, requested)
        self._blocks.append(block)
        return block

    def _take_present(self, present: pl.DataFrame, *, has_block_sizes: bool) -> list[tuple[int, int]]:
        """Take in the memory that is alive at the end.

        Returns:
            The requested size and the size of the block, where both are known.
        """
        names = ("row", "action", "address", "size", "block_bytes")
        known = []
        for row, action, address, size, block_bytes in zip(*(present[name].to_list() for name in names), strict=True):
            if action in SEGMENT_BEGINS:
                self._segments.present(row, address, size)
                continue
            block = (self._waiting if action == WAITING else self._live).get(address)
            if block is None:
                block = self._new(row, address, size, begin=BEFORE)
                block.free = BEFORE if action == WAITING else None
            else:
                # Versions that note the sizes of blocks in a history, not what was requested.
                has_block_sizes |= block.requested == block_bytes != size
                block.requested = size
            block.size = block_bytes
            if size is not None:
                known.append((size, block_bytes))
        if has_block_sizes:
            for block in self._blocks:
                if not block.size:
                    block.size, block.requested = block.requested or 0, None
        return known

    def _ordered(self) -> list[_Change]:
        """Return what happened to memory: before the history segments begin first, within it what ends comes first."""
        found = []
        for block in (*self._segments.all, *self._blocks):
            found.append(_Change(block.begin, 1 if block.pool == Pool.HAL else 2, EventKind.MALLOC, block))
            if block.free is not None:
                found.append(_Change(block.free, 3 if block.free == BEFORE else 0, EventKind.FREE, block))
            if block.completed is not None:
                found.append(_Change(block.completed, 0, EventKind.FREE_COMPLETED, block))
        found.sort(key=lambda change: change[:2])
        return found

    def _find_sizes(self, padding: int, *, is_split: bool) -> tuple[int, int]:
        """Give each block its size.

        Returns:
            How many were worked out, and how many known ones differ from that.
        """
        sizes = BlockSizes(padding, is_split=is_split)
        worked_out = odd = 0
        begun: list[_Block] = []

        def finish() -> None:
            nonlocal worked_out, odd
            for block in begun:
                if block.requested is None:
                    continue
                size = sizes.size(block.address, block.requested)
                if block.size:
                    odd += block.size != size
                else:
                    block.size = size
                    worked_out += 1
            begun.clear()

        for place, _, kind, block in self._changes:
            if place != BEFORE:
                finish()  # all older ones are known
            if block.pool == Pool.HAL:
                change = sizes.begin_segment if kind == EventKind.MALLOC else sizes.end_segment
                change(block.address, block.size)
            elif kind == EventKind.MALLOC:
                sizes.begin_block(block.address)
                begun.append(block)
            elif kind == EventKind.FREE_COMPLETED:
                finish()
                sizes.end_block(block.address)
        finish()
        return worked_out, odd


class _Segments:
    """Memory that the allocator has from the driver, in pieces that begin and end as one."""

    def __init__(self) -> None:
        self.all: list[_Block] = []
        self._begins: list[int] = []
        self._alive: dict[int, _Block] = {}

    def begin(self, row: int, address: int, size: int) -> None:
        """Take in a segment, or what one grows by."""
        for piece in self._cut_out(address, address + size):
            piece.free, piece.is_free_unseen = row, True
        if size:
            self._add(_Block(row, Pool.HAL, address, size, row))

    def end(self, row: int, address: int, size: int) -> None:
        """End the memory between two addresses. Memory that was not known is older."""
        pieces = self._cut_out(address, address + size)
        for begin, end in _uncovered(address, address + size, pieces):
            self.all.append(_Block(row, Pool.HAL, begin, end - begin, BEFORE, free=row))
        for piece in pieces:
            piece.free = row

    def present(self, row: int, address: int, size: int) -> None:
        """Take in a segment that is there at the end. The parts of it that are not known are older."""
        pieces = self._cut_out(address, address + size)
        for piece in pieces:
            self._keep(piece)
        for begin, end in _uncovered(address, address + size, pieces):
            self._add(_Block(row, Pool.HAL, begin, end - begin, BEFORE))

    def _add(self, piece: _Block) -> None:
        self.all.append(piece)
        self._keep(piece)

    def _keep(self, piece: _Block) -> None:
        bisect.insort(self._begins, piece.address)
        self._alive[piece.address] = piece

    def _cut_out(self, address: int, end: int) -> list[_Block]:
        """Take the memory between two addresses out of the live pieces. Pieces that reach further are cut in two."""
        first = bisect.bisect_right(self._begins, address) - 1
        if first < 0 or self._end_of(first) <= address:
            first += 1
        last = bisect.bisect_left(self._begins, end)
        pieces = [self._alive.pop(begin) for begin in self._begins[first:last]]
        del self._begins[first:last]
        for piece in (pieces[:1], pieces[-1:]):
            for cut in piece:
                self._trim(cut, address, end)
        return pieces

    def _end_of(self, index: int) -> int:
        piece = self._alive[self._begins[index]]
        return piece.address + piece.size

    def _trim(self, piece: _Block, address: int, end: int) -> None:
        """Cut a piece to the part between two addresses. The parts that are cut off stay alive."""
        if piece.address < address:
            self._add(replace(piece, size=address - piece.address))
            piece.size -= address - piece.address
            piece.address = address
        if piece.address + piece.size > end:
            self._add(replace(piece, address=end, size=piece.address + piece.size - end))
            piece.size = end - piece.address


def _uncovered(begin: int, end: int, pieces: list[_Block]) -> list[tuple[int, int]]:
    """Return what lies between two addresses and in none of some pieces, which are in order."""
    found = []
    for piece in pieces:
        if begin < piece.address:
            found.append((begin, piece.address))
        begin = piece.address + piece.size
    if begin < end:
        found.append((begin, end))
    return found

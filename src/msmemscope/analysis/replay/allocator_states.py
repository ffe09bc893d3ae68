"""A caching allocator's states when collection began: entries that lead to them, and the parts of its segments."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import polars as pl

from msmemscope.model.caching_allocator import SMALL_SEGMENT_BYTES
from msmemscope.model.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msmemscope.recording import Recording

ALLOC: Final = int(EventKind.ALLOCATOR_ALLOC)
GROWTH: Final = (int(EventKind.SEGMENT_ALLOC), int(EventKind.SEGMENT_MAP))
"""Kinds of entries with which the allocator gets memory from the driver."""
_FREE: Final = int(EventKind.ALLOCATOR_FREE)
_COMPLETED: Final = int(EventKind.ALLOCATOR_FREE_COMPLETED)
_MAPS: Final = (int(EventKind.SEGMENT_MAP), int(EventKind.SEGMENT_UNMAP))
_SMALL: Final = "small"
"""Name of a segment for small blocks in a state."""

_FREE_PART, _USED_PART, _WAITING_PART = range(3)
"""Kinds of parts of a segment; values as in `native/offline/replay/allocator_model.h`."""
PART_SCHEMA: Final = pl.Schema(
    {
        "state": pl.UInt32(),
        "segment_address": pl.UInt64(),
        "address": pl.UInt64(),
        "bytes": pl.UInt64(),
        "stream_id": pl.Int64(),
        "pool_id": pl.String(),
        "block": pl.UInt64(),
        "use": pl.UInt8(),
        "is_small": pl.Boolean(),
        "is_expandable": pl.Boolean(),
    }
)
"""state: number of it. block: `sequence` of the block's row that begins it; null of free parts."""
ENTRY_SCHEMA: Final = pl.Schema(
    {
        "place": pl.UInt64(),
        "part": pl.Int8(),
        "sequence": pl.UInt64(),
        "kind": pl.UInt8(),
        "address": pl.UInt64(),
        "size": pl.Int64(),
        "stream_id": pl.Int64(),
        "pool_id": pl.String(),
        "requested_bytes": pl.Int64(),
        "malloc": pl.UInt64(),
        "window": pl.UInt32(),
        "leads": pl.Boolean(),
    }
)
"""place: the event that an entry stands at or right before; part: among those of one place.
size: of a block the bytes that it takes. malloc: number of its MALLOC.
window: number of states before it. leads: whether it leads from the last known state to the next one.
"""
_SEGMENTS, _STATE, _LEFT, _CAME, OWN = range(-4, 1)
"""Values of `part`: segments of a state, the state, blocks that are gone by then, blocks that came, entries of their own."""


def with_attributes(recording: Recording, entries: pl.DataFrame) -> pl.DataFrame:
    """Add `pool_id` and `asked_bytes`, null where they are not known."""
    names = recording.attributes
    known = [
        (pl.col(name) if name in names.columns else pl.lit(None)).cast(dtype).alias(alias)
        for name, dtype, alias in (
            ("pool_id", pl.String(), "pool_id"),
            ("requested_bytes", pl.Int64(), "asked_bytes"),
        )
    ]
    return entries.join(
        names.select("attribute_id", *known), on="attribute_id", how="left", maintain_order="left"
    ).with_columns(stream_id=pl.col("extra").cast(pl.Int64, strict=False))


@dataclasses.dataclass
class _Known:
    """A block that was not completely freed when it was heard of last."""

    begin: int
    """Number of its entry."""
    malloc: int | None
    kind: int
    """Of the entry that was the last one about it."""


class _Held(NamedTuple):
    """A row of a state."""

    sequence: int
    kind: int
    address: int
    size: int
    """The number of the state, of rows that stand for the state itself."""
    name: str | None = None
    stream_id: int | None = None
    pool_id: str | None = None
    asked_bytes: int | None = None


class AllocatorStates:
    """An allocator's states when collection began: entries that lead to them, and the parts of its segments.

    Args:
        recording: Of the process.
        held: Its rows, of all states.
        moments: Before which event each state stands, and how many rows it has.
        own: The entries of their own.
        blocks: MALLOC and FREE of the pool.
    """

    def __init__(
        self,
        recording: Recording,
        held: pl.DataFrame,
        moments: Sequence[tuple[int, int]],
        own: pl.DataFrame,
        blocks: pl.DataFrame,
    ) -> None:
        """Read them one after the other."""
        self._entries: list[tuple[Any, ...]] = []
        self._parts: list[tuple[Any, ...]] = []
        self._known: dict[int, _Known] = {}
        rows = with_attributes(recording, held).join(
            recording.strings.select(name_id="id", name="text"), on="name_id", how="left", maintain_order="left"
        )
        rows = rows.sort("sequence")
        first = 0
        for number, (moment, count) in enumerate(moments):
            self._follow(own.filter(pl.col("window") == number))
            state = _State(number, moment, self._known, _mallocs_at(blocks, moment))
            for row in rows.slice(first, count).select(_Held._fields).iter_rows():
                state.take(_Held(*row))
            self._entries += state.finished_entries()
            self._known = state.known
            mapped = own.filter((pl.col("window") == number + 1) & pl.col("kind").is_in(_MAPS))
            self._parts += state.parts(mapped)
            first += count

    @property
    def entries(self) -> pl.DataFrame:
        """The entries that lead to the states, of ENTRY_SCHEMA."""
        return pl.DataFrame(self._entries, schema=ENTRY_SCHEMA, orient="row")

    @property
    def parts(self) -> pl.DataFrame:
        """Of PART_SCHEMA."""
        return pl.DataFrame(self._parts, schema=PART_SCHEMA, orient="row")

    def _follow(self, own: pl.DataFrame) -> None:
        """Take in the events of blocks in a window."""
        last = own.filter(pl.col("kind").is_in([ALLOC, _FREE, _COMPLETED])).with_columns(
            begin=pl.when(pl.col("kind") == ALLOC).then("sequence").forward_fill().over("address"),
            malloc=pl.col("malloc").forward_fill().over("address"),
        )
        last = last.unique("address", keep="last", maintain_order=True)
        for address, kind, begin, malloc in last.select("address", "kind", "begin", "malloc").iter_rows():
            if kind == _COMPLETED:
                self._known.pop(address, None)
            elif begin is not None:
                self._known[address] = _Known(begin, malloc, kind)
            elif address in self._known:
                self._known[address].kind = kind


class _State:
    """One of them, read row by row: a segment, and the blocks in it behind it.

    Args:
        number: Its number.
        moment: The event before which it stands.
        before: Blocks by address that were known last.
        mallocs: Numbers of MALLOCs by address, of blocks in use.
    """

    def __init__(self, number: int, moment: int, before: dict[int, _Known], mallocs: dict[int, int]) -> None:
        """Without any row yet."""
        self._number, self._moment = number, moment
        self._before, self._mallocs = before, mallocs
        self.known: dict[int, _Known] = {}
        """The blocks that are known now."""
        self._entries = [self._entry(_STATE, _Held(moment, int(EventKind.SNAPSHOT), 0, number))]
        self._came: list[tuple[Any, ...]] = []
        self._groups: dict[tuple[Any, ...], list[tuple[int, int, int | None, int]]] = {}
        """Stream, pool, whether small and whether expandable, and the address of those that are not -> address, bytes, block
        and use of parts."""
        self._here = self._end = 0
        """Of the segment: up to where it is known, and where it ends."""
        self._inside: list[tuple[int, int, int | None, int]] = []

    def take(self, row: _Held) -> None:
        """Take the next row in."""
        address, is_waiting = row.address, row.kind == _FREE
        if row.kind in GROWTH:
            self._skip_to(self._end)
            is_expandable = row.kind == int(EventKind.SEGMENT_MAP)
            key = (row.stream_id, row.pool_id, row.name == _SMALL, is_expandable, None if is_expandable else address)
            self._inside = self._groups.setdefault(key, [])
            self._here, self._end = address, address + row.size
            self._entries.append(self._entry(_SEGMENTS, row))
            return
        self._skip_to(address)
        self._here = address + row.size
        malloc = self._mallocs.get(address)
        known = self._before.pop(address, None)
        if known is not None and (known.malloc != malloc or (known.kind == _FREE and not is_waiting)):
            self._leave(address, known)
            known = None
        if known is None:
            self._came.append(self._entry(_CAME, row._replace(kind=ALLOC), malloc))
        if is_waiting and (known is None or known.kind == ALLOC):
            self._came.append(self._entry(_CAME, row))
        begin = row.sequence if known is None else known.begin
        self.known[address] = _Known(begin, malloc, row.kind)
        self._inside.append((address, row.size, begin, _WAITING_PART if is_waiting else _USED_PART))

    def finished_entries(self) -> list[tuple[Any, ...]]:
        """End it, and return the entries that lead to it, of ENTRY_SCHEMA."""
        self._skip_to(self._end)
        for address, known in self._before.items():
            self._leave(address, known)
        return [*self._entries, *self._came]

    def parts(self, mapped: pl.DataFrame) -> list[tuple[Any, ...]]:
        """Return its parts, of PART_SCHEMA.

        Args:
            mapped: The addresses that were mapped and unmapped after it.
        """
        found: list[tuple[Any, ...]] = []
        for (stream, pool, is_small, is_expandable, base), inside in self._groups.items():
            inside.sort(key=lambda part: part[:2])
            begin = base
            if is_expandable and inside:
                same = (pl.col("stream_id") == stream) & pl.col("pool_id").eq_missing(pl.lit(pool, dtype=pl.String))
                later = mapped.filter(same).select("kind", "address", "size")
                begin = _lowest_address(later, inside, is_small=is_small)
            found += [
                (self._number, begin, address, size, stream, pool, block, use, is_small, is_expandable)
                for address, size, block, use in inside
            ]
        return found

    def _entry(self, part: int, row: _Held, malloc: int | None = None) -> tuple[Any, ...]:
        """An entry that leads to it, of ENTRY_SCHEMA."""
        what = (row.sequence, row.kind, row.address, row.size, row.stream_id, row.pool_id, row.asked_bytes)
        return self._moment, part, *what, malloc, self._number + 1, True

    def _skip_to(self, address: int) -> None:
        """The segment is free up to an address."""
        if self._here < address:
            self._inside.append((self._here, address - self._here, None, _FREE_PART))

    def _leave(self, address: int, known: _Known) -> None:
        """A block was freed while nobody looked."""
        for kind in (_FREE, _COMPLETED):
            if known.kind == ALLOC or kind == _COMPLETED:
                self._entries.append(self._entry(_LEFT, _Held(self._moment, kind, address, 0)))


def _mallocs_at(blocks: pl.DataFrame, moment: int) -> dict[int, int]:
    """Return the number of the MALLOC by address of blocks in use at a moment."""
    is_malloc = pl.col("kind") == int(EventKind.MALLOC)
    until = blocks.filter(pl.col("sequence") <= moment)
    freed = until.filter(~is_malloc)["extra"]
    before = until.filter(is_malloc & ~pl.col("sequence").is_in(freed.implode()))
    return dict(before.unique("address", keep="last", maintain_order=True).select("address", "sequence").iter_rows())


def _lowest_address(mapped: pl.DataFrame, held: Sequence[tuple[Any, ...]], *, is_small: bool) -> int:
    """Return where an expandable segment begins, as far as it shows.

    A snapshot has its mapped parts. Where the allocator unmapped its begin, it grows there first when there is need. If
    it grows there later, the segment reaches down to it. If it does not, it makes no difference.

    Args:
        mapped: The addresses that were mapped and unmapped after the state, for the same stream and pool.
        held: The addresses that were mapped then.
        is_small: Whether it is for small blocks: these grow by smaller pieces.
    """
    lowest, end = held[0][0], held[-1][0] + held[-1][1]
    mapped_bytes = sum(part[1] for part in held)
    for kind, address, size in mapped.iter_rows():
        if kind == int(EventKind.SEGMENT_UNMAP):
            mapped_bytes -= size if lowest <= address < end else 0
            if mapped_bytes <= 0:
                break  # the segment is gone
        elif (size <= SMALL_SEGMENT_BYTES) == is_small:
            mapped_bytes += size
            lowest, end = min(lowest, address), max(end, address + size)
    return int(lowest)

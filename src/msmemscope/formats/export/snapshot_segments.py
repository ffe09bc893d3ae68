"""The segments of a snapshot: memory that the allocator has from the driver, and the blocks in it at the end.

A viewer looks for the segment of each block and fails where there is none. The driver's memory may not have been
observed, or a block may lie in none of its blocks. Then each stretch of addresses that blocks had gets a made-up
segment, as if it had been there all the time.
"""

from __future__ import annotations

import bisect
import dataclasses
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import polars as pl

from msmemscope.model.pools import Pool

if TYPE_CHECKING:
    from msmemscope.recording import Recording

Addresses: TypeAlias = "np.ndarray[Any, np.dtype[np.uint64]]"

NOWHERE: Final = -1
_FEW: Final = 16
"""Looking for one block takes as long as making this many entries of an array."""
_MOST_ADDRESS: Final = (1 << 62) - 1
_LATEST: Final = np.iinfo(np.uint64).max
_GAP_BYTES: Final = 2 << 20
"""Stretches that lie nearer to each other are one: as large as the smallest segments of PyTorch's allocators."""

ALLOCATED: Final = "active_allocated"
WAITING: Final = "active_pending_free"
INACTIVE: Final = "inactive"
SEGMENT_SCHEMA: Final = pl.Schema(
    {"segment": pl.Int64(), "address": pl.UInt64(), "size": pl.Int64(), "malloc_sequence": pl.UInt64()}
)
"""One row per segment at the end, by address: its number, and the block of the driver that it is; null if made up."""
PLACED_SCHEMA: Final = pl.Schema(
    {
        "segment": pl.Int64(),
        "address": pl.UInt64(),
        "size": pl.Int64(),
        "state": pl.String(),
        "malloc_sequence": pl.UInt64(),
    }
)
"""One row per block of a segment at the end, in their order, without gaps and overlaps; `malloc_sequence` is null of
inactive ones."""


@dataclasses.dataclass(frozen=True)
class Segments:
    """The segments of one pool of a device."""

    of_driver: pl.DataFrame
    """Rows of blocks: those of the driver that are segments, whether or not they are there at the end."""
    at_end: pl.DataFrame
    """SEGMENT_SCHEMA."""
    placed: pl.DataFrame
    """PLACED_SCHEMA."""


def with_possible_addresses(blocks: pl.DataFrame) -> pl.DataFrame:
    """Return blocks with addresses of 62 bits: no memory has higher ones, and with a size added they would leave 64 bits."""
    return blocks.with_columns(pl.col("address") & pl.lit(_MOST_ADDRESS, dtype=pl.UInt64))


def segments_of(recording: Recording, blocks: pl.DataFrame, device: int) -> Segments:
    """Find the segments of a pool.

    Args:
        recording: Of the process.
        blocks: Those of the pool on the device, of more than no bytes, `with_possible_addresses`.
        device: The device.
    """
    is_of_driver = (pl.col("pool") == Pool.HAL) & (pl.col("device") == device) & (pl.col("size") > 0)
    driver = with_possible_addresses(recording.blocks.filter(is_of_driver))
    if blocks["pool"].first() == Pool.HAL:
        driver = driver.clear()
    holders = _holders(driver, blocks)
    is_held = holders != NOWHERE
    mapped = is_mapped(recording, driver)
    if recording.form != "torch snapshot":  # there the driver's memory is that of the allocator alone
        # A block may begin in one piece of a segment that grows and end in another one.
        rows = np.union1d(holders[is_held], np.flatnonzero(mapped.to_numpy()))
        driver, mapped = driver[rows], mapped.gather(rows)
    arenas = _stretches(blocks.filter(pl.Series(~is_held)))
    kept = driver.with_columns(is_mapped=mapped).filter(pl.col("free_sequence").is_null())
    segments = pl.concat([_merged(kept), arenas]).sort("address", maintain_order=True)
    alive = blocks.filter(pl.col("returned_sequence").is_null()).sort("address", maintain_order=True)
    at_end, placed = _placed(segments, alive)
    return Segments(driver, at_end, placed)


def is_mapped(recording: Recording, driver: pl.DataFrame) -> pl.Series:
    """Return whether blocks of the driver are pieces of segments that grow."""
    events = recording.events.select(malloc_sequence="sequence", attribute="attribute_id")
    kinds = recording.attributes.select(attribute="attribute_id", allocation_kind="allocation_kind")
    found = (
        driver.select("malloc_sequence")
        .join(events, on="malloc_sequence", how="left", maintain_order="left")
        .join(kinds, on="attribute", how="left", maintain_order="left")
    )
    return (found["allocation_kind"] == "map").fill_null(value=False)


def _merged(driver: pl.DataFrame) -> pl.DataFrame:
    """Return segments: pieces of those that grow are one where they touch each other.

    Args:
        driver: Blocks of the driver that are there at the end, with `is_mapped`.
    """
    ordered = driver.sort("address", maintain_order=True).with_columns(end=_end())
    touches = pl.col("is_mapped") & pl.col("is_mapped").shift(1) & (pl.col("address") == pl.col("end").shift(1))
    return (
        ordered.group_by((~touches.fill_null(value=False)).cum_sum().alias("run"), maintain_order=True)
        .agg(pl.col("address", "malloc_sequence").first(), pl.col("size").sum())
        .select("address", "size", "malloc_sequence")
    )


def _end() -> pl.Expr:
    return pl.col("address") + pl.col("size").cast(pl.UInt64)


def _holders(driver: pl.DataFrame, blocks: pl.DataFrame) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return for each block the row of the driver's block that it lay in when it was allocated, or NOWHERE."""
    found = np.full(len(blocks), NOWHERE, np.int64)
    if driver.is_empty():
        return found
    changes = sorted(
        [(sequence, row, True) for row, sequence in enumerate(driver["malloc_sequence"])]
        + [(sequence, row, False) for row, sequence in enumerate(driver["free_sequence"]) if sequence is not None]
    )
    begins, sizes = driver["address"].to_list(), driver["size"].to_list()
    addresses = blocks["address"].to_numpy()
    ends = addresses + blocks["size"].to_numpy().astype(np.uint64)
    moments = blocks["malloc_sequence"].to_numpy()
    starts: list[int] = []
    rows: dict[int, int] = {}
    first = 0
    # Between two changes of the driver's memory, what is alive of it stays the same.
    for sequence, row, is_begin in [*changes, (int(_LATEST), 0, True)]:
        last = int(np.searchsorted(moments, sequence))
        if starts and last - first > len(starts) // _FEW:
            found[first:last] = _inside(starts, rows, sizes, addresses[first:last], ends[first:last])
        elif starts:
            # Few blocks among many pieces: each is looked for by itself, since arrays of all pieces take longer.
            for block in range(first, last):
                found[block] = _holder(starts, rows, sizes, int(addresses[block]), int(ends[block]))
        first = max(first, last)
        if sequence == int(_LATEST):
            break
        begin = begins[row]
        if is_begin and sizes[row]:
            if begin not in rows:
                bisect.insort(starts, begin)
            rows[begin] = row
        elif rows.get(begin) == row:
            del rows[begin]
            del starts[bisect.bisect_left(starts, begin)]
    return found


def _holder(starts: list[int], rows: dict[int, int], sizes: list[int], address: int, end: int) -> int:
    """Return the row of the piece that a block begins in, NOWHERE if it does not lie in it and those that touch it."""
    place = bisect.bisect_right(starts, address) - 1
    if place < 0:
        return NOWHERE
    reached = starts[place] + sizes[rows[starts[place]]]
    following = place + 1
    while address < reached < end and following < len(starts) and starts[following] == reached:
        reached += sizes[rows[starts[following]]]
        following += 1
    return rows[starts[place]] if address < reached and end <= reached else NOWHERE


def _inside(
    starts: list[int], rows: dict[int, int], sizes: list[int], addresses: Addresses, ends: Addresses
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the same as `_holder`, of many blocks."""
    alive = np.array(starts, np.uint64)
    holders = np.array([rows[start] for start in starts], np.int64)
    limits = alive + np.array([sizes[row] for row in holders], np.uint64)
    # Where pieces touch, what lies in all of them reaches to the end of the last.
    is_last = np.append(alive[1:] != limits[:-1], np.bool_(1))
    run_ends = limits[is_last][np.cumsum(is_last) - is_last]
    places = np.searchsorted(alive, addresses, side="right") - 1
    known = np.maximum(places, 0)
    fits = (places >= 0) & (addresses < limits[known]) & (ends <= run_ends[known])
    return np.where(fits, holders[known], NOWHERE)


def _stretches(blocks: pl.DataFrame) -> pl.DataFrame:
    """Return the stretches of addresses that blocks had: `address`, `size`, and `malloc_sequence`, which is null."""
    ordered = blocks.select("address", end=_end()).sort("address")
    reached = pl.col("end").cum_max().shift(1)
    is_first = (pl.col("address") > reached + _GAP_BYTES).fill_null(value=True)
    merged = ordered.group_by(is_first.cum_sum().alias("stretch")).agg(pl.col("address").min(), pl.col("end").max())
    return merged.select(
        "address",
        size=(pl.col("end") - pl.col("address")).cast(pl.Int64),
        malloc_sequence=pl.lit(None, dtype=pl.UInt64),
    )


def _placed(segments: pl.DataFrame, alive: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Put blocks into segments, with the gaps between them.

    Args:
        segments: `address`, `size`, `malloc_sequence`, by address.
        alive: Blocks, by address.
    """
    segments = segments.with_row_index("segment").cast({"segment": pl.Int64})
    begins = segments["address"].to_numpy()
    ends = begins + segments["size"].to_numpy().astype(np.uint64)
    addresses = alive["address"].to_numpy()
    behind = addresses + alive["size"].to_numpy().astype(np.uint64)
    place = np.searchsorted(begins, addresses, side="right") - 1
    fits = place >= 0
    fits[fits] = behind[fits] <= ends[place[fits]]
    # A damaged recording may say that blocks overlap: whoever comes later has a segment of its own.
    reached = np.append(np.zeros(1, np.uint64), np.maximum.accumulate(behind)[:-1]) if len(behind) else behind
    fits &= addresses >= reached
    own = np.flatnonzero(~fits)
    place[own] = len(segments) + np.arange(len(own))
    odd = alive[own].select("address", "size", pl.lit(None, dtype=pl.UInt64).alias("malloc_sequence"))
    odd = odd.with_columns(segment=pl.int_range(len(segments), len(segments) + len(odd), dtype=pl.Int64))
    all_segments = pl.concat([segments, odd.select(segments.columns)]).select(SEGMENT_SCHEMA.names())
    blocks = alive.select(
        pl.Series("segment", place, dtype=pl.Int64),
        "address",
        "size",
        state=pl.when(pl.col("free_sequence").is_null()).then(pl.lit(ALLOCATED)).otherwise(pl.lit(WAITING)),
        malloc_sequence="malloc_sequence",
    )
    # The space between the end of one thing and the begin of the next is free.
    bounds = all_segments.select("segment", segment_begin="address", segment_bytes="size")
    used = blocks.join(bounds, on="segment", how="left", maintain_order="left").sort("segment", "address")
    end = pl.col("address") + pl.col("size").cast(pl.UInt64)
    before = used.select(
        "segment", begin=end.shift(1).over("segment").fill_null(pl.col("segment_begin")), end="address"
    )
    last = bounds.join(
        used.group_by("segment").agg(begin=end.max()), on="segment", how="left", maintain_order="left"
    ).select(
        "segment",
        begin=pl.col("begin").fill_null(pl.col("segment_begin")),
        end=pl.col("segment_begin") + pl.col("segment_bytes").cast(pl.UInt64),
    )
    gaps = pl.concat([before, last]).filter(pl.col("end") > pl.col("begin"))
    free = gaps.select(
        "segment",
        address="begin",
        size=(pl.col("end") - pl.col("begin")).cast(pl.Int64),
        state=pl.lit(INACTIVE),
        malloc_sequence=pl.lit(None, dtype=pl.UInt64),
    )
    return (
        all_segments.cast(SEGMENT_SCHEMA),
        pl.concat([blocks, free]).sort("segment", "address").cast(PLACED_SCHEMA),
    )

"""Blocks as rectangles: time and address, or time and stacked bytes."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope import _native
from msmemscope.reports.html.shown_text import shown
from msmemscope.view.index.ordered import count_up_to, counts_below, counts_up_to
from msmemscope.view.index.store import NEVER
from msmemscope.view.queries.frame import Frame
from msmemscope.view.queries.python_text import blocks_text
from msmemscope.view.queries.sums import sums_by_code

if TYPE_CHECKING:
    from typing import TypeAlias

    from msmemscope.view.queries.process_view import PoolView, Window

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

LAYOUTS: Final = ("address", "stacked")
BY_AGE: Final = "age"
BY_SIZE: Final = "size"
MOST_RECTANGLES: Final = 100_000
_MOST_COLOURS: Final = 40
"""Groups with a colour of their own."""
_SHADES: Final = 255
_SMALL_COLUMNS: Final = 800
_PIECES_OF_BLOCK: Final = 4
"""Pieces that a block of a stack has, as a rule, at least."""
RECTANGLE_SCHEMA: Final = pl.Schema(
    {
        "block": pl.UInt32(),
        "begin": pl.Int64(),
        "end": pl.Int64(),
        "low": pl.Int64(),
        "high": pl.Int64(),
        "colour": pl.UInt32(),
        "is_never_freed": pl.Boolean(),
    }
)
"""One row per rectangle: positions on the axis, and bytes from the base of the pool, or of the stack."""


@dataclasses.dataclass(frozen=True)
class Map:
    """The part of a picture of blocks that is asked for."""

    layout: str
    low: int | None
    """Vertical part, in bytes; None for its own ends."""
    high: int | None
    most: int
    """Rectangles, at most."""
    colour: str
    """A grouping, BY_AGE or BY_SIZE."""


def block_map(pool: PoolView, window: Window, asked: Map) -> Frame:
    """Return the blocks of a window as rectangles; `api/blocks` in ui/PROTOCOL.md."""
    first, last = window.first_row, window.last_row
    places = pool.intervals.heaviest(first, last, asked.most)
    is_stacked = asked.layout == "stacked"
    base = pool.facts["base_address"]
    lows = (pool.of_blocks("addresses")[places] - np.uint64(base)).astype(np.int64)
    sizes = pool.of_blocks("sizes")[places]
    total = pool.intervals.count(first, last)
    if not is_stacked and (asked.low is not None or asked.high is not None):
        low, high = asked.low or 0, pool.facts["address_bytes"] if asked.high is None else asked.high
        if len(places) < total:
            places = _in_addresses(pool, (first, last), (low, high))
            lows = (pool.of_blocks("addresses")[places] - np.uint64(base)).astype(np.int64)
            sizes = pool.of_blocks("sizes")[places]
        is_there = (lows < high) & (lows + sizes > low)
        places, lows, sizes = places[is_there], lows[is_there], sizes[is_there]
        total = len(places)
    else:
        low, high = 0, pool.facts["peak_bytes"] if is_stacked else pool.facts["address_bytes"]
    begins, ends = _positions(pool, places, window.axis)
    lasted = np.minimum(ends, window.end) - np.maximum(begins, window.begin) + 1.0
    order = np.argsort(-(lasted * sizes), kind="stable")[: asked.most]
    places, lows, sizes, begins, ends = (part[order] for part in (places, lows, sizes, begins, ends))
    small_columns = None
    if is_stacked:
        pieces, count = _stacked(pool, places, asked.most)
        places, lows, sizes, begins, ends = (part[:count] for part in (places, lows, sizes, begins, ends))
        small_columns = _small_columns(pool, window, places)
    colours, info = _colours(pool, places, window, asked.colour)
    table: dict[str, Any] = {
        "block": places + pool.blocks.start,
        "begin": begins,
        "end": ends,
        "low": lows,
        "high": lows + sizes,
        "colour": colours,
        "is_never_freed": pool.of_blocks("end_rows")[places] == NEVER,
    }
    if is_stacked:
        members, begin_rows, end_rows, lows = pieces
        table = {name: values[members] for name, values in table.items()} | {
            "begin": pool.process.positions(begin_rows, window.axis),
            "end": pool.process.positions(end_rows, window.axis),
            "low": lows,
            "high": lows + sizes[members],
        }
    shown_bytes = int(sizes.sum())
    all_bytes = shown_bytes if total == len(places) else _bytes_of(pool, first, last)
    return Frame(
        {
            "shown": len(places),
            "small": {
                "blocks": total - len(places),
                "bytes": all_bytes - shown_bytes,
                "byte_share": (all_bytes - shown_bytes) / all_bytes if all_bytes else 0.0,
            },
            "colours": info,
            "low": low,
            "high": high,
            "small_columns": small_columns,
            "python": blocks_text(pool, first, last),
        },
        pl.DataFrame(table, RECTANGLE_SCHEMA),
    )


def _positions(pool: PoolView, places: Numbers, axis: str) -> tuple[Numbers, Numbers]:
    process = pool.process
    return tuple(process.positions(pool.of_blocks(name)[places], axis) for name in ("begin_rows", "end_rows"))  # type: ignore[return-value]


def _in_addresses(pool: PoolView, rows: tuple[int, int], addresses: tuple[int, int]) -> Numbers:
    """All blocks of a window in a part of the addresses."""
    base = np.uint64(pool.facts["base_address"])
    begun = count_up_to(pool.intervals.begins, rows[1])
    lows = pool.of_blocks("addresses")[:begun] - base
    is_there = lows < max(addresses[1], 0)
    is_there &= lows + pool.of_blocks("sizes")[:begun].view(np.uint64) > max(addresses[0], 0)
    is_there &= pool.intervals.ends[:begun] > rows[0]
    return np.flatnonzero(is_there)


def _bytes_of(pool: PoolView, first: int, last: int) -> int:
    """The bytes of all blocks that are in use in a window: those in use when it begins, and those allocated in it."""
    begins = pool.intervals.begins
    behind, until = (count_up_to(begins, row) for row in (first, last))
    return pool.in_use_at(first) + int(pool.of_blocks("sizes")[behind:until].sum())


def _stacked(pool: PoolView, places: Numbers, most: int) -> tuple[tuple[Numbers, Numbers, Numbers, Numbers], int]:
    """The pieces of the stack of the first blocks, as many as there is room for, and how many blocks these are.

    Blocks lie on each other in the order of their allocation; where one ends, those above it come down, and go on as another
    piece.
    """
    begins, ends, sizes = (pool.of_blocks(name)[places] for name in ("begin_rows", "end_rows", "sizes"))
    count = min(len(places), max(most // _PIECES_OF_BLOCK, 1))
    while True:
        order = np.argsort(begins[:count], kind="stable")
        found: Any = _native.stacked_pieces(begins[order], ends[order], sizes[order], most)
        if found is not None:
            members, piece_begins, piece_ends, lows = found
            return (order[members], piece_begins, piece_ends, lows), count
        count //= 2


def _small_columns(pool: PoolView, window: Window, places: Numbers) -> dict[str, list[int]]:
    """The bytes in use over time that are shown, and those that are not."""
    process = pool.process
    edges = np.linspace(window.begin, window.end, _SMALL_COLUMNS + 1)
    rows = process.rows_before(edges[:-1], window.axis)
    last_rows = np.append(rows[1:], window.last_row + 1)
    first = counts_below(pool.rows, rows)
    last = np.maximum(counts_below(pool.rows, last_rows), first)
    states = pool.highest.places(first, last)
    moments = np.where(states > first, pool.rows[np.maximum(states - 1, 0)].astype(np.int64), rows - 1)
    begins, ends, sizes = (pool.of_blocks(name)[places] for name in ("begin_rows", "end_rows", "sizes"))
    changes = np.concatenate([sizes, -sizes])
    at = np.concatenate([begins, ends]).astype(np.int64)
    order = np.argsort(at, kind="stable")
    totals = np.concatenate([[0], np.cumsum(changes[order])])
    shown_bytes = totals[counts_up_to(at[order], moments)]
    positions = np.where(states > first, process.positions(moments, window.axis), np.round(edges[:-1]).astype(np.int64))
    return {
        "position": positions.tolist(),
        "shown": shown_bytes.tolist(),
        "bytes": (pool.in_use[states] - shown_bytes).tolist(),
    }


def _colours(pool: PoolView, places: Numbers, window: Window, colour: str) -> tuple[Numbers, list[dict[str, Any]]]:
    if colour == BY_SIZE:
        return _shades(np.log2(np.maximum(pool.of_blocks("sizes")[places], 1).astype(np.float64))), []
    if colour == BY_AGE:
        begins, ends = _positions(pool, places, window.axis)
        return _shades(np.log2(np.maximum(ends - begins, 1).astype(np.float64))), []
    process = pool.process
    labels, codes = process.labels(colour), pool.codes(colour)[places]
    sums = sums_by_code(codes, pool.of_blocks("sizes")[places], len(labels))
    largest = [int(code) for code in np.argsort(-sums, kind="stable")[:_MOST_COLOURS] if sums[code] > 0]
    numbers = np.full(len(labels), len(largest), dtype=np.uint32)
    numbers[largest] = np.arange(len(largest))
    names: list[dict[str, Any]] = [{"name": shown(labels[code]), "key": code} for code in largest]
    if (numbers[codes] == len(largest)).any():
        names.append({"name": "(others)", "key": None})
    return numbers[codes], names


def _shades(values: Numbers) -> Numbers:
    """Numbers from 0 to _SHADES."""
    if not len(values):
        return values.astype(np.uint32)
    low, high = float(values.min()), float(values.max())
    return np.round((values - low) * (_SHADES / (high - low)) if high > low else np.zeros(len(values))).astype(
        np.uint32
    )

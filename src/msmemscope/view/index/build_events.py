"""The events of an index, as arrays that are never in memory as a whole; and which block each event is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from msmemscope.model.events import EventKind
from msmemscope.view.index.store import NEVER

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from msmemscope.recording import Recording
    from msmemscope.reports.html.time_axis import TimeAxis
    from msmemscope.view.index.store import IndexWriter

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

_PIECE_ROWS: Final = 1 << 20
"""Events that are looked at together."""
_ACCESSES: Final = (EventKind.ACCESS_READ, EventKind.ACCESS_WRITE, EventKind.ACCESS_UNKNOWN)
_OF_BLOCKS: Final = (EventKind.MALLOC, EventKind.FREE, EventKind.FREE_COMPLETED, *_ACCESSES)
"""Events that are about a block: their `extra`, or of the first kind their own number, names it."""


def put_events(recording: Recording, axis: TimeAxis, malloc_sequences: Numbers, writer: IndexWriter) -> None:
    """Write the events of a process.

    Args:
        recording: The process.
        axis: Its axis.
        malloc_sequences: Of its blocks, by number.
        writer: Gets the arrays.
    """
    events, put, count = recording.events, writer.put, recording.events.height
    put("events/sequences", events["sequence"].to_numpy())
    moments = axis.moments if axis.is_time else axis.moments[:0]
    writer.put_pieces("events/times", _pieces(moments), np.int64, len(moments))
    for source, name in (
        ("kind", "kinds"), ("pool", "pools"), ("device", "devices"), ("thread_id", "threads"), ("address", "addresses"),
        ("size", "sizes"),
    ):  # fmt: skip
        put(f"events/{name}", events[source].to_numpy())
    used = events["name_id"].unique().sort()
    texts = used.to_frame("id").join(recording.strings, on="id", how="left", maintain_order="left")
    names = (np.searchsorted(used.to_numpy(), piece) for piece in _pieces(events["name_id"].to_numpy()))
    writer.put_pieces("events/names", names, np.uint32, count)
    writer.put_texts("events/labels", texts["text"].fill_null(""))
    _put_blocks_of_events(events, malloc_sequences, writer)


def _put_blocks_of_events(events: pl.DataFrame, malloc_sequences: Numbers, writer: IndexWriter) -> None:
    """Which block each event is about; of each block, the rows of the first and the last access."""
    of_block = _BlocksOfEvents(malloc_sequences)
    columns = (_pieces(events[name].to_numpy()) for name in ("kind", "sequence", "extra"))
    first = np.full(len(malloc_sequences), NEVER, dtype=np.uint32)
    last = first.copy()

    def pieces() -> Iterator[Numbers]:
        begin = 0
        for kinds, sequences, extras in zip(*columns, strict=True):
            numbers = of_block.numbers(kinds, sequences, extras)
            rows = np.flatnonzero(np.isin(kinds, _ACCESSES) & (numbers != NEVER))
            blocks = numbers[rows]
            last[blocks] = rows + begin
            is_new = first[blocks] == NEVER
            # Of several in this piece, the first one is written last.
            first[blocks[is_new][::-1]] = rows[is_new][::-1] + begin
            begin += len(kinds)
            yield numbers

    writer.put_pieces("events/blocks", pieces(), np.uint32, events.height)
    writer.put("blocks/first_access_rows", first)
    writer.put("blocks/last_access_rows", last)


class _BlocksOfEvents:
    """Which block an event is about.

    Args:
        malloc_sequences: Of the blocks.
    """

    def __init__(self, malloc_sequences: Numbers) -> None:
        """Sort them."""
        self._order = np.argsort(malloc_sequences, kind="stable").astype(np.uint32)
        self._known = malloc_sequences[self._order]

    def numbers(self, kinds: Numbers, sequences: Numbers, extras: Numbers) -> Numbers:
        """Return the number of the block of each event, NEVER for none; arguments as the columns of events."""
        found = np.full(len(kinds), NEVER, dtype=np.uint32)
        rows = np.flatnonzero(np.isin(kinds, _OF_BLOCKS))
        if not len(self._known):
            return found
        begun = np.where(kinds[rows] == EventKind.MALLOC, sequences[rows], extras[rows])
        places = np.minimum(np.searchsorted(self._known, begun), len(self._known) - 1)
        is_known = self._known[places] == begun
        found[rows[is_known]] = self._order[places[is_known]]
        return found


def _pieces(values: Numbers) -> Iterator[Numbers]:
    """An array in parts."""
    return (values[begin : begin + _PIECE_ROWS] for begin in range(0, len(values), _PIECE_ROWS))

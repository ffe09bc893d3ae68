"""The block of each row of a dump, the ends of ranges, the running operators: by whole columns, not row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope import _native
from msmemscope.model.events import ACCESS_KINDS, EventKind

if TYPE_CHECKING:
    from typing import TypeAlias

    _Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

_MALLOC, _FREE, _ACCESS, _START, _END = range(1, 6)
"""Roles of rows, as `_native` has them; 0 for all others."""


def _roles() -> _Numbers:
    roles = np.zeros(256, np.uint8)
    roles[EventKind.MALLOC], roles[EventKind.FREE] = _MALLOC, _FREE
    roles[[*ACCESS_KINDS]] = _ACCESS
    roles[[EventKind.ATEN_START, EventKind.ATB_START]] = _START
    roles[[EventKind.ATEN_END, EventKind.ATB_END]] = _END
    return roles


_ROLES: Final = _roles()
"""Of each kind."""
_MOST_ROUNDS: Final = 4_096
"""Blocks that are tried for an access without an id, from its address downwards."""


def block_sequences(rows: pl.DataFrame) -> pl.Series:
    """Return the sequence of the block's MALLOC for each FREE and ACCESS; 0 where there is none, and for other rows.

    A block is known by its allocation id where rows have one. Where they have none, it is the block that was alive at
    the address, in the order of the rows. Pool and device are the same.

    Args:
        rows: `sequence`, `kind`, `pool`, `device`, `address`, `size`, `allocation_id` (0: none), by rising sequence.
    """
    kinds = rows["kind"].to_numpy()
    sequences = rows["sequence"].to_numpy()
    roles = _ROLES[kinds]
    is_access = roles == _ACCESS
    is_concerned = is_access | (roles == _MALLOC) | (roles == _FREE)
    ids = rows["allocation_id"].to_numpy()
    # An id names its block even when the block is gone; an address does not.
    found: _Numbers = _native.blocks_of_rows(roles, ids, sequences)
    without_id = np.flatnonzero(is_concerned & (ids == 0))
    if len(without_id) == 0:
        return pl.Series("extra", found)
    places = (rows["device"].to_numpy().astype(np.int64) << 8) | rows["pool"].to_numpy()
    addresses = rows["address"].to_numpy()
    order = without_id[np.lexsort((addresses[without_id], places[without_id]))]
    keys = [places[order], addresses[order]]
    found[order] = _latest_begins(keys, kinds[order], sequences[order])
    inside = without_id[is_access[without_id] & (found[without_id] == 0)]
    if len(inside):
        _find_around(inside, rows, places, found)
    return pl.Series("extra", found)


def _latest_begins(keys: list[_Numbers], kinds: _Numbers, sequences: _Numbers) -> _Numbers:
    """Return the sequence of the latest MALLOC before each row that has the same keys and is not freed yet, else 0.

    Args:
        keys: The key of a block; rows are sorted by it, and then by sequence.
        kinds: Of the rows.
        sequences: Of the rows.
    """
    if len(kinds) == 0:
        return np.zeros(0, dtype=np.uint64)
    position = np.arange(len(kinds))
    is_malloc, is_free = kinds == EventKind.MALLOC, kinds == EventKind.FREE
    begins = np.maximum.accumulate(np.where(is_malloc, position, -1))
    ends_before = np.concatenate(([-1], np.maximum.accumulate(np.where(is_free, position, -1))[:-1]))
    is_paired = (begins >= 0) & ~is_malloc
    is_paired &= ends_before <= begins
    for key in keys:
        is_paired &= key == key[np.maximum(begins, 0)]
    return np.where(is_paired, sequences[np.maximum(begins, 0)], 0)


def _find_around(accesses: _Numbers, rows: pl.DataFrame, places: _Numbers, found: _Numbers) -> None:
    """Find the blocks of accesses that begin inside of them.

    From the address of an access downwards, one address of a block after the other is tried, for all accesses at once.
    """
    sequences = rows["sequence"].to_numpy()
    addresses = rows["address"].to_numpy()
    sizes = rows["size"].to_numpy().astype(np.uint64)
    lives = np.flatnonzero(rows["kind"].to_numpy() == EventKind.MALLOC)
    if len(lives) == 0:
        return
    ends = _ends_of(lives, rows, found)
    for place in np.unique(places[accesses]).tolist():
        here = lives[places[lives] == place]
        waiting = accesses[places[accesses] == place]
        if len(here) == 0:
            continue
        order = here[np.lexsort((sequences[here], addresses[here]))]
        # The block below an access that was allocated last before it, at each lower address.
        bases, first = np.unique(addresses[order], return_index=True)
        largest = sizes[order].max()
        begun = _BlocksByBase(first, sequences[order])
        moments = begun.ranks_of(sequences[waiting])
        rung = np.searchsorted(bases, addresses[waiting], side="right") - 1
        for _ in range(_MOST_ROUNDS):
            is_near = rung >= 0
            is_near[is_near] = addresses[waiting[is_near]] - bases[rung[is_near]] < largest
            waiting, rung, moments = waiting[is_near], rung[is_near], moments[is_near]
            if len(waiting) == 0:
                break
            last = begun.last_before(rung, moments)
            block = order[np.maximum(last, 0)]
            is_hit = (last >= 0) & (ends[block] > sequences[waiting])
            is_hit &= addresses[waiting] + sizes[waiting] <= addresses[block] + sizes[block]
            found[waiting[is_hit]] = sequences[block[is_hit]]
            waiting, rung, moments = waiting[~is_hit], rung[~is_hit] - 1, moments[~is_hit]


def _ends_of(lives: _Numbers, rows: pl.DataFrame, found: _Numbers) -> _Numbers:
    """Returns, per row, the sequence of the FREE of the block that it begins; the highest number if there is none."""
    sequences = rows["sequence"].to_numpy()
    ends = np.full(len(rows), np.iinfo(np.uint64).max, dtype=np.uint64)
    frees = np.flatnonzero((rows["kind"].to_numpy() == EventKind.FREE) & (found != 0))
    begins = np.searchsorted(sequences[lives], found[frees])
    is_own = begins < len(lives)
    is_own[is_own] = sequences[lives[begins[is_own]]] == found[frees[is_own]]
    ends[lives[begins[is_own]]] = sequences[frees[is_own]]
    return ends


class _BlocksByBase:
    """Blocks by the address where they begin, and then by when they were allocated.

    Args:
        first: Place of the first block at each address.
        sequences: Of the MALLOC of each block.
    """

    def __init__(self, first: _Numbers, sequences: _Numbers) -> None:
        # Ranked by (base, sequence): one sorted array of pairs, searched as numbers of their own.
        self._bases = np.searchsorted(first, np.arange(len(sequences)), side="right") - 1
        self._width = len(sequences) + 1
        self._sequences = np.sort(sequences)
        ranks = np.argsort(np.argsort(sequences, kind="stable"), kind="stable")
        self._keys = self._bases * self._width + ranks

    def ranks_of(self, moments: _Numbers) -> _Numbers:
        """Return how many blocks were allocated before each moment."""
        return np.searchsorted(self._sequences, moments)

    def last_before(self, bases: _Numbers, ranks: _Numbers) -> _Numbers:
        """Return the place of the last block at each base before a moment, which is given by its rank; -1 if none."""
        places = np.searchsorted(self._keys, bases * self._width + ranks) - 1
        is_same_base = (places >= 0) & (self._bases[np.maximum(places, 0)] == bases)
        return np.where(is_same_base, places, -1)


def range_numbers(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the number of the range for each begin and end of one; both of a range have the same.

    A dump has the number only at the end (`Range end from id 3`). Numbers are given in the order of the begins. That
    order is taken if every end finds its begin by it. Otherwise an end belongs to the latest range that is open on its
    device.

    Args:
        rows: `sequence`, `kind`, `device`, `extra` (the number of an end) of the begins and ends, by rising sequence.

    Returns:
        `sequence` and `extra`.
    """
    is_begin = rows["kind"] == EventKind.RANGE_START
    begins, ends = rows.filter(is_begin), rows.filter(~is_begin)
    counted = begins.with_columns(extra=pl.int_range(1, len(begins) + 1, dtype=pl.UInt64, eager=True))
    begun = ends.join(counted, on="extra", how="left", maintain_order="left", suffix="_begin")["sequence_begin"]
    is_counted = begun.null_count() == 0 and ends["extra"].n_unique() == len(ends) and (begun < ends["sequence"]).all()
    columns = ["sequence", "extra"]
    if is_counted:
        return pl.concat([counted.select(columns), ends.select(columns)])
    # How many ranges are open after a begin, and before an end, of the same device: equal for the two of a range.
    change = pl.when(pl.col("kind") == EventKind.RANGE_START).then(1).otherwise(-1)
    open_now = change.cum_sum().over("device")
    lowest = pl.min_horizontal(open_now.cum_min().over("device"), pl.lit(0))
    depth = pl.when(pl.col("kind") == EventKind.RANGE_START).then(open_now - lowest).otherwise(open_now - lowest + 1)
    own = pl.when(pl.col("kind") == EventKind.RANGE_START).then("sequence")
    return (
        rows.with_columns(depth=depth)
        .with_columns(extra=own.forward_fill().over("device", "depth").fill_null(0))
        .select(columns)
    )


def outermost_operators(rows: pl.DataFrame) -> pl.Series:
    """Return the name of the outermost operator that runs on a row's thread; 0 where none does.

    Args:
        rows: `kind`, `thread_id`, `name_id`, by rising sequence.
    """
    roles = _ROLES[rows["kind"].to_numpy()]
    names = _native.outermost_operators(roles, rows["thread_id"].to_numpy(), rows["name_id"].to_numpy())
    return pl.Series("operator", names)

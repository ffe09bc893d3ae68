"""Key-value caches that a program keeps in ways of its own, known by their allocations and accesses.

A cache that grows is concatenated with the keys or values of the next token, again and again. So each of its blocks is
the largest part of the next one. Or the keys or values of single tokens are put together for each token anew. Attention
reads them. An operator of attention is enough proof. Where the program computes attention itself, keys and values must
be a pair, which grow alike. A cache that is allocated at once is written and read by attention in turns, over the ends
of steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

    from msmemscope.analysis.owners.growing_table import GrowingTable

_Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

_CONCATENATES: Final = 1
_ATTENDS: Final = 2
_MULTIPLIES: Final = 4
"""May be a part of attention that the program computes itself."""
_FILLS: Final = 8
_REFILLED: Final = 16
"""Of a block: filled after attention has read it."""
_UNKNOWN: Final = 128
_WORDS: Final = (
    (_CONCATENATES, (".cat.", "concat")),
    (_ATTENDS, ("attention", "attn")),
    (_MULTIPLIES, (".bmm.", ".mm.", ".baddbmm.", ".matmul", ".clone.", ".mul.")),
    (_FILLS, ("copy", "index", "scatter", "cache")),
)
"""In names of operators."""
_MOST_NAMES: Final = 1 << 24
_LEAST_LENGTH: Final = 3
"""Blocks one after the other that a cache which grows must have had."""
_LONGEST_OPERATOR: Final = 256
"""Events between the reads of an operator and the allocation of its result, at most."""


class CacheFinder:
    """Takes note of operators that concatenate, and of those that may be attention.

    Args:
        strings: String id to text.
        blocks: The known facts of each block; gets columns of our own.
    """

    def __init__(self, strings: Mapping[int, str], blocks: GrowingTable) -> None:
        """Start without blocks."""
        self._strings = strings
        self._blocks = blocks
        self._kinds = np.zeros(1, np.uint8)
        nothing = np.zeros(0, np.uint64)
        self._results = [(nothing.astype(np.int64), nothing)]
        self._parts = [(nothing.astype(np.int64), nothing)]

    def add_blocks(self, rows: _Numbers, sequences: _Numbers, name_ids: _Numbers) -> None:
        """Take allocations in.

        Args:
            rows: Of the blocks.
            sequences: Of the events.
            name_ids: Of the operators that allocated.
        """
        is_result = self._has(name_ids, _CONCATENATES)
        self._results.append((rows[is_result], sequences[is_result]))

    def add_uses(self, rows: _Numbers, sequences: _Numbers, name_ids: _Numbers, is_read: _Numbers) -> None:
        """Take accesses of forward passes in.

        Args:
            rows: Of the blocks.
            sequences: Of the events, in their order.
            name_ids: Of the operators.
            is_read: Whether each reads; otherwise it writes.
        """
        kinds = self._kinds_of(name_ids)
        is_part = is_read & ((kinds & _CONCATENATES) != 0)
        self._parts.append((rows[is_part], sequences[is_part]))
        how = self._blocks.column("how_used", np.uint8)
        for kind in (_ATTENDS, _MULTIPLIES):
            how[rows[is_read & ((kinds & kind) != 0)]] |= np.uint8(kind)
        first_read = self._blocks.column("first_attention", np.uint64)
        is_first = is_read & ((kinds & _ATTENDS) != 0) & (first_read[rows] == 0)
        first_read[rows[is_first][::-1]] = sequences[is_first][::-1]
        fills = ~is_read & ((kinds & _FILLS) != 0)
        read_at = first_read[rows[fills]]
        how[rows[fills][(read_at != 0) & (read_at < sequences[fills])]] |= np.uint8(_REFILLED)

    def find(self, outlives_a_step: _Numbers) -> _Numbers:
        """Return of each block whether it is a part of a key-value cache.

        Args:
            outlives_a_step: Of each block.
        """
        found = np.zeros(len(outlives_a_step), np.bool_)
        sizes, how = self._blocks["size"], self._blocks["how_used"]
        refilled = np.flatnonzero(outlives_a_step & ((how & _REFILLED) != 0))
        found[refilled[_have_twins(sizes[refilled])]] = True
        parts, nexts = self._concatenations(sizes)
        results_of = np.bincount(parts, minlength=len(found))
        attended = np.bincount(parts[(how[nexts] & _ATTENDS) != 0], minlength=len(found))
        # Keys or values of single tokens, which are put together anew for each.
        are_pieces = results_of > 1
        found |= are_pieces & (2 * attended >= results_of)
        grow = ~are_pieces[parts]
        parts, nexts = _largest(parts[grow], nexts[grow], sizes)
        if len(parts) == 0:
            return found
        nodes = np.unique(np.concatenate((parts, nexts)))
        roots = _roots(np.searchsorted(nodes, parts), np.searchsorted(nodes, nexts), len(nodes))
        lengths = np.bincount(roots, minlength=len(nodes))
        totals = np.bincount(roots, weights=sizes[nodes], minlength=len(nodes)).astype(np.int64)
        largest = np.zeros(len(nodes), np.int64)
        np.maximum.at(largest, roots, sizes[nodes])
        attend, multiply = (
            2 * np.bincount(roots[(how[nodes] & kind) != 0], minlength=len(nodes)) >= lengths
            for kind in (_ATTENDS, _MULTIPLIES)
        )
        grows = (lengths >= _LEAST_LENGTH) & (largest > sizes[nodes])
        pairs = np.flatnonzero(grows & multiply & ~attend)
        is_cache = grows & attend
        is_cache[pairs[_have_twins(totals[pairs])]] = True
        found[nodes[is_cache[roots]]] = True
        return found

    def _concatenations(self, sizes: _Numbers) -> tuple[_Numbers, _Numbers]:
        """Return blocks that are a part of another one, and that one."""
        parts, read_at = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        results, made_at = (np.concatenate(column) for column in zip(*self._results, strict=True))
        places = np.searchsorted(made_at, read_at)
        is_near = places < len(results)
        is_near[is_near] = made_at[places[is_near]] - read_at[is_near] <= _LONGEST_OPERATOR
        parts, nexts = parts[is_near], results[places[is_near]]
        is_smaller = (sizes[parts] <= sizes[nexts]) & (parts < nexts)
        return parts[is_smaller], nexts[is_smaller]

    def _has(self, name_ids: _Numbers, kind: int) -> _Numbers:
        return np.asarray((self._kinds_of(name_ids) & kind) != 0)

    def _kinds_of(self, name_ids: _Numbers) -> _Numbers:
        """Return the actions of the operators of some names, as bits."""
        ids = np.where(name_ids < _MOST_NAMES, name_ids, 0)
        most = int(ids.max(initial=0))
        if most >= len(self._kinds):
            more = np.full(2 * most + 1 - len(self._kinds), _UNKNOWN, np.uint8)
            self._kinds = np.concatenate((self._kinds, more))
        kinds = self._kinds[ids]
        is_new = kinds == _UNKNOWN
        if is_new.any():
            for name_id in np.unique(ids[is_new]).tolist():
                name = self._strings.get(name_id, "")
                self._kinds[name_id] = sum(kind for kind, words in _WORDS if any(word in name for word in words))
            kinds = self._kinds[ids]
        return np.asarray(kinds)


def _largest(parts: _Numbers, nexts: _Numbers, sizes: _Numbers) -> tuple[_Numbers, _Numbers]:
    """Return of each concatenation its largest part, of equal ones the first, and itself."""
    order = np.lexsort((parts, -sizes[parts], nexts))
    nexts, first = np.unique(nexts[order], return_index=True)
    return parts[order][first], nexts


def _have_twins(values: _Numbers) -> _Numbers:
    """Return of each value whether it is there twice or more."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray(counts[places.reshape(-1)] > 1)


def _roots(parts: _Numbers, nexts: _Numbers, count: int) -> _Numbers:
    """Return of each node the first one of its chain; each part stands before its next one."""
    before = np.arange(count)
    before[nexts] = parts
    while True:
        further = before[before]
        if np.array_equal(further, before):
            return before
        before = further

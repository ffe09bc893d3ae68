"""The events between two others agree with an event-by-event reference."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.analysis.window import MemoryWindow, PoolWindow, memory_window
from msmemscope.model.events import EventFlag, EventKind
from msmemscope.model.pools import Pool
from msmemscope.recording import EVENT_SCHEMA, STRING_SCHEMA, build_blocks
from tests.support.nightly import examples

CPU = -2


def blocks_of(events: list[dict[str, int]]) -> pl.DataFrame:
    """Events with the fields given, all else 0, as blocks."""
    rows = [dict.fromkeys(EVENT_SCHEMA.names(), 0) | {"device": CPU} | event for event in events]
    return build_blocks(pl.DataFrame(rows, schema=EVENT_SCHEMA), STRING_SCHEMA.to_frame())


def malloc(sequence: int, size: int, *, pool: int = Pool.HOST, flags: int = 0) -> dict[str, int]:
    """A MALLOC whose address is its sequence number."""
    kind = int(EventKind.MALLOC)
    return {
        "sequence": sequence,
        "kind": kind,
        "size": size,
        "pool": int(pool),
        "address": sequence << 6,
        "flags": int(flags),
    }


def free(sequence: int, block: dict[str, int]) -> dict[str, int]:
    """The FREE of a block."""
    return {**block, "sequence": sequence, "kind": int(EventKind.FREE), "extra": block["sequence"], "flags": 0}


def only(window: MemoryWindow) -> PoolWindow:
    """The only pool."""
    (pool,) = window.pools
    return pool


def test_what_was_there_before_counts_for_the_peak_and_not_as_left() -> None:
    """One block from before, one that stays, one that comes and goes."""
    old, kept, brief = malloc(1, 100), malloc(5, 20), malloc(6, 3)
    window = memory_window(blocks_of([old, kept, brief, free(7, brief)]), 4, 9)
    pool = only(window)
    assert (pool.before_bytes, pool.peak_bytes, pool.peak_sequence) == (100, 123, 6)
    assert (pool.allocated_bytes, pool.allocated_blocks) == (23, 2)
    assert window.blocks_at_peak(pool)["size"].to_list() == [100, 20, 3]
    assert window.blocks_left(pool)["size"].to_list() == [20]


def test_a_block_that_collection_found_was_there_before() -> None:
    """Its MALLOC stands inside, as collection began with the window."""
    window = memory_window(blocks_of([malloc(3, 64, flags=EventFlag.SHADOW), malloc(4, 10)]), 2, 9)
    assert (only(window).before_bytes, only(window).allocated_bytes) == (64, 10)
    assert window.blocks_left(only(window))["size"].to_list() == [10]


def test_what_it_freed_of_what_was_there_before() -> None:
    """Not its own blocks, and not what is freed after it."""
    old, later, brief = malloc(1, 100), malloc(2, 30), malloc(5, 20)
    window = memory_window(blocks_of([old, later, brief, free(6, old), free(7, brief), free(9, later)]), 4, 9)
    assert window.blocks_freed(only(window))["size"].to_list() == [100]
    assert window.blocks_at(only(window), 6)["size"].to_list() == [30, 20]


def test_a_window_that_only_frees_has_its_peak_at_its_beginning() -> None:
    """The peak is what was in use before."""
    old = malloc(1, 100)
    window = memory_window(blocks_of([old, free(5, old)]), 5, 6)
    pool = only(window)
    assert (pool.peak_bytes, pool.peak_sequence) == (100, 4)
    assert window.blocks_at_peak(pool)["size"].to_list() == [100]
    assert window.blocks_left(pool).height == 0


def test_what_is_freed_after_the_window_is_not_left() -> None:
    """A test's fixtures free what they held after the test function."""
    block = malloc(3, 10)
    window = memory_window(blocks_of([block, free(8, block)]), 2, 5)
    assert only(window).peak_bytes == 10
    assert window.blocks_left(only(window)).height == 0


def test_an_empty_window_has_no_pools() -> None:
    """Nothing alive, nothing to say."""
    assert memory_window(blocks_of([malloc(9, 1)]), 2, 5).pools == ()
    assert memory_window(blocks_of([]), 1, 2).pools == ()


Action = tuple[str, int, int]
ACTIONS = st.lists(
    st.tuples(st.sampled_from(["malloc", "free", "other"]), st.integers(1, 50), st.sampled_from([Pool.HOST, Pool.PTA])),
    max_size=40,
)


@examples(by_day=40)
@given(actions=ACTIONS, bounds=st.tuples(st.integers(1, 42), st.integers(0, 42)))
@pytest.mark.parametrize("freed_first", ["newest", "oldest"])
def test_any_window_of_any_history(freed_first: str, actions: list[Action], bounds: tuple[int, int]) -> None:
    """Every figure equals what walking through the events gives."""
    first, last = bounds[0], bounds[0] + bounds[1]
    events: list[dict[str, int]] = []
    alive: dict[int, dict[str, int]] = {}
    use = {int(Pool.HOST): 0, int(Pool.PTA): 0}
    before = dict(use)
    freed = dict.fromkeys(use, 0)
    peak: dict[int, int] = {}
    allocated = dict.fromkeys(use, 0)
    for sequence, (action, size, pool) in enumerate(actions, start=1):
        if sequence == first:
            before, peak = dict(use), dict(use)
        if action == "malloc":
            block = malloc(sequence, size, pool=pool)
            alive[sequence] = block
            events.append(block)
            use[int(pool)] += size
            if first <= sequence < last:
                allocated[int(pool)] += size
        elif action == "free" and alive:
            block = alive.pop(max(alive) if freed_first == "newest" else min(alive))
            events.append(free(sequence, block))
            use[block["pool"]] -= block["size"]
            if block["sequence"] < first <= sequence < last:
                freed[block["pool"]] += block["size"]
        if first <= sequence < last:
            peak = {key: max(peak[key], use[key]) for key in use}
    if len(actions) < first:
        before, peak = dict(use), dict(use)

    window = memory_window(blocks_of(events), first, last)
    found = {pool.pool: pool for pool in window.pools}
    for key in use:
        seen = found.get(key)
        if seen is None:
            assert (before[key], allocated[key]) == (0, 0)
            continue
        assert (seen.before_bytes, seen.peak_bytes) == (before[key], peak.get(key, before[key]))
        assert seen.allocated_bytes == allocated[key]
        assert window.blocks_at_peak(seen)["size"].sum() == seen.peak_bytes
        assert window.blocks_freed(seen)["size"].sum() == freed[key]
        left = [block["size"] for number, block in alive.items() if first <= number < last and block["pool"] == key]
        assert window.blocks_left(seen)["size"].to_list() == left

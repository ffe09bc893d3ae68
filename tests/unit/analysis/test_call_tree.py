"""The call tree of bytes: what stands below a line is together what the line has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.analysis.weights.call_tree import ITSELF, call_tree
from msmemscope.analysis.weights.measures import Measure
from msmemscope.analysis.weights.numbers import count_process
from msmemscope.analysis.weights.ranked_sites import RankedBy, rank_sites
from msmemscope.model.pools import Pool
from tests.fakes.traces import Trace
from tests.support.nightly import examples
from tests.support.random_traces import recordings

if TYPE_CHECKING:
    from msmemscope.recording import Recording

MAIN = "/home/me/train.py(5): main"
LOAD = "/home/me/data.py(3): load"
STEP = "/home/me/train.py(9): step"
TORCH = "/usr/lib/python3/site-packages/torch/nn/modules/module.py(7): _call_impl"


def small() -> Recording:
    """`main` allocates itself, and calls two functions."""
    trace = Trace()
    trace.malloc(600, f"{TORCH}\n{LOAD}\n{MAIN}")
    trace.malloc(300, f"{STEP}\n{MAIN}", operator="aten.mm")
    trace.malloc(90, MAIN)
    trace.free(trace.malloc(10, f"{STEP}\n{MAIN}", operator="aten.add"))
    return trace.recording()


def lines(recording: Recording, **how: object) -> list[tuple[object, ...]]:
    """Depth, frame, weight, blocks and folded branches of the only pool."""
    (pool,) = call_tree(recording, **how).pools  # type: ignore[arg-type] # options of each test
    return pool.calls.select("depth", "frame", "weight", "block_count", "folded").rows()


def test_small() -> None:
    """The heaviest first; what a call allocates itself is a line beside what it calls."""
    assert lines(small(), measure=Measure.ALLOCATED) == [
        (1, MAIN, 1000, 4, 0),
        (2, LOAD, 600, 1, 0),
        (2, STEP, 310, 2, 0),
        (3, "aten.mm", 300, 1, 0),
        (3, "aten.add", 10, 1, 0),
        (2, ITSELF, 90, 1, 0),
    ]


def test_small_branches_are_folded() -> None:
    """Into one line with their number, below the call that they belong to."""
    assert lines(small(), measure=Measure.ALLOCATED, least_share=0.3) == [
        (1, MAIN, 1000, 4, 0),
        (2, LOAD, 600, 1, 0),
        (2, STEP, 310, 2, 0),
        (3, "aten.mm", 300, 1, 0),
        (3, None, 10, 1, 1),
        (2, None, 90, 1, 1),
    ]


def test_what_is_too_deep_is_folded() -> None:
    """All branches of the last frame that is shown."""
    assert lines(small(), measure=Measure.LEAKED, depth=1) == [(1, MAIN, 990, 3, 0), (2, None, 990, 3, 3)]


def test_all_frames() -> None:
    """Those of PyTorch are calls, too."""
    found = lines(small(), measure=Measure.LEAKED, all_frames=True)
    assert (3, TORCH, 600, 1, 0) in found
    assert found[0] == (1, MAIN, 990, 3, 0)


def test_stacks_deeper_than_recursion_goes() -> None:
    """And native ones."""
    trace = Trace()
    trace.malloc(512, "\n".join(f"/home/me/train.py({line}): f" for line in range(5000)))
    trace.malloc(512, pool=Pool.HAL, native="/lib/libx.so(take+0x1) [0xabc]\n/bin/program(main+0x2) [0xdef]")
    by_pool = {tree.pool: tree.calls for tree in call_tree(trace.recording()).pools}
    assert by_pool[Pool.PTA]["depth"].max() == 5000
    assert by_pool[Pool.HAL]["frame"].to_list() == ["/bin/program(main+0x2)", "/lib/libx.so(take+0x1)"]


@pytest.mark.parametrize("size", [1 << 62, -(1 << 62)])
def test_sizes_that_no_device_has(size: int) -> None:
    """A damaged recording has them, and times centuries apart: no answer is worth anything, and none is an error."""
    trace = Trace()
    for line in range(4):
        trace.malloc(size, f"/home/me/train.py({line}): f\n{MAIN}", address=4096 * line)
    trace.rows[0]["timestamp_ns"] = 0
    trace.step()
    trace.rows[-1]["timestamp_ns"] = (1 << 64) - 1
    recording = trace.recording()
    for measure in Measure:
        for all_frames in (False, True):
            call_tree(recording, measure, all_frames=all_frames)
    for ranked_by in RankedBy:
        rank_sites(recording, ranked_by)
    assert count_process(recording, "").pools["allocations"].to_list() == [4]


def test_nothing_recorded() -> None:
    """Is no answer, and no error."""
    found = call_tree(Trace().recording())
    assert found.pools == ()
    assert not found.coverage.is_answered


@examples(by_day=15)
@given(
    recordings,
    st.sampled_from(Measure),
    st.one_of(st.none(), st.integers(1, 3)),
    st.sampled_from([0.0, 0.01, 0.2, 1.0]),
    st.sampled_from(["program", "all"]),
)
def test_lines_below_add_up(
    recording: Recording, measure: Measure, depth: int | None, least_share: float, frames: str
) -> None:
    """To the line that they belong to, whatever is folded; the outermost ones to the pool, as the ranking has it."""
    found = call_tree(recording, measure, depth=depth, least_share=least_share, all_frames=frames == "all")
    totals = {row[:2]: row[2:] for row in rank_sites(recording, RankedBy(measure.value)).pools.rows()}
    for tree in found.pools:
        calls = tree.calls
        sums = calls.group_by("parent").agg(pl.col("weight", "block_count").sum())
        for parent, weight, blocks in sums.rows():
            whole = (tree.weight, tree.block_count) if parent is None else calls.row(parent)[4:7:2]
            assert (weight, blocks) == tuple(whole)
        assert tree.block_count == totals[tree.device, tree.pool][2]
        if measure is not Measure.BYTE_SECONDS:  # rounded down once per path
            assert tree.weight == totals[tree.device, tree.pool][0]
        shown = calls.filter(pl.col("folded") == 0)
        assert (shown["weight"] >= least_share * tree.weight).all()
        assert depth is None or (shown["depth"] <= depth).all()


@pytest.mark.parametrize("measure", Measure)
def test_each_measure_has_blocks(measure: Measure) -> None:
    """Also in whole stacks."""
    for all_frames in (False, True):
        (pool,) = call_tree(small(), measure, all_frames=all_frames).pools
        assert pool.block_count == {Measure.PEAK: 4, Measure.LEAKED: 3}.get(measure, 4)

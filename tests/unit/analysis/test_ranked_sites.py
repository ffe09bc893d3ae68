"""Call sites by what they stand for: exact sums, each pool by itself."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given

from msmemscope.analysis.weights.ranked_sites import RankedBy, rank_sites
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.pools import Pool
from msmemscope.recording.timeline import peak_moments
from tests.fakes.traces import EVENT_NS, Trace
from tests.support.nightly import examples
from tests.support.random_traces import recordings

if TYPE_CHECKING:
    from msmemscope.recording import Recording

MAIN = "/home/me/train.py(5): main"
LOAD = f"/home/me/data.py(3): load\n{MAIN}"
STEP = f"/home/me/train.py(9): step\n{MAIN}"


def small() -> Recording:
    """Two blocks stay of one site; of another one is freed at once, by two operators."""
    trace = Trace()
    trace.malloc(1000, LOAD)
    trace.malloc(200, LOAD, operator="aten.copy")
    trace.free(trace.malloc(5000, STEP, operator="aten.mm"))
    trace.malloc(300, STEP, operator="aten.add")
    trace.malloc(7, STEP, pool=Pool.HOST, device=DEVICE_CPU)
    return trace.recording()


def rows(ranked_by: RankedBy) -> list[tuple[object, ...]]:
    """Site, operator, weight, bytes, blocks and the largest block, on the NPU."""
    sites = rank_sites(small(), ranked_by).sites.filter(pl.col("device") == 0)
    names = ("site", "operator", "operator_count", "weight", "size_bytes", "block_count", "largest_bytes")
    return sites.select(names).rows()


LOAD_LINE, STEP_LINE = "/home/me/data.py(3): load", "/home/me/train.py(9): step"


@pytest.mark.parametrize(
    "ranked_by, expected",
    [
        (
            RankedBy.PEAK,
            [(STEP_LINE, "aten.mm", 1, 5000, 5000, 1, 5000), (LOAD_LINE, None, 1, 1200, 1200, 2, 1000)],
        ),
        (
            RankedBy.LEAKED,
            [(LOAD_LINE, None, 1, 1200, 1200, 2, 1000), (STEP_LINE, "aten.add", 1, 300, 300, 1, 300)],
        ),
        (
            RankedBy.ALLOCATED,
            [(STEP_LINE, "aten.mm", 2, 5300, 5300, 2, 5000), (LOAD_LINE, None, 1, 1200, 1200, 2, 1000)],
        ),
        (RankedBy.CHURN, [(STEP_LINE, "aten.mm", 1, 5000, 5000, 1, 5000)]),
        (
            RankedBy.BLOCKS,
            [(STEP_LINE, "aten.add", 2, 2, 5300, 2, 5000), (LOAD_LINE, "aten.copy", 1, 2, 1200, 2, 1000)],
        ),
    ],
)
def test_small(ranked_by: RankedBy, expected: list[tuple[object, ...]]) -> None:
    """The heaviest first; the operator is the one with the most weight, or none; of equal ones the first by name."""
    assert rows(ranked_by) == expected


def test_byte_seconds_are_exact() -> None:
    """A block of 3 GB for two events, rounded down once per site."""
    trace = Trace()
    block = trace.malloc(3_000_000_000, STEP)
    trace.step()
    trace.free(block)
    found = rank_sites(trace.recording(), RankedBy.BYTE_SECONDS)
    assert found.sites["weight"].to_list() == [3_000_000_000 * 2 * EVENT_NS // 1_000_000_000]
    assert found.pools["weight"].to_list() == found.sites["weight"].to_list()


def test_pools_are_apart() -> None:
    """Each pool has its sums. A pool without counted blocks is listed with zeros."""
    found = rank_sites(small(), RankedBy.CHURN)
    assert found.pools.rows() == [
        (DEVICE_CPU, int(Pool.HOST), 0, 0, 0, 0),
        (0, int(Pool.PTA), 5000, 5000, 1, 1),
    ]


def test_nothing_recorded() -> None:
    """Is no answer, and no error."""
    found = rank_sites(Trace().recording())
    assert found.sites.is_empty()
    assert not found.coverage.is_answered


@examples(by_day=15)
@given(recordings)
def test_sums_are_those_of_the_blocks(recording: Recording) -> None:
    """Block by block, for every order."""
    moments = {(device, pool): at for device, pool, _, at in peak_moments(recording.blocks).rows()}
    expected: dict[RankedBy, dict[tuple[int, int], int]] = {one: defaultdict(int) for one in RankedBy}
    steps = recording.leaks().step_leaks
    lost = set(steps.leaked["malloc_sequence"])
    columns = ("device", "pool", "size", "malloc_sequence", "free_sequence")
    for device, pool, size, begin, end in recording.blocks.select(columns).iter_rows():
        at = moments[device, pool]
        where = (device, pool)
        expected[RankedBy.PEAK][where] += size * (begin <= at and (end is None or end > at))
        expected[RankedBy.LEAKED][where] += size * (end is None if steps.remarks else begin in lost)
        expected[RankedBy.CHURN][where] += size * (end is not None)
        expected[RankedBy.ALLOCATED][where] += size
        expected[RankedBy.BLOCKS][where] += 1
    for ranked_by in RankedBy:
        found = rank_sites(recording, ranked_by)
        sums = found.sites.group_by("device", "pool").agg(
            pl.col("weight", "block_count").sum(), pl.len().cast(pl.Int64)
        )
        totals = found.pools.select("device", "pool", "weight", "block_count", "site_count").filter(
            pl.col("site_count") > 0
        )
        assert sorted(sums.rows()) == sorted(totals.rows())
        if ranked_by is not RankedBy.BYTE_SECONDS:
            assert {(device, pool): weight for device, pool, weight, *_ in found.pools.rows()} == expected[ranked_by]
        for _, of_pool in found.sites.group_by("device", "pool", maintain_order=True):
            assert of_pool["weight"].to_list() == sorted(of_pool["weight"], reverse=True)
            assert of_pool["share"].sum() == pytest.approx(1 if of_pool["weight"].sum() else 0)
            assert of_pool["site_path"].is_unique().all()


def test_what_a_program_frees_at_its_end_has_leaked() -> None:
    """As the leaks over steps say it: a list that grows with each step is freed when the program ends."""
    trace = Trace()
    kept = []
    for _ in range(6):
        kept.append(trace.malloc(4096, STEP))
        trace.step()
    for block in kept:
        trace.free(block)
    recording = trace.recording()
    (pool,) = rank_sites(recording, RankedBy.LEAKED).pools.rows(named=True)
    assert pool["weight"] == recording.leaks().step_leaks.leaked["size"].sum() == 4 * 4096
    assert rank_sites(recording, RankedBy.CHURN).pools["weight"].to_list() == [6 * 4096]

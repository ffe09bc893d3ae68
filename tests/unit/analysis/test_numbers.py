"""The numbers of a process: exact counts, and bins in which every block is once."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pytest
from hypothesis import given

from msmemscope.analysis.weights.numbers import count_process
from msmemscope.analysis.weights.ranked_sites import RankedBy, rank_sites
from msmemscope.model.pools import Pool
from msmemscope.recording import Recording
from msmemscope.recording.timeline import peak_moments
from tests.fakes.traces import EVENT_NS, START_NS, Trace
from tests.support.nightly import examples
from tests.support.random_traces import recordings

SITE = "/home/me/train.py(9): step"


def small() -> Recording:
    """A block of 600 bytes for one event, two of 512 that stay, and one without bytes."""
    trace = Trace()
    trace.free(trace.malloc(600, SITE, operator="aten.mm"))
    trace.malloc(512, SITE, operator="aten.add")
    trace.malloc(512)
    trace.malloc(0, SITE)
    trace.step()
    return trace.recording()


def test_small() -> None:
    """Counted by hand."""
    found = count_process(small(), "python train.py")
    assert (found.event_count, found.events_by_kind) == (6, {"malloc": 4, "free": 1, "step": 1})
    assert (found.begin_ns, found.duration_ns) == (START_NS + EVENT_NS, 5 * EVENT_NS)
    assert (found.step_count, found.step_source) == (1, "msmemscope.step()")
    pool = (0, int(Pool.PTA))
    assert found.pools.rows() == [(*pool, 4, 1, 1624, 1024, 1024, 800.0, 2, 2)]
    assert found.block_sizes.rows() == [(*pool, 0, 1, 0), (*pool, 512, 3, 1624)]
    assert found.lifetimes.rows() == [(*pool, EVENT_NS, 1, 600), (*pool, None, 3, 1024)]
    assert found.frequent_sizes.rows() == [(*pool, 512, 2, 1024), (*pool, 600, 1, 600), (*pool, 0, 1, 0)]


@pytest.mark.parametrize(
    "size, bound", [(0, 0), (1, 1), (2, 2), (3, 2), (4, 4), (1023, 512), (1024, 1024), ((1 << 55) - 1, 1 << 54)]
)
def test_bins_of_sizes(size: int, bound: int) -> None:
    """From a power of two up to the next, also where a number of floating point has no room for it."""
    trace = Trace()
    trace.malloc(size, address=4096)
    assert count_process(trace.recording(), "").block_sizes["from_bytes"].to_list() == [bound]


@pytest.mark.parametrize(
    "lasted, bound", [(0, 0), (999, 0), (1000, 1000), (9_999_999, 1_000_000), (10_000_000, 10_000_000)]
)
def test_bins_of_lifetimes(lasted: int, bound: int) -> None:
    """From a power of ten up to the next, from a microsecond on."""
    trace = Trace()
    trace.free(trace.malloc(512))
    trace.rows[1]["timestamp_ns"] = trace.rows[0]["timestamp_ns"] + lasted
    assert count_process(trace.recording(), "").lifetimes["from_ns"].to_list() == [bound]


def test_nothing_recorded() -> None:
    """Is counted as nothing."""
    found = count_process(Trace().recording(), "")
    assert (found.event_count, found.begin_ns, found.duration_ns, found.step_count) == (0, None, 0, 0)
    assert found.pools.is_empty()


def test_damaged_times() -> None:
    """A free before its allocation, and times centuries apart."""
    trace = Trace()
    for end in (0, (1 << 64) - 1):
        block = trace.malloc(512)
        trace.free(block)
        trace.rows[-1]["timestamp_ns"] = end
    assert count_process(trace.recording(), "").lifetimes["from_ns"].to_list() == [0, 10**18]


@examples(by_day=20)
@given(recordings)
def test_every_block_is_in_one_bin(recording: Recording) -> None:
    """Blocks and bytes of the bins are those of the pool; peaks and call sites those of the other verbs."""
    found = count_process(recording, "")
    names = ("device", "pool", "allocations", "allocated_bytes")
    totals = sorted(found.pools.select(names).rows())
    for bins in (found.block_sizes, found.lifetimes):
        sums = bins.group_by("device", "pool").agg(pl.col("block_count", "size_bytes").sum())
        assert sorted(sums.rows()) == totals
    peaks = {row[:2]: row[2] for row in peak_moments(recording.blocks).rows()}
    sites = {row[:2]: row[5] for row in rank_sites(recording, RankedBy.ALLOCATED).pools.rows()}
    for row in found.pools.iter_rows(named=True):
        pool = (row["device"], row["pool"])
        assert (row["peak_bytes"], row["call_sites"]) == (peaks[pool], sites[pool])
        if row["allocations_per_second"] is not None:
            assert row["allocations_per_second"] == pytest.approx(row["allocations"] * 1e9 / found.duration_ns)
    assert sum(found.events_by_kind.values()) == found.event_count == recording.events.height
    counts = Counter(recording.blocks.select("device", "pool", "size").iter_rows())
    for *key, blocks, _ in found.frequent_sizes.rows():
        assert counts[tuple(key)] == blocks

"""Slow leaks: the trend against plain formulas, the stated false-positive rate by simulation, and what is found."""

from __future__ import annotations

import math
from itertools import combinations
from statistics import median
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.analysis.leaks.growth import (
    STATED_FALSE_POSITIVE_RATE,
    GrowthBasis,
    find_slow_leaks,
)
from msmemscope.analysis.leaks.trends import live_series, trends
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.pools import Pool
from msmemscope.recording.step_bounds import process_steps, with_steps
from tests.fakes.traces import Trace

SITE = "/home/me/queue.py(10): put\n/home/me/train.py(40): main"
OTHER = "/home/me/train.py(20): work\n/home/me/train.py(40): main"
SIGNIFICANCE = 0.001


@given(st.lists(st.integers(0, 20), min_size=4, max_size=15))
def test_slope_and_score_are_those_of_the_formulas(values: list[int]) -> None:
    """The median of all pairwise slopes; Mann and Kendall's test with its correction for ties, never more significant."""
    found = trends(np.array([values], dtype=np.float64))
    pairs = list(combinations(range(len(values)), 2))
    assert found.slope[0] == pytest.approx(median((values[j] - values[i]) / (j - i) for i, j in pairs))
    score = sum(np.sign(values[j] - values[i]) for i, j in pairs)
    n = len(values)
    ties = sum(t * (t - 1) * (2 * t + 5) for t in (values.count(value) for value in set(values)))
    variance = (n * (n - 1) * (2 * n + 5) - ties) / 18
    z = 0.0 if variance == 0 or score == 0 else (score - np.sign(score)) / math.sqrt(variance)
    plain = 0.5 * math.erfc(z / math.sqrt(2))
    # Autocorrelation only ever widens the variance.
    assert abs(found.significance[0] - 0.5) <= abs(plain - 0.5) + 1e-12


def share_named(series: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """The share of series that the rule of `find_slow_leaks` names."""
    whole, half = trends(series), trends(series[:, series.shape[1] // 2 :])
    significance = np.maximum(whole.significance, half.significance)
    is_named = (significance <= SIGNIFICANCE) & (whole.slope > 0) & (half.slope > 0) & (series[:, -1] > series[:, 0])
    return float(is_named.mean())


def autocorrelated(correlation: float, count: int, length: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Series whose neighbours are correlated, around a constant; whole numbers of blocks."""
    generator = np.random.default_rng(20240101)
    settling = 100
    noise = generator.normal(size=(count, length + settling))
    for position in range(1, length + settling):
        noise[:, position] += correlation * noise[:, position - 1]
    return np.round(1000 + 100 * noise[:, settling:])


@pytest.mark.parametrize("length", [15, 16, 30, 64])
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_the_stated_false_positive_rate(length: int, correlation: float) -> None:
    """Of series without a trend, no more are named than is stated; nor of counts with many equal values."""
    assert share_named(autocorrelated(correlation, 3000, length)) <= STATED_FALSE_POSITIVE_RATE
    counts = np.random.default_rng(1).poisson(2, size=(3000, length)).astype(np.float64)
    assert share_named(counts) <= STATED_FALSE_POSITIVE_RATE


@pytest.mark.parametrize(("length", "least"), [(16, 0.5), (30, 0.9), (64, 0.99)])
def test_growth_in_noise_is_found(length: int, least: float) -> None:
    """A growth per step of twice the noise; more steps find more."""
    noise = np.random.default_rng(2).normal(size=(300, length)) * 500
    assert share_named(np.arange(length) * 1000.0 + noise) >= least


def queue_with_backlog(steps: int) -> Trace:
    """Two come, one goes: every block is freed in the end, later and later. The work beside it is steady."""
    trace = Trace()
    waiting: list[int] = []
    for _ in range(steps):
        trace.free(trace.malloc(9000, OTHER))
        waiting.extend(trace.malloc(100, SITE) for _ in range(2))
        trace.free(waiting.pop(0))
        trace.step()
    for block in waiting:
        trace.free(block)
    return trace


def test_a_queue_that_grows_is_found() -> None:
    """Its slope is what it grows by per step; and nothing else is named."""
    found = find_slow_leaks(queue_with_backlog(24).recording())
    (site,) = found.sites.iter_rows(named=True)
    assert site["site"] == "/home/me/queue.py(10): put"
    assert site["slope_bytes_per_step"] == pytest.approx(100)
    assert (site["first_step"], site["first_bytes"], site["last_step"], site["last_bytes"]) == (2, 200, 24, 2400)
    assert site["last_blocks"] == 24
    assert site["significance"] < SIGNIFICANCE
    assert found.judged_sites == 1


def test_slope_of_a_long_run_is_per_step() -> None:
    """Of 1000 steps not each is in the series."""
    found = find_slow_leaks(queue_with_backlog(1000).recording())
    assert found.sites["slope_bytes_per_step"].to_list() == [pytest.approx(100, rel=0.01)]


@pytest.mark.parametrize(("steps", "window"), [(60, 40), (150, 130), (400, 300)])
def test_a_window_that_is_full_late_is_no_growth(steps: int, window: int) -> None:
    """Each block takes the place of an old one; and the line keeps another one of each step for a moment, too."""
    trace = Trace()
    held: list[int] = []
    for _ in range(steps):
        held.append(trace.malloc(100, SITE))
        if len(held) > window:
            trace.free(held.pop(0))
        trace.step()
    assert find_slow_leaks(trace.recording()).sites.is_empty()


@pytest.mark.parametrize("makes_others", [True, False])
def test_growth_that_pauses_is_growth(*, makes_others: bool) -> None:
    """A training that keeps a result per step, then an evaluation that keeps the last one: nothing old is freed."""
    trace = Trace()
    last = None
    for step in range(60):
        if step < 45:
            trace.malloc(100, SITE)
        elif makes_others:
            if last is not None:
                trace.free(last)
            last = trace.malloc(100, SITE)
        trace.step()
    assert find_slow_leaks(trace.recording()).sites.height == 1


def test_what_fills_up_is_no_growth() -> None:
    """A cache that is full after half of the run."""
    trace = Trace()
    held: list[int] = []
    for _ in range(60):
        held.append(trace.malloc(100, SITE))
        if len(held) > 20:
            trace.free(held.pop(0))
        trace.step()
    found = find_slow_leaks(trace.recording())
    assert found.sites.is_empty()
    assert found.judged_sites == 1


def test_a_staircase_is_growth() -> None:
    """A leak in every fourth step."""
    trace = Trace()
    for step in range(40):
        if step % 4 == 0:
            trace.malloc(100, SITE)
        trace.step()
    assert find_slow_leaks(trace.recording()).sites["site"].to_list() == ["/home/me/queue.py(10): put"]


def steps_with_batches(*, of_work: int) -> Trace:
    """One block is alive at the end of each step, a larger one each time; the work within the steps grows with it."""
    trace = Trace()
    batch = 0
    for step in range(1, 31):
        if batch:
            trace.free(batch)
        batch = trace.malloc(100 * step, SITE)
        trace.free(trace.malloc(of_work * step, OTHER))
        trace.step()
    return trace


def test_a_larger_batch_in_each_step_is_no_growth() -> None:
    """Nothing is kept: the steps work on more. Where they do not, what becomes larger alone is growth."""
    assert find_slow_leaks(steps_with_batches(of_work=400).recording()).sites.is_empty()
    assert find_slow_leaks(steps_with_batches(of_work=1).recording()).sites["site_path"].to_list() == [SITE]


@pytest.mark.parametrize(("steps", "counted"), [(10, "10 steps have"), (15, "15 steps have")])
def test_too_few_steps_are_said(steps: int, counted: str) -> None:
    """Nothing is found, and why is said."""
    found = find_slow_leaks(queue_with_backlog(steps).recording())
    assert found.sites.is_empty()
    assert [one.sentence for one in found.remarks] == [
        f"slow leaks: not judged, {counted} ended, at least 16 are needed"
    ]


def test_as_few_steps_as_can_show_growth_are_enough() -> None:
    """Of those behind the warm-up, the second half has eight."""
    assert find_slow_leaks(queue_with_backlog(16).recording()).sites["site_path"].to_list() == [SITE]


@pytest.mark.parametrize(("steps", "allocations"), [(0, 0), (1, 3)])
def test_too_few_allocations_without_steps_are_said(steps: int, allocations: int) -> None:
    """Nothing is judged by parts of the run either."""
    found = find_slow_leaks(queue_with_backlog(steps).recording())
    assert found.sites.is_empty()
    (remark,) = found.remarks
    assert (remark.subject, remark.reason) == (
        "growth",
        f"there are too few steps and {allocations} allocations; without steps, at least 64 are needed",
    )


def test_a_thread_that_allocates_in_bursts_hides_no_growth_in_another_pool() -> None:
    """Each pool has parts of its own: here the run has long stretches in which the one that grows stands still."""
    trace = Trace()
    for request in range(320):
        trace.malloc(1024, SITE)
        trace.free(trace.malloc(512, OTHER))
        if request % 80 == 40:
            for _ in range(800):
                trace.free(trace.malloc(64, OTHER, pool=Pool.HOST, device=DEVICE_CPU))
    found = find_slow_leaks(trace.recording())
    assert found.basis is GrowthBasis.PARTS
    assert found.sites.select("pool", "site_path").rows() == [(Pool.PTA, SITE)]


@given(st.lists(st.sampled_from(["malloc", "malloc", "free", "step"]), max_size=60), st.randoms())
def test_live_bytes_at_each_step_end(actions: list[str], random: Any) -> None:
    """Against counting at each end."""
    trace = Trace()
    alive: dict[int, int] = {}
    expected = []
    for action in actions:
        if action == "malloc":
            size = random.randint(1, 100)
            alive[trace.malloc(size, SITE)] = size
        elif action == "free" and alive:
            block = random.choice(sorted(alive))
            trace.free(block)
            del alive[block]
        elif action == "step":
            trace.step()
            expected.append(sum(alive.values()))
    if not expected:
        return
    recording = trace.recording()
    blocks = with_steps(recording.blocks, process_steps(recording))
    series = live_series(np.zeros(blocks.height, dtype=np.int64), 1, blocks, np.arange(1, len(expected) + 1))
    assert series.tolist() == [expected]


@pytest.mark.parametrize(
    ("weights", "first", "grows_by", "is_kept", "is_found"),
    [
        (16 << 20, 400 << 10, 4 << 10, False, False),  # a sequence that a model goes on with
        (16 << 20, 400 << 10, 4 << 10, True, True),
        (1 << 20, 400 << 10, 4 << 10, False, True),
        (16 << 20, 400 << 10, 40 << 10, False, True),
    ],
    ids=["small", "small but all are kept", "much of its pool", "large"],
)
def test_one_block_that_is_replaced_by_larger_ones(
    weights: int, first: int, grows_by: int, *, is_kept: bool, is_found: bool
) -> None:
    """It is named where it has become large, or takes much of its pool; blocks that add up are named in any case."""
    trace = Trace()
    trace.malloc(weights)
    last = None
    for step in range(60):
        block = trace.malloc(grows_by if is_kept else first + step * grows_by, SITE)
        if last is not None and not is_kept:
            trace.free(last)
        last = block
        trace.step()
    assert (find_slow_leaks(trace.recording()).sites.height == 1) is is_found

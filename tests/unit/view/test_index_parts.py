"""The parts of an index against their definitions, on random and on long inputs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msmemscope.analysis.weights.path_tree import FOLDED, ROOT, PathTreeBuilder
from msmemscope.view.index.intervals import Intervals
from msmemscope.view.index.live_sets import LiveSets
from msmemscope.view.index.ordered import counts_below, counts_up_to
from msmemscope.view.index.range_extremes import CHUNK, RangeExtremes
from msmemscope.view.index.store import NEVER
from tests.support.nightly import NIGHT

EVENTS = 10_000_000


@st.composite
def series_and_stretches(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A series, about as long as some chunks, and stretches of it."""
    length = draw(st.one_of(st.integers(1, 5), st.integers(CHUNK - 2, CHUNK + 2), st.integers(1, CHUNK * 9)))
    random = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    values = random.integers(-4, draw(st.sampled_from([2, 1000])), length)
    places = np.sort(random.integers(0, length, (30, 2)), axis=1)
    return values, places[:, 0], places[:, 1]


@given(given_series=series_and_stretches(), lowest=st.booleans())
def test_the_extreme_of_a_stretch_is_its_first_extreme(
    given_series: tuple[np.ndarray, np.ndarray, np.ndarray], *, lowest: bool
) -> None:
    """As a look at every value finds it."""
    values, first, last = given_series
    extreme = np.argmin if lowest else np.argmax
    expected = [begin + extreme(values[begin : end + 1]) for begin, end in zip(first, last, strict=True)]
    found = RangeExtremes(values, lowest=lowest)
    assert found.places(first, last).tolist() == expected
    assert found.values(first, last).tolist() == values[expected].tolist()


@pytest.fixture(scope="module")
def long_series() -> np.ndarray:
    """Bytes in use of a long run."""
    return np.random.default_rng(7).integers(0, 1 << 40, EVENTS)


@settings(max_examples=settings().max_examples if NIGHT else 30)
@given(place=st.integers(0, EVENTS - 1), columns=st.integers(1, 4000), data=st.data())
def test_a_peak_of_one_event_is_seen_at_every_zoom(
    long_series: np.ndarray, place: int, columns: int, data: st.DataObject
) -> None:
    """However wide the window is that it lies in, one column has it, with its exact value, and no other one."""
    values = long_series
    before, peak = int(values[place]), (1 << 50) + 12_345
    values[place] = peak
    try:
        extremes = RangeExtremes(values)
        width = 1
        while True:
            begin = data.draw(st.integers(max(place - width + 1, 0), min(place, EVENTS - 1)))
            end = min(begin + width, EVENTS)
            edges = np.linspace(begin, end, min(columns, end - begin) + 1).astype(np.int64)
            seen = extremes.values(edges[:-1], edges[1:] - 1)
            assert (seen == peak).sum() == 1
            assert edges[:-1][seen == peak][0] <= place < edges[1:][seen == peak][0]
            if width >= EVENTS:
                return
            width *= 10
    finally:
        values[place] = before


lives = st.lists(st.tuples(st.integers(0, 3), st.one_of(st.integers(0, 60), st.none())), max_size=200)


@given(lives, st.integers(-1, 400), st.integers(0, 400), st.integers(1, 50))
def test_what_is_in_use_in_a_window(spans: list[tuple[int, int | None]], first: int, length: int, most: int) -> None:
    """Live sets and intervals find what a look at every block finds."""
    begins = np.cumsum([gap for gap, _ in spans], dtype=np.uint32) if spans else np.zeros(0, dtype=np.uint32)
    ends = np.array(
        [
            NEVER if lasted is None else begin + lasted
            for begin, (_, lasted) in zip(begins.tolist(), spans, strict=True)
        ],
        dtype=np.uint32,
    )
    last = first + length
    expected = np.flatnonzero((begins.astype(np.int64) <= last) & (ends.astype(np.int64) > first))
    assert LiveSets(begins, ends).within(first, last).tolist() == expected.tolist()
    found = Intervals(begins, ends, np.argsort(begins.astype(np.int64) - ends, kind="stable").astype(np.uint32))
    # A block that is freed by the event that allocated it is never in use: no recording has such.
    if (ends > begins).all():
        assert found.count(first, last) == len(expected)
    assert set(found.heaviest(first, last, most).tolist()) == set(expected.tolist())


def test_of_many_intervals_the_heaviest_are_found_first() -> None:
    """Of a window with more than can be looked at one by one, no heavier one is left out for a lighter one."""
    count, most = 700_000, 1000
    random = np.random.default_rng(3)
    begins = np.arange(count, dtype=np.uint32)
    lengths = random.integers(1, 1 << 20, count)
    ends = np.minimum(begins + lengths, NEVER).astype(np.uint32)
    found = Intervals(begins, ends, np.argsort(-lengths, kind="stable").astype(np.uint32))
    first, last = 1000, count - 1000
    expected = np.flatnonzero((begins <= last) & (ends > first))
    assert found.count(first, last) == len(expected)
    heaviest = found.heaviest(first, last, most)
    assert most <= len(heaviest) < len(expected)
    least_taken = lengths[heaviest].min()
    assert set(heaviest.tolist()) >= set(expected[lengths[expected] > least_taken].tolist())


@given(
    st.lists(st.integers(0, NEVER), max_size=30).map(sorted),
    st.lists(st.integers(-(1 << 62), 1 << 62) | st.integers(-2, 40) | st.just(NEVER), max_size=10),
    st.sampled_from([np.uint32, np.int64, np.uint64]),
)
def test_searches_in_the_type_of_what_is_searched(numbers: list[int], values: list[int], kind: type) -> None:
    """Values that the type cannot hold lie before or behind all numbers."""
    ordered: np.ndarray = np.array(numbers, dtype=kind)
    assert counts_below(ordered, np.array(values, dtype=np.int64)).tolist() == [
        sum(number < value for number in numbers) for value in values
    ]
    assert counts_up_to(ordered, np.array(values, dtype=np.int64)).tolist() == [
        sum(number <= value for number in numbers) for value in values
    ]


paths = st.lists(st.tuples(st.lists(st.sampled_from("abc"), max_size=5), st.integers(0, 1 << 40)), max_size=30)


@given(paths, st.integers(0, 1 << 41), st.integers(1, 20))
def test_a_tree_adds_up(weighed: list[tuple[list[str], int]], least: int, most: int) -> None:
    """Each node stands for all paths through it; what is folded is counted, and nothing is lost."""
    builder = PathTreeBuilder()
    nodes = [builder.add(path) for path, _ in weighed]
    tree = builder.tree()
    weights = tree.sums(np.array(nodes, dtype=np.int64), np.array([weight for _, weight in weighed], dtype=np.int64))
    counts = tree.sums(np.array(nodes, dtype=np.int64), np.ones(len(nodes), dtype=np.int64))
    for node in range(len(tree.parents)):
        path = []
        at = node
        while at != ROOT:
            path.append(tree.labels[tree.names[at]])
            at = int(tree.parents[at])
        path.reverse()
        through = [weight for other, weight in weighed if other[: len(path)] == path]
        assert (weights[node], counts[node], tree.depths[node]) == (sum(through), len(through), len(path))
    shown = tree.shown(weights, counts, least, most)
    assert shown.nodes[0] == ROOT
    assert shown.parents[0] == 0
    for place in range(1, len(shown.nodes)):
        assert shown.parents[place] < place
        if shown.nodes[place] != FOLDED:
            assert tree.parents[shown.nodes[place]] == shown.nodes[shown.parents[place]]
            assert shown.weights[place] == weights[shown.nodes[place]]
    for place, node in enumerate(shown.nodes.tolist()):
        below = [other for other in range(1, len(shown.nodes)) if shown.parents[other] == place]
        if below:
            children = [child for child in range(1, len(tree.parents)) if tree.parents[child] == node]
            assert sum(shown.weights[other] for other in below) == sum(weights[child] for child in children)
            assert [shown.weights[other] for other in below if shown.nodes[other] != FOLDED] == sorted(
                (shown.weights[other] for other in below if shown.nodes[other] != FOLDED), reverse=True
            )
            assert sum(shown.folded[other] for other in below) == sum(weights[child] > 0 for child in children) - sum(
                shown.nodes[other] != FOLDED for other in below
            )

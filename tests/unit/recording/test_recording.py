"""A recording answers at a prompt with the data that were put into it."""

from __future__ import annotations

import random

import polars as pl
import pytest

from msmemscope.analysis.leaks.overview import LeakOverview
from msmemscope.analysis.peak.explanation import PeakExplanation
from msmemscope.errors import ConfigurationError
from msmemscope.model.devices import DeviceKind, device_number
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from tests.fakes.traces import EVENT_NS, START_NS, Trace

CUDA = device_number(DeviceKind.CUDA, 1)


def test_the_timeline_is_the_sum_of_what_came_and_went() -> None:
    """Of each pool by itself, right after each of its events: counted one by one."""
    chance = random.Random(14)  # noqa: S311 - of a test
    trace = Trace()
    alive: list[tuple[int, int, tuple[int, Pool]]] = []
    held: dict[tuple[int, Pool], int] = {}
    expected = []
    for _ in range(300):
        if alive and chance.random() < 0.4:
            block, size, place = alive.pop(chance.randrange(len(alive)))
            trace.free(block)
            held[place] -= size
        else:
            place = chance.choice([(0, Pool.PTA), (0, Pool.HAL), (CUDA, Pool.CUDA)])
            size = chance.randrange(1, 1000)
            alive.append((trace.malloc(size, device=place[0], pool=place[1]), size, place))
            held[place] = held.get(place, 0) + size
        expected.append((len(trace.rows), place, held[place]))
        if chance.random() < 0.1:
            trace.mark("between")
    recording = trace.recording()
    words = {(0, Pool.PTA): ("npu:0", "PTA"), (0, Pool.HAL): ("npu:0", "HAL"), (CUDA, Pool.CUDA): ("cuda:1", "CUDA")}
    rows = [(number, START_NS + EVENT_NS * number, *words[place], bytes_) for number, place, bytes_ in expected]
    columns = ["sequence", "timestamp_ns", "device", "pool", "in_use_bytes"]
    assert recording.timeline().select(columns).rows() == rows
    assert recording.timeline(pool="CUDA").select(columns).rows() == [row for row in rows if row[3] == "CUDA"]
    assert recording.timeline(device="npu:0", pool="HAL").select(columns).rows() == [
        row for row in rows if row[3] == "HAL"
    ]
    unknown = recording.timeline().drop(columns)
    assert unknown.columns == ["requested_bytes", "waiting_bytes", "reserved_bytes"]
    assert sum(unknown.null_count().row(0)) == 3 * len(rows)


def test_the_reserve_stands_beside_what_is_in_use() -> None:
    """Also where nothing but the reserve changes; before its first report it is not known."""
    trace = Trace()
    first = trace.malloc(10)
    trace.add(EventKind.RESERVED, pool=Pool.PTA, size=100)
    trace.free(first)
    trace.add(EventKind.RESERVED, pool=Pool.PTA, size=0)
    timeline = trace.recording().timeline(pool="PTA").select("in_use_bytes", "reserved_bytes")
    assert timeline.rows() == [(10, None), (10, 100), (0, 100), (0, 0)]


def test_a_pool_that_is_not_there() -> None:
    """The ones that are there are named."""
    trace = Trace()
    trace.malloc(10)
    with pytest.raises(ConfigurationError, match=r"'CUDA' \(accepted: PTA\)"):
        trace.recording().timeline(pool="CUDA")
    with pytest.raises(ConfigurationError, match=r"'cpu' \(accepted: npu:0\)"):
        trace.recording().timeline(device="cpu")


def test_operators_are_the_outermost_ones() -> None:
    """An operator within another one is part of it; one that never ended has no end."""
    trace = Trace()
    for name in ("outer", "inner"):
        trace.add(EventKind.ATEN_START, name_id=trace.text(name))
    for name in ("inner", "outer"):
        trace.add(EventKind.ATEN_END, name_id=trace.text(name))
    trace.add(EventKind.ATEN_START, name_id=trace.text("unfinished"), thread_id=101, device=CUDA)
    found = trace.recording().operators
    assert found.select("name", "device", "thread_id", "begin_sequence", "end_sequence").rows() == [
        ("outer", 0, 100, 1, 4),
        ("unfinished", CUDA, 101, 5, None),
    ]


def test_nothing_recorded() -> None:
    """Every table is there, and empty."""
    recording = Trace().recording()
    assert recording.steps.is_empty()
    assert recording.operators.is_empty()
    assert recording.timeline().is_empty()
    assert "devices=none" in repr(recording)


def test_questions_are_asked_of_it() -> None:
    """By methods, and by name; nothing is printed."""
    trace = Trace()
    for _ in range(5):
        trace.malloc(100, "train.py(3): keep")
        trace.step()
    recording = trace.recording()
    leaks = recording.leaks()
    assert isinstance(leaks, LeakOverview)
    assert leaks.step_leaks.leaked.height == 3
    assert isinstance(recording.ask("peak"), PeakExplanation)
    assert isinstance(recording.owners().pools[0].nodes, pl.DataFrame)
    with pytest.raises(ConfigurationError, match="no such analysis"):
        recording.ask("peek")


def test_what_a_prompt_and_a_notebook_show() -> None:
    """Where it came from and how much it is; names of files are no markup."""
    trace = Trace()
    trace.malloc(10, device=CUDA, pool=Pool.CUDA)
    recording = trace.recording()
    assert repr(recording) == (
        "<Recording source=trace form=event log process=4242 devices=cuda:1 events=1 blocks=1 steps=0>"
    )
    shown = recording._repr_html_()
    assert "<td>cuda:1</td>" in shown
    assert "<script>" not in shown

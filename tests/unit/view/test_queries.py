"""The answers of the viewer agree with the recording itself, on random runs."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from msmemscope.analysis.fragmentation.fragmentation import find_fragmentation
from msmemscope.analysis.owners.decomposition import owned_blocks
from msmemscope.analysis.weights.call_tree import call_tree
from msmemscope.analysis.weights.measures import Measure, leaked_blocks
from msmemscope.errors import InputError, MissingInputError, UsageError
from msmemscope.model.events import EventKind
from msmemscope.model.owners import without_module
from msmemscope.model.pools import Pool
from msmemscope.recording import Recording
from msmemscope.recording.timeline import blocks_in_use, peak_moments
from msmemscope.reports.html.shown_text import shown
from msmemscope.view.index.store import IndexReader, IndexWriter
from msmemscope.view.queries.blocks import LAYOUTS, MOST_RECTANGLES, Map, block_map
from msmemscope.view.queries.calls import calls_of_window, marks_of_window
from msmemscope.view.queries.frame import Frame
from msmemscope.view.queries.memory import NO_GROUPING, memory_over_time
from msmemscope.view.queries.one_block import at_moment, block_detail
from msmemscope.view.queries.process_view import PoolView, ProcessView, Window
from msmemscope.view.queries.segments import segments_at
from msmemscope.view.queries.tables import TABLES, Page, table_page
from msmemscope.view.queries.trees import MEASURES, difference_of_moments, measured_blocks, weighed_tree
from tests.fakes.traces import Trace
from tests.support.damaged_traces import LARGEST, damaged_recording, events
from tests.support.nightly import NIGHT
from tests.support.random_traces import recordings
from tests.unit.view.viewed import run_text, sizes, viewed

EXAMPLES = settings().max_examples if NIGHT else 24
"""Runs for the questions: by day fewer, since each is looked at whole, moment by moment."""


def blocks_of(recording: Recording, pool: PoolView) -> pl.DataFrame:
    """The blocks of a pool, as the recording has them."""
    facts = pool.facts
    return recording.blocks.filter(
        (pl.col("device") == facts["device_number"]) & (pl.col("pool") == facts["pool_number"])
    )


def some_window(process: ProcessView, data: st.DataObject) -> Window:
    """A window on one of the axes."""
    axis = data.draw(st.sampled_from(process.axes))
    length = process.length(axis)
    begin, end = sorted(data.draw(st.tuples(st.integers(0, length), st.integers(0, length))))
    return process.window(axis, begin, end)


def in_use_at(recording: Recording, pool: PoolView, row: int) -> pl.DataFrame:
    """The blocks in use right after a row, by the definition."""
    sequence = recording.events["sequence"][row] if row >= 0 else 0
    return blocks_in_use(blocks_of(recording, pool), sequence)


def memory_over_time_is_exact_at_every_column(recording: Recording, process: ProcessView, data: st.DataObject) -> None:
    """Each column has its fullest and its emptiest moment, its groups add up, and the window's peak is among them."""
    pool = process.pool(data.draw(st.integers(0, len(process.pools) - 1)))
    window = some_window(process, data)
    columns = data.draw(st.integers(1, 30))
    grouping = data.draw(st.sampled_from([NO_GROUPING, *process.facts["groupings"]]))
    frame = memory_over_time(pool, window, columns, grouping, data.draw(st.integers(1, 4)))
    assert frame.table.height == columns
    edges = np.linspace(window.begin, window.end, columns + 1)
    positions = process.positions(np.arange(process.row_count), window.axis)
    for number, column in enumerate(frame.table.iter_rows(named=True)):
        is_last = number == columns - 1
        behind = positions <= window.end if is_last else positions < edges[number + 1]
        rows = np.flatnonzero((positions >= edges[number]) & behind).tolist()
        before = int((positions < edges[number]).sum()) - 1
        totals = {row: sizes(in_use_at(recording, pool, row))[1] for row in [before, *rows]}
        assert column["most"] == max(totals.values())
        assert column["least"] == min(totals.values())
        assert totals[column["row"]] == column["most"]
        assert math.floor(edges[number]) <= column["position"] <= math.ceil(edges[number + 1])
        groups = [name for name in column if name.startswith("g")]
        if groups:
            assert sum(column[name] for name in groups) == column["most"]
        if grouping == "owner":
            owners = owned_blocks(recording)[0].select("malloc_sequence", of="owner")
            live = in_use_at(recording, pool, column["row"]).join(owners, on="malloc_sequence", how="left")
            expected: dict[str, int] = {}
            for owner, size in live.select("of", "size").iter_rows():
                expected[without_module(owner)] = expected.get(without_module(owner), 0) + size
            for name, group in zip(groups, frame.info["groups"], strict=True):
                if not group["is_rest"]:
                    assert column[name] == expected.get(group["name"], 0)
    assert frame.info["window_peak"]["bytes"] == frame.table["most"].max()
    whole = process.window(window.axis, None, None)
    (peak,) = memory_over_time(pool, whole, 1, NO_GROUPING, 0).table["most"]
    moments = peak_moments(blocks_of(recording, pool))
    assert peak == moments["peak_bytes"][0] == pool.facts["peak_bytes"]


def the_blocks_of_a_window_are_all_there(recording: Recording, process: ProcessView, data: st.DataObject) -> None:
    """With room for all of them each layout has every block; without, those that are left out are counted."""
    pool = process.pool(data.draw(st.integers(0, len(process.pools) - 1)))
    window = some_window(process, data)
    layout = data.draw(st.sampled_from(LAYOUTS))
    colour = data.draw(st.sampled_from([*process.facts["groupings"], "age", "size"]))
    first = process.sequence(window.first_row)
    last = process.sequence(window.last_row)
    own = blocks_of(recording, pool)
    alive = own.filter(
        (pl.col("malloc_sequence") <= last) & (pl.col("free_sequence").is_null() | (pl.col("free_sequence") > first))
    )
    whole = block_map(pool, window, Map(layout, None, None, MOST_RECTANGLES, colour))
    sequences = process.index.get("blocks/sequences")[whole.table["block"].unique().to_numpy()]
    assert set(sequences.tolist()) == set(alive["malloc_sequence"])
    assert whole.info["small"] == {"blocks": 0, "bytes": 0, "byte_share": 0.0}
    most = data.draw(st.integers(1, 5))
    part = block_map(pool, window, Map(layout, None, None, most, colour))
    assert part.table.height <= most
    assert part.info["shown"] + part.info["small"]["blocks"] == alive.height
    shown_bytes = part.table.unique("block").select(pl.col("high") - pl.col("low")).sum().item()
    assert shown_bytes + part.info["small"]["bytes"] == alive["size"].sum()
    if layout == "address":
        for block, low, high in whole.table.select("block", "low", "high").iter_rows():
            size = int(process.index.get("blocks/sizes")[block])
            assert high - low == size
            assert low + pool.facts["base_address"] == int(process.index.get("blocks/addresses")[block])
        return
    # The pieces of a stack neither overlap nor leave a gap: at each moment they reach as high as what is in use.
    for row in {window.first_row, window.last_row}:
        position = process.position(row, "events")
        if row < 0 or window.axis == "time":
            continue
        pieces = whole.table.filter((pl.col("begin") <= position) & (pl.col("end") > position)).sort("low")
        assert pieces["low"].to_list() == [0, *pieces["high"].to_list()[:-1]][: pieces.height]
    with patch("msmemscope.load") as load:
        names = run_text(whole.info["python"], recording, load)
    assert sizes(names["blocks"]) == sizes(alive)


def trees_and_differences_are_sums_of_blocks(recording: Recording, process: ProcessView, data: st.DataObject) -> None:
    """Of every measure the root is the sum over the blocks, and the program's text gets the same blocks."""
    pool = process.pool(data.draw(st.integers(0, len(process.pools) - 1)))
    window = some_window(process, data)
    row = data.draw(st.integers(-1, process.row_count - 1))
    own = blocks_of(recording, pool)
    first, last = process.sequence(window.first_row), process.sequence(window.last_row)
    expected = {
        "moment": in_use_at(recording, pool, row),
        "peak": blocks_in_use(own, peak_moments(own)["sequence"][0]),
        "leaked": own.filter(leaked_blocks(recording)),
        "churn": own.filter((pl.col("malloc_sequence") > first) & (pl.col("malloc_sequence") <= last)),
    }
    for measure, blocks in expected.items():
        measured = measured_blocks(pool, measure, window, row)
        for tree in ("program", "all", "owner"):
            frame = weighed_tree(pool, measured, tree, 3000)
            assert (frame.table["blocks"][0], frame.table["bytes"][0]) == sizes(blocks)
            assert frame.info["total"] == blocks["size"].sum()
        with patch("msmemscope.load") as load:
            names = run_text(frame.info["python"], recording, load)
        assert sizes(names["blocks"]) == sizes(blocks)
    lines = call_tree(recording, Measure.PEAK, least_share=0.0).pools
    (line,) = [
        one for one in lines if (one.device, one.pool) == (pool.facts["device_number"], pool.facts["pool_number"])
    ]
    outermost = line.calls.filter(pl.col("depth") == 1).group_by("frame").agg(pl.col("weight").sum())
    drawn = weighed_tree(pool, measured_blocks(pool, "peak", window, row), "program", 20_000).table
    roots = drawn.slice(1).filter(pl.col("parent") == 0).group_by("name").agg(pl.col("bytes").sum())
    kept = {name: size for name, size in outermost.iter_rows() if size}
    assert sorted(kept.values()) == sorted(size for size in roots["bytes"] if size)

    other = data.draw(st.integers(-1, process.row_count - 1))
    grouping = data.draw(st.sampled_from(process.facts["groupings"]))
    difference = difference_of_moments((pool, row), (pool, other), grouping, 500)
    assert difference.info["total"] == {
        "bytes": sizes(in_use_at(recording, pool, row))[1],
        "other_bytes": sizes(in_use_at(recording, pool, other))[1],
    }
    assert (
        difference.table["difference"].sum()
        == difference.info["total"]["other_bytes"] - difference.info["total"]["bytes"]
    )
    few = difference_of_moments((pool, row), (pool, other), grouping, 1)
    assert few.table["bytes"].sum() + few.info["more"]["bytes"] == few.info["total"]["bytes"]


def byte_seconds_add_up(recording: Recording, process: ProcessView, data: st.DataObject) -> None:
    """The byte-seconds of a window are what its memory over time is, summed up."""
    if not process.facts["has_times"]:
        return
    pool = process.pool(data.draw(st.integers(0, len(process.pools) - 1)))
    window = process.window("time", None, None)
    found = measured_blocks(pool, "byte_seconds", window, None)
    times = process.positions(np.arange(process.row_count), "time")
    totals = [sizes(in_use_at(recording, pool, row))[1] for row in range(process.row_count - 1)]
    expected = sum(total * gap for total, gap in zip(totals, np.diff(times).tolist(), strict=True)) / 1e9
    assert abs(int(found.weights.sum()) - expected) <= len(found.weights)


def every_row_of_a_table_can_be_reached(recording: Recording, process: ProcessView, data: st.DataObject) -> None:
    """The pages of a table, sorted and filtered or not, are together what passes, each once."""
    table = data.draw(st.sampled_from(sorted(TABLES)))
    columns = [column.name for column in TABLES[table] if column.name not in {"stream", "module"}]
    if not process.facts["has_times"]:
        columns = [name for name in columns if name != "time"]
    least, most = sorted(data.draw(st.tuples(st.integers(-1, 15_000), st.integers(-1, 15_000))))
    filters = data.draw(st.sampled_from(["", json.dumps({"size": {"least": least, "most": most}})]))
    search = data.draw(st.sampled_from(["", "aten", "TRAIN.py", "0x12c000000010"]))
    sort = data.draw(st.sampled_from([None, *columns]))
    is_descending = sort is None and data.draw(st.booleans())
    found = []
    limit, offset, matching = data.draw(st.integers(1, 7)), 0, 1
    while offset < matching:
        page = table_page(
            process,
            Page(table, offset, limit, sort, is_descending, filters, search),
        )
        matching = page.info["matching"]
        found.append(page.table)
        offset += limit
    rows = pl.concat(found)
    first = rows.columns[0]
    assert rows.height == matching
    assert rows[first].n_unique() == matching
    every = table_page(process, Page(table, 0, 1000)).table
    passing = every
    if filters:
        passing = passing.filter(pl.col("size").is_between(least, most))
    if search.startswith("0x"):
        at = int(search, 16)
        addresses = [int(text, 16) for text in passing["address"]]
        inside = [low <= at < low + max(size, 1) for low, size in zip(addresses, passing["size"], strict=True)]
        passing = passing.filter(pl.Series(inside, dtype=pl.Boolean))
    elif search:
        texts = ("owner", "operator", "site") if table == "blocks" else ("name", "kind")
        passing = passing.filter(
            pl.any_horizontal(
                pl.col(name).str.to_lowercase().str.contains(search.lower(), literal=True) for name in texts
            )
        )
    assert sorted(rows[first].to_list()) == sorted(passing[first].to_list())
    if sort is not None and rows.height and sort != "address":
        known = rows[sort].drop_nulls().to_list()
        assert known in (sorted(known), sorted(known, reverse=True))


def what_is_in_use_at_a_moment(recording: Recording, process: ProcessView, data: st.DataObject) -> None:
    """How much, and everything about each block."""
    pool = process.pool(data.draw(st.integers(0, len(process.pools) - 1)))
    row = data.draw(st.integers(0, process.row_count - 1))
    live = in_use_at(recording, pool, row)
    found = at_moment(pool, row, process.axes[0])
    assert (found["block_count"], found["in_use_bytes"]) == sizes(live)
    assert found["sequence"] == recording.events["sequence"][row]
    blocks = (pool.intervals.live.at(row) + pool.blocks.start).tolist()
    rows = live.sort("malloc_sequence").select("address", "size", "malloc_sequence", "name").iter_rows()
    for block, (address, size, sequence, name) in zip(blocks, rows, strict=True):
        detail = block_detail(process, block)
        assert detail["begin"]["sequence"] == sequence
        assert (detail["size"], int(detail["address"], 16)) == (size, address)
        assert detail["operator"] == shown(name or "(outside operators)")
        with patch("msmemscope.load") as load:
            assert run_text(detail["python"], recording, load)["block"]["size"] == size


def calls_and_marks_of_a_window(recording: Recording, process: ProcessView, _data: st.DataObject) -> None:
    """Calls of a track do not overlap within a level; steps are those of the recording."""
    whole = process.window(process.axes[-1], None, None)
    calls = calls_of_window(process, whole, 100_000)
    for _, level in calls.table.filter(pl.col("end") > pl.col("begin")).group_by("track", "depth"):
        ordered = level.sort("begin")
        assert (ordered["end"][:-1] <= ordered["begin"][1:]).all()
    assert calls_of_window(process, whole, 1).info["small"]["calls"] == max(calls.table.height - 1, 0)
    marks = marks_of_window(process.pool(0), whole, 1000)
    known = recording.steps["number"].to_list()
    assert {step["number"] for step in marks["steps"]["items"]} <= set(known)
    assert len(marks["marks"]["items"]) + marks["marks"]["more"] == (recording.events["kind"] == 30).sum()
    assert Frame.from_bytes(calls.to_bytes()).info == calls.info


CHECKS = (
    memory_over_time_is_exact_at_every_column,
    the_blocks_of_a_window_are_all_there,
    trees_and_differences_are_sums_of_blocks,
    byte_seconds_add_up,
    every_row_of_a_table_can_be_reached,
    what_is_in_use_at_a_moment,
    calls_and_marks_of_a_window,
)


@settings(max_examples=EXAMPLES)
@given(recordings, st.data())
def test_every_answer_is_that_of_the_recording(recording: Recording, data: st.DataObject) -> None:
    """All of the above, each at windows and moments of its own: to make a run and its index takes longer than the questions."""
    process = viewed(recording)
    assume(process.pools)
    for check in CHECKS:
        check(recording, process, data)


@settings(max_examples=EXAMPLES)
@given(st.lists(events, max_size=15), st.data())
def test_any_numbers_are_shown(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    """Whatever numbers a damaged recording has, each question is answered, and can be sent."""
    process = viewed(damaged_recording(rows))
    for table in TABLES:
        table_page(process, Page(table)).to_bytes()
    for pool in process.pools:
        window = some_window(process, data)
        for grouping in (NO_GROUPING, *process.facts["groupings"]):
            memory_over_time(pool, window, 7, grouping, 3).to_bytes()
        for layout in LAYOUTS:
            for colour in ("owner", "age", "size"):
                block_map(pool, window, Map(layout, None, None, 100, colour)).to_bytes()
        block_map(pool, window, Map("address", 10, 1 << 40, 100, "owner")).to_bytes()
        for measure in MEASURES:
            weighed_tree(pool, measured_blocks(pool, measure, window, 0), "program", 100).to_bytes()
        marks_of_window(pool, window, 10)
        block_detail(process, pool.blocks.start)
        at_moment(pool, 0, window.axis)
        calls_of_window(process, window, 10).to_bytes()
        if pool.facts["has_segments"]:
            segments_at(pool, process.row_count - 1).to_bytes()


def test_calls_of_impossible_times_are_within_the_run() -> None:
    """A damaged log may have times beyond what numbers with a sign can be."""
    trace = Trace()
    for kind, ends, moment in ((EventKind.FUNCTION_CALL, LARGEST, LARGEST - 4000), (EventKind.MARK, 0, LARGEST - 90)):
        trace.add(kind, extra=ends, flags=0)
        trace.rows[-1]["timestamp_ns"] = moment
    process = viewed(trace.recording())
    calls = calls_of_window(process, process.window("time", None, None), 10)
    assert calls.table.select("begin", "end").rows() == [(0, 3910)]


def segmented_run() -> tuple[Recording, int]:
    """A pool with two segments of the driver, one of them pinned by a small block; and a moment."""
    trace = Trace()
    for base in (0x1000_0000, 0x2000_0000):
        trace.malloc(2 << 20, pool=Pool.HAL, address=base)
    blocks = [trace.malloc(512 << 10, "/a.py(1): f", address=0x1000_0000 + n * (512 << 10)) for n in range(4)]
    pin = trace.malloc(512, "/a.py(2): pin", address=0x2000_0000 + (1 << 20))
    for block in blocks:
        trace.free(block)
    trace.malloc(4096, "/a.py(3): g", address=0x1000_0000)
    moment = len(trace.rows) - 1
    trace.free(pin)
    trace.step()
    return trace.recording(), moment


def test_segments_are_those_of_the_fragmentation_analysis() -> None:
    """An empty segment, too, is one because blocks lay in it once; what pins a segment is named."""
    recording, moment = segmented_run()
    process = viewed(recording)
    pool = process.pool(0)
    assert pool.facts["has_segments"]
    for row in range(process.row_count):
        frame = segments_at(pool, row)
        expected = find_fragmentation(recording, process.sequence(row), device=0)
        assert [int(one["address"], 16) for one in frame.info["segments"]] == expected.segments["address"].to_list()
        for name in ("size", "in_use_bytes", "free_bytes", "largest_gap_bytes"):
            assert [one[name] for one in frame.info["segments"]] == expected.segments[name].to_list()
        assert frame.table.filter(pl.col("kind") == 2)["size"].to_list() == expected.gaps["size"].to_list()
        sites = [one["pin"]["site"] if one["pin"] else None for one in frame.info["segments"]]
        assert sites == expected.segments["pin_site"].to_list()
        assert frame.info["totals"] == expected.totals.row(0, named=True)
    frame = segments_at(pool, moment)
    assert [one["pin"]["site"] for one in frame.info["segments"]] == ["/a.py(3): g", "/a.py(2): pin"]
    with patch("msmemscope.load") as load:
        names = run_text(frame.info["python"], recording, load)
    assert names["segments"].height == 2


def test_without_the_driver_there_are_no_segments() -> None:
    """That is said, and is no empty picture."""
    trace = Trace()
    trace.malloc(512)
    with pytest.raises(MissingInputError, match="segments are not known"):
        segments_at(viewed(trace.recording()).pool(0), 0)


def test_an_empty_recording_can_be_opened() -> None:
    """It has no pool, and its tables have no rows."""
    process = viewed(Trace().recording())
    assert process.pools == []
    assert table_page(process, Page("events")).info["total"] == 0
    assert table_page(process, Page("blocks")).info["matching"] == 0


@pytest.mark.parametrize(
    ("page", "message"),
    [
        (Page("blocks", sort="nothing"), "sort: is no column"),
        (Page("blocks", filter_json="[1]"), "filter: is no JSON object"),
        (Page("blocks", filter_json="{" * 100_000), "filter: is no JSON object"),
        (Page("blocks", filter_json='{"size": {"text": "1"}}'), "filter: is no condition for size"),
        (Page("blocks", filter_json='{"owner": {"least": 1}}'), "filter: is no condition for owner"),
        (Page("blocks", filter_json='{"size": 5}'), "filter: is no condition for size"),
        (Page("blocks", search="0xnothing"), "search: is no address"),
        (Page("blocks", search=f"0x1{'0' * 16}"), "search: is no address"),
        (Page("blocks", pool=7), "pool: is no pool"),
        (Page("nothing"), "table: is no table"),
    ],
)
def test_wrong_questions_are_refused(page: Page, message: str) -> None:
    """With what was given, and what is accepted."""
    trace = Trace()
    trace.malloc(512)
    with pytest.raises(UsageError, match=message):
        table_page(viewed(trace.recording()), page)


def test_the_files_of_an_index_may_be_removed_while_it_is_read(tmp_path: Path) -> None:
    """A newer index may take its place while a viewer shows it; empty arrays and odd texts come back as they were."""
    writer = IndexWriter(tmp_path / "0", tmp_path)
    arrays: dict[str, np.ndarray] = {"one": np.arange(5, dtype=np.uint32), "below/none": np.zeros(0, dtype=np.int64)}
    for name, values in arrays.items():
        writer.put(name, values)
    writer.put_texts("below/texts", ["", "\u202e<b>", "层"])
    writer.put_content("facts", {"events": 3})
    index = IndexReader(tmp_path / "0")
    shutil.rmtree(tmp_path / "0")
    assert index.facts == {"events": 3}
    for name, values in arrays.items():
        assert index.get(name).dtype == values.dtype
        assert index.get(name).tolist() == values.tolist()
    assert index.texts("below/texts").to_list() == ["", "\u202e<b>", "层"]


def test_an_index_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    """With its place."""
    IndexWriter(tmp_path / "0", tmp_path).put("one", np.arange(5))
    with pytest.raises(InputError, match=r"the index .*0 cannot be read"):
        IndexReader(tmp_path / "0")

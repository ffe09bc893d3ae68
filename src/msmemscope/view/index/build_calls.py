"""The calls of an index: operators, ranges and functions of Python, thread by thread, as intervals in levels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import polars as pl

from msmemscope.errors import EventLogError
from msmemscope.formats.event_log import Capture
from msmemscope.model.events import EventFlag, EventKind

if TYPE_CHECKING:
    from msmemscope.recording import Recording
    from msmemscope.reports.html.time_axis import TimeAxis
    from msmemscope.view.index.store import IndexWriter

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

_UNKNOWN: Final = "?"
"""Name of things without a known text."""
_CALL_SCHEMA: Final = pl.Schema(
    {
        "kind": pl.String(),
        "thread_id": pl.UInt32(),
        "begin": pl.UInt32(),
        "end": pl.UInt32(),
        "begin_time": pl.Int64(),
        "end_time": pl.Int64(),
        "name": pl.String(),
    }
)
"""begin, end: rows of events; begin_time, end_time: on the time axis, 0 where there is none."""


def put_calls(recording: Recording, axis: TimeAxis, writer: IndexWriter) -> list[dict[str, Any]]:
    """Write the calls of a process.

    Args:
        recording: The process.
        axis: Its axis.
        writer: Gets the arrays, in the order of the begins, and `ranks`, the longest first.

    Returns:
        The tracks: `name`, `kind` (`operators`, `ranges`, `python`), `depth`, the levels that it has.
    """
    parts = [_operators(recording, axis), _ranges(recording, axis), _functions(recording, axis)]
    calls = pl.concat(parts, how="vertical") if parts else _CALL_SCHEMA.to_frame()
    tracks = calls.select("kind", "thread_id").unique().sort("thread_id", "kind").with_row_index("track")
    calls = (
        calls.join(tracks, on=["kind", "thread_id"], how="left", maintain_order="left")
        .sort("begin", "begin_time", "end", "end_time", descending=[False, False, True, True], maintain_order=True)
        .with_row_index("place")
    )
    depths = np.zeros(calls.height, dtype=np.uint32)
    facts = []
    for (number,), part in calls.partition_by("track", as_dict=True, maintain_order=True).items():
        levels = _levels(*(part[name].to_numpy() for name in _order_columns(axis)))
        depths[part["place"].to_numpy()] = levels
        kind, thread = part["kind"][0], part["thread_id"][0]
        facts.append((number, {"name": f"thread {thread}", "kind": kind, "depth": int(levels.max()) + 1}))
    labels = calls["name"].unique(maintain_order=True)
    codes = calls.join(
        pl.DataFrame({"name": labels}).with_row_index("code"), on="name", how="left", maintain_order="left"
    )
    for name in ("track", "begin", "end", "begin_time", "end_time"):
        writer.put(f"calls/{name}", calls[name].to_numpy())
    writer.put("calls/depth", depths)
    writer.put("calls/name", codes["code"].to_numpy())
    writer.put_texts("calls/labels", labels)
    begin, end = (calls[name].to_numpy().astype(np.int64) for name in _order_columns(axis))
    writer.put("calls/ranks", np.argsort(begin - end, kind="stable").astype(np.uint32))
    return [fact for _, fact in sorted(facts, key=lambda one: one[0])]


def _order_columns(axis: TimeAxis) -> tuple[str, str]:
    return ("begin_time", "end_time") if axis.is_time else ("begin", "end")


def _levels(begins: Numbers, ends: Numbers) -> Numbers:
    """How many of the intervals of a track are open at the begin of each; they stand in the order of their begins."""
    ended = np.searchsorted(np.sort(ends), begins, side="right")
    levels: Numbers = np.maximum(np.arange(len(begins)) - ended, 0).astype(np.uint32)
    return levels


def _calls(recording: Recording, axis: TimeAxis, kind: str, pairs: tuple[Numbers, Numbers]) -> pl.DataFrame:
    """Calls that have an event where they begin and one where they end."""
    begins, ends = pairs
    names = recording.strings.select(name_id="id", name="text")
    found = recording.events.select("thread_id", "name_id")[begins]
    named = found.join(names, on="name_id", how="left", maintain_order="left")
    times = axis.moments.astype(np.int64) if axis.is_time else np.zeros(len(axis.moments), dtype=np.int64)
    return named.select(
        kind=pl.lit(kind),
        thread_id="thread_id",
        begin=pl.Series(begins, dtype=pl.UInt32),
        end=pl.Series(ends, dtype=pl.UInt32),
        begin_time=pl.Series(times[begins], dtype=pl.Int64),
        end_time=pl.Series(times[ends], dtype=pl.Int64),
        name=pl.col("name").fill_null(_UNKNOWN).str.strip_prefix("torch._ops."),
    ).cast(_CALL_SCHEMA)


def _operators(recording: Recording, axis: TimeAxis) -> pl.DataFrame:
    kinds = recording.events["kind"].to_numpy()
    starts = np.isin(kinds, [EventKind.ATEN_START, EventKind.ATB_START])
    rows = np.flatnonzero(starts | np.isin(kinds, [EventKind.ATEN_END, EventKind.ATB_END]))
    threads = recording.events["thread_id"].to_numpy()[rows]
    rows = rows[np.argsort(threads, kind="stable")]
    return _calls(recording, axis, "operators", _nested_pairs(recording, rows, starts[rows]))


def _nested_pairs(recording: Recording, rows: Numbers, is_start: Numbers) -> tuple[Numbers, Numbers]:
    """The begins and ends that belong together: on a thread, the last that is open ends first."""
    threads = recording.events["thread_id"].to_numpy()[rows].astype(np.int64)
    depth = np.cumsum(np.where(is_start, 1, -1))
    # A thread's own depth: what is before its first row does not count.
    firsts = np.flatnonzero(np.diff(threads, prepend=-1) != 0)
    before = np.repeat(np.concatenate([[0], depth])[firsts], np.diff(np.append(firsts, len(rows))))
    level = np.where(is_start, depth - before, depth - before + 1)
    order = np.lexsort((np.arange(len(rows)), level, threads))
    follows = order[1:]
    is_pair = is_start[order[:-1]] & ~is_start[follows]
    is_pair &= (level[order[:-1]] == level[follows]) & (threads[order[:-1]] == threads[follows])
    begins, ends = rows[order[:-1][is_pair]], rows[follows[is_pair]]
    names = recording.events["name_id"].to_numpy()
    is_same = names[begins] == names[ends]
    return begins[is_same], ends[is_same]


def _ranges(recording: Recording, axis: TimeAxis) -> pl.DataFrame:
    events = recording.events.lazy().with_row_index("row").select("row", "kind", "extra")
    begins = events.filter(pl.col("kind") == EventKind.RANGE_START)
    ends = events.filter(pl.col("kind") == EventKind.RANGE_END).select("extra", end="row")
    pairs = begins.join(ends, on="extra").filter(pl.col("end") > pl.col("row")).unique("row", keep="first").sort("row")
    found = pairs.collect()
    return _calls(recording, axis, "ranges", (found["row"].to_numpy(), found["end"].to_numpy()))


def _functions(recording: Recording, axis: TimeAxis) -> pl.DataFrame:
    """Functions of the Python trace: one event each, when it began, with when it ended."""
    if recording.form != "event log" or not axis.is_time:
        return _CALL_SCHEMA.to_frame()
    unknown = int(EventFlag.START_UNKNOWN | EventFlag.END_UNKNOWN)
    found = recording.events.filter(
        (pl.col("kind") == EventKind.FUNCTION_CALL) & (pl.col("flags") & unknown == 0)
    ).select("thread_id", "timestamp_ns", "extra", "name_id", "attribute_id")
    if found.is_empty():
        return _CALL_SCHEMA.to_frame()
    codes = found.filter(pl.col("name_id") == 0)["attribute_id"].unique()
    texts = pl.DataFrame({"attribute_id": codes, "function": _function_texts(recording, codes)})
    strings = recording.strings.select(name_id="id", text="text")
    named = found.join(texts, on="attribute_id", how="left", maintain_order="left").join(
        strings, on="name_id", how="left", maintain_order="left"
    )
    # Without a sign, as they are: a damaged log has times that no number with one can be.
    first, length = np.uint64(axis.begin_ns), np.uint64(axis.length)
    begin, end = (
        np.minimum(np.maximum(found[name].to_numpy(), first) - first, length).astype(np.int64)
        for name in ("timestamp_ns", "extra")
    )
    moments = axis.moments
    return named.select(
        kind=pl.lit("python"),
        thread_id="thread_id",
        begin=pl.Series(np.searchsorted(moments, begin), dtype=pl.UInt32),
        end=pl.Series(np.searchsorted(moments, end, side="right"), dtype=pl.UInt32),
        begin_time=pl.Series(begin),
        end_time=pl.Series(end),
        name=pl.when(pl.col("name_id") == 0).then("function").otherwise("text").fill_null(_UNKNOWN),
    ).cast(_CALL_SCHEMA)


def _function_texts(recording: Recording, codes: pl.Series) -> pl.Series:
    """The names of code objects, which stand in the log alone."""
    try:
        capture = Capture(Path(recording.source))
        texts = [capture.function_text(code) if code else _UNKNOWN for code in codes]
    except EventLogError:  # it was removed meanwhile
        texts = [_UNKNOWN] * len(codes)
    return pl.Series(texts, dtype=pl.String)

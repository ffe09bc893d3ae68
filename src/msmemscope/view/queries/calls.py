"""Calls under the curve: operators, ranges and functions of Python. Also the other events at moments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.reports.html.shown_text import shown
from msmemscope.units import format_bytes
from msmemscope.view.index.store import NEVER
from msmemscope.view.queries.frame import Frame
from msmemscope.view.queries.python_text import operators_text

if TYPE_CHECKING:
    from typing import TypeAlias

    from msmemscope.view.queries.process_view import PoolView, ProcessView, Window

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

CALL_SCHEMA: Final = pl.Schema(
    {"track": pl.UInt32(), "depth": pl.UInt32(), "begin": pl.Int64(), "end": pl.Int64(), "name": pl.Categorical()}
)
"""One row per call; begin and end are positions on the axis."""
_MARK_LETTERS: Final = 80


def calls_of_window(process: ProcessView, window: Window, most: int) -> Frame:
    """Return the calls that run in a window, the longest if there are too many; `api/calls` in ui/PROTOCOL.md."""
    first, last = window.first_row, window.last_row
    places = process.calls.heaviest(first, last, most)
    total = process.calls.count(first, last)
    begin, end = (_positions(process, name, places, window.axis) for name in ("begin", "end"))
    seen = np.minimum(end, window.end) - np.maximum(begin, window.begin)
    chosen = np.argsort(-seen, kind="stable")[:most]
    places, begin, end = places[chosen], begin[chosen], end[chosen]
    labels = process.index.texts("calls/labels")
    codes = process.index.get("calls/name")[places]
    used, numbers = np.unique(codes, return_inverse=True)
    names = pl.Series([shown(label) for label in labels.gather(used)], dtype=pl.String)
    table = pl.DataFrame(
        {
            "track": process.index.get("calls/track")[places],
            "depth": process.index.get("calls/depth")[places],
            "begin": begin,
            "end": end,
            "name": names.gather(numbers).cast(pl.Categorical()),
        },
        CALL_SCHEMA,
    )
    info = {
        "tracks": process.facts["tracks"],
        "small": {"calls": total - len(places)},
        "python": operators_text(process, window),
    }
    return Frame(info, table)


def _positions(process: ProcessView, name: str, places: Numbers, axis: str) -> Numbers:
    if axis == "time":
        return process.index.get(f"calls/{name}_time")[places]
    return process.positions(process.index.get(f"calls/{name}")[places], axis)


def marks_of_window(pool: PoolView, window: Window, most: int) -> dict[str, Any]:
    """Return the events on the curve of a pool; `api/marks` in ui/PROTOCOL.md.

    Args:
        pool: The pool.
        window: The part of the axis.
        most: Of each kind.
    """
    process = pool.process
    begins, ends, numbers = pool.steps()
    is_there = (begins <= window.last_row) & (ends.astype(np.int64) >= window.first_row)
    steps, more = _spread(np.flatnonzero(is_there), most)
    found: dict[str, Any] = {
        "steps": {
            "more": more,
            "items": [
                {
                    "position": process.position(int(begins[step]), window.axis),
                    "end": None if ends[step] == NEVER else process.position(int(ends[step]), window.axis),
                    "row": int(begins[step]),
                    "number": int(numbers[step]),
                }
                for step in steps.tolist()
            ],
        }
    }
    for name in ("marks", "snapshots", "failures"):
        found[name] = _moments(pool, window, name, most)
    found["ranges"] = _ranges(process, window, most)
    return found


def _moments(pool: PoolView, window: Window, name: str, most: int) -> dict[str, Any]:
    index, process = pool.process.index, pool.process
    rows, sizes, devices = (index.get(f"marks/{name}/{part}") for part in ("rows", "sizes", "devices"))
    is_there = (rows <= window.last_row) & (rows.astype(np.int64) > window.first_row)
    if name == "failures":
        is_there &= devices == pool.facts["device_number"]
    chosen, more = _spread(np.flatnonzero(is_there), most)
    texts = index.texts(f"marks/{name}/texts")
    items = []
    for place in chosen.tolist():
        row, size = int(rows[place]), int(sizes[place])
        text = (
            f"{format_bytes(size)} could not be allocated" if name == "failures" else shown(texts[place], _MARK_LETTERS)
        )
        items.append({"position": process.position(row, window.axis), "row": row, "text": text, "bytes": size})
    return {"more": more, "items": items}


def _ranges(process: ProcessView, window: Window, most: int) -> dict[str, Any]:
    """Ranges that the program named itself."""
    kinds = [track["kind"] for track in process.facts["tracks"]]
    tracks = [number for number, kind in enumerate(kinds) if kind == "ranges"]
    if not tracks:
        return {"more": 0, "items": []}
    own = np.flatnonzero(np.isin(process.index.get("calls/track"), tracks))
    begins, ends = (process.index.get(f"calls/{name}")[own] for name in ("begin", "end"))
    is_there = (begins <= window.last_row) & (ends.astype(np.int64) > window.first_row)
    chosen, more = _spread(own[is_there], most)
    labels, names = process.index.texts("calls/labels"), process.index.get("calls/name")
    begin, end = (_positions(process, name, chosen, window.axis).tolist() for name in ("begin", "end"))
    rows = process.index.get("calls/begin")[chosen].tolist()
    items = [
        {"position": at, "end": until, "row": row, "text": shown(labels[int(names[place])], _MARK_LETTERS)}
        for at, until, row, place in zip(begin, end, rows, chosen.tolist(), strict=True)
    ]
    return {"more": more, "items": items}


def _spread(places: Numbers, most: int) -> tuple[Numbers, int]:
    """So many of some places, evenly spread, and how many are left out."""
    if len(places) <= most:
        return places, 0
    chosen = places[np.linspace(0, len(places) - 1, most).astype(np.int64)]
    return chosen, len(places) - most

"""Memory over time: the fullest moment of each column, and the bytes in use then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.reports.html.shown_text import shown
from msmemscope.view.index.ordered import counts_below, counts_up_to
from msmemscope.view.queries.frame import Frame
from msmemscope.view.queries.python_text import timeline_text
from msmemscope.view.queries.sums import sums_by_code

if TYPE_CHECKING:
    from typing import TypeAlias

    from msmemscope.view.queries.process_view import PoolView, Window

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

NO_GROUPING: Final = "none"
OTHERS: Final = "(others)"
_SAMPLES: Final = 8
"""Moments of a window at which groups are looked at, beside its fullest, to choose those that are drawn."""
_MOST_SAMPLED: Final = 200_000
"""Blocks in use beyond which the fullest moment alone decides."""


def memory_over_time(pool: PoolView, window: Window, columns: int, grouping: str, group_count: int) -> Frame:
    """Return how much of a pool was in use over time; `api/memory` in ui/PROTOCOL.md.

    Args:
        pool: The pool.
        window: The part of the axis.
        columns: Equally wide parts of the window.
        grouping: One of the process, or NO_GROUPING.
        group_count: Groups that are told apart; the others are one.
    """
    process = pool.process
    edges = np.linspace(window.begin, window.end, columns + 1)
    first_rows = process.rows_before(edges[:-1], window.axis)
    last_rows = np.append(first_rows[1:], window.last_row + 1)
    # State n is the state after n changes; a column has those before its first row up to those of its last.
    first = counts_below(pool.rows, first_rows)
    last = np.maximum(counts_below(pool.rows, last_rows), first)
    states = pool.highest.places(first, last)
    rows = (
        np.where(states > 0, pool.rows[np.maximum(states - 1, 0)].astype(np.int64), -1)
        if len(pool.rows)
        else states - 1
    )
    # Memory that was in use when a column began is in use from its begin on.
    is_carried = states == first
    rows = np.where(is_carried, first_rows - 1, rows)
    positions = np.where(is_carried, np.round(edges[:-1]).astype(np.int64), process.positions(rows, window.axis))
    most = pool.in_use[states]
    peak = int(most.argmax())
    table: dict[str, Any] = {
        "position": positions,
        "row": rows,
        "most": most,
        "least": pool.lowest.values(first, last),
        "reserved": pool.reserved(np.maximum(first_rows, 0), np.maximum(last_rows - 1, 0)),
        "step": _steps(pool, rows),
    }
    groups: list[dict[str, Any]] = []
    if grouping != NO_GROUPING:
        labels, codes = process.labels(grouping), _largest_groups(pool, grouping, states, rows, group_count)
        left = most.copy()
        for place, code in enumerate(codes):
            totals = pool.group_totals(grouping, code, states)
            left = left - totals
            table[f"g{place}"] = totals
            groups.append({"name": shown(labels[code]), "key": code, "is_rest": False})
        if left.any():
            table[f"g{len(groups)}"] = left
            groups.append({"name": OTHERS, "key": None, "is_rest": True})
    moment = process.moment(int(rows[peak]))
    info = {
        "from": window.begin,
        "to": window.end,
        "by": grouping,
        "groups": groups,
        "window_peak": {"bytes": int(most[peak]), "position": int(positions[peak]), **moment},
        "python": timeline_text(pool, window),
    }
    return Frame(info, pl.DataFrame(table, {name: pl.Int64() for name in table}))


def _steps(pool: PoolView, rows: Numbers) -> Numbers:
    """The number of the step that had begun last, -1 before the first."""
    begins, _, numbers = pool.steps()
    if not len(begins):
        return np.full(len(rows), -1, dtype=np.int64)
    places = counts_up_to(begins, rows) - 1
    return np.where(places >= 0, numbers[np.maximum(places, 0)], -1)


def _largest_groups(pool: PoolView, grouping: str, states: Numbers, rows: Numbers, count: int) -> list[int]:
    """The groups that have the most bytes at the fullest moment, or at one of some others; the largest first."""
    if not count:
        return []
    in_use = pool.in_use[states]
    fullest = int(in_use.argmax())
    moments = [int(rows[fullest])]
    if int(in_use[fullest]) and len(pool.intervals.live.at(moments[0])) <= _MOST_SAMPLED:
        parts = np.array_split(np.arange(len(rows)), min(_SAMPLES, len(rows)))
        moments.extend(int(rows[part[in_use[part].argmax()]]) for part in parts)
    codes, sizes = pool.codes(grouping), pool.of_blocks("sizes")
    group_count = len(pool.process.labels(grouping))
    most = np.zeros(group_count, dtype=np.int64)
    for row in dict.fromkeys(moments):
        live = pool.intervals.live.at(row)
        most = np.maximum(most, sums_by_code(codes[live], sizes[live], group_count))
    order = np.argsort(-most, kind="stable")[:count]
    return [int(code) for code in order if most[code] > 0]

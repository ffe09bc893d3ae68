"""The answer about a job in types that JSON takes: the same bytes, whoever made the summaries and in whatever order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from msmemscope.cluster.answer.axes import AXIS_WORDS
from msmemscope.cluster.answer.ends import ENDS_WORDS
from msmemscope.cluster.answer.forecast import FORECAST_WORDS
from msmemscope.cluster.answer.headlines import headlines, name_of, nothing_wrong, uneven_text
from msmemscope.cluster.answer.job_answer import HEADROOM
from msmemscope.cluster.answer.ranks import INDEX, JUDGED, WHO
from msmemscope.cluster.answer.spread import TEST_WORDS
from msmemscope.cluster.answer_text import job_sentence, remarks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from msmemscope.cluster.answer.difference import Difference
    from msmemscope.cluster.answer.job_answer import JobAnswer

FORMAT: Final = 1
"""Of the object; a key that changes its meaning is a new one."""
_OF_RANK: Final = (
    WHO, "rank", "role", "node", "local_rank", "restart_count", "process_id", "program", "source", "device", "pool", "peak_bytes",
    "peak_step", "host_bytes", "used_bytes", "limit_bytes", HEADROOM, "end", "end_signal", "end_status", "end_ns", "held_bytes",
    "group_bytes", "group_limit_bytes", "event_count", "block_count", "steps_ended", "step_source",
)  # fmt: skip


def answer_content(answer: JobAnswer) -> dict[str, Any]:
    """Return the whole answer about a job."""
    found = headlines(answer)
    stacks = dict(answer.stacks.iter_rows())
    return {
        "verb": "cluster",
        "format": FORMAT,
        "verdict": [line.text for line in found] or [nothing_wrong(answer)],
        "job": job_sentence(answer),
        "headlines": [
            {
                "kind": line.kind,
                "text": line.text,
                "ranks": _names(answer, line.rows),
                "bytes": line.size_bytes,
                "site": line.site,
            }
            for line in found
        ],
        "ranks": [_rank(answer.rows.row(place, named=True)) for place in answer.by_headroom],
        "findings": [
            {
                **_without(row, "ranks", "worst"),
                "ranks": _names(answer, row["ranks"]),
                "worst": name_of(answer, row["worst"]),
            }
            for row in answer.findings.iter_rows(named=True)
        ],
        "early_ends": [
            {**_without(row, "ranks"), "ranks": _names(answer, row["ranks"])}
            for row in answer.early_ends.iter_rows(named=True)
        ],
        "common_places": [
            {
                "place": common.place,
                "ranks": _names(answer, common.rows),
                "of": common.ranks,
                "peak_bytes": common.peak_bytes,
                "excess_bytes": common.excess_bytes,
                **_difference(common.difference, stacks),
            }
            for common in answer.common_places
        ],
        "outliers": [
            {**_named(answer, row), **_difference(cause, stacks)}
            for row, cause in zip(answer.outliers.iter_rows(named=True), answer.outlier_causes, strict=True)
        ],
        "axes": [
            {
                "axis": spread.axis,
                "is_uneven": spread.is_uneven,
                "text": uneven_text(answer, spread),
                "largest": spread.largest,
                "excess_bytes": spread.excess_bytes,
                "indexes": spread.indexes.to_dicts(),
                **_difference(spread.difference, stacks),
            }
            for spread in answer.axes
        ],
        "forecasts": [_named(answer, row) for row in answer.forecasts.iter_rows(named=True)],
        "worst_against_median": None
        if answer.worst is None
        else {
            "worst": name_of(answer, answer.worst.worst),
            "median": name_of(answer, answer.worst.median),
            **_difference(answer.worst.difference, stacks),
        },
        "modules": [
            {**_without(row, "most_row"), "most_of": name_of(answer, row["most_row"])}
            for row in answer.modules.iter_rows(named=True)
        ],
        "timeline": answer.timeline.columns.to_dicts(),
        "tests": {"early_ends": ENDS_WORDS, "outliers": TEST_WORDS, "axes": AXIS_WORDS, "forecasts": FORECAST_WORDS},
        "failures": [{"source": source, "reason": reason} for source, reason in answer.failures],
        "remarks": remarks(answer),
        "beside": answer.rows.filter(~pl.col(JUDGED)).select(WHO, "source", "peak_bytes").to_dicts(),
    }


def _rank(row: dict[str, Any]) -> dict[str, Any]:
    coordinates = {one["axis"]: one["index"] for one in row["coordinates"] or ()}
    return {**{name: row[name] for name in _OF_RANK}, "coordinates": coordinates, "owners": (row["owners"] or [])[:8]}


def _named(answer: JobAnswer, row: dict[str, Any]) -> dict[str, Any]:
    return {WHO: name_of(answer, row[INDEX]), **_without(row, INDEX)}


def _names(answer: JobAnswer, rows: Iterable[int]) -> list[str]:
    return [name_of(answer, row) for row in rows]


def _without(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


def _difference(difference: Difference, stacks: dict[str, str]) -> dict[str, Any]:
    return {
        "owners": [_without(row, "hash") for row in difference.owners.iter_rows(named=True)],
        "sites": [
            {**row, "frames": stacks.get(row["hash"], "").splitlines()}
            for row in difference.sites.iter_rows(named=True)
        ],
    }

"""How ranks ended, against the others: the first question about a job that died.

A rank is compared with the ranks of its role. It is named in two cases:

- It ended two steps before the median of the others. After an orderly end it must be a tenth of the steps, too.
- It failed: a signal ended it, or it had a status of its own. Most of the others did not fail, or failed later. Whoever
  ends a job sends SIGTERM, SIGINT or SIGHUP to the ranks that are left, so these are no failures.

Calls of a model are no steps here: servers answer as many requests as they get.
"""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from msmemscope.cluster.answer.ranks import INDEX, JUDGED
from msmemscope.cluster.summary import ProcessEnd
from msmemscope.recording.recording import StepSource

LEAST_STEPS: Final = 2
LEAST_SHARE: Final = 0.1
"""Of the steps of the others."""
MOST_SHARE: Final = 0.5
"""Of the ranks, that are named for their failure."""
AT_ONCE_NS: Final = 2_000_000_000
"""Failures within this time are one: clocks of hosts differ, and a job needs a moment to notice."""
SENT_TO_THE_REST: Final = ("SIGTERM", "SIGINT", "SIGHUP")
ENDS_WORDS: Final = (
    "ranks that ended 2 steps before the median of their role (a tenth of its steps, if in an orderly way), or that failed "
    "where most others did not, or did later"
)

_WAY: Final = ("end", "end_signal", "end_status", "end_limit_bytes")
EARLY_END_SCHEMA: Final = pl.Schema(
    {
        "end": pl.String(), "end_signal": pl.String(), "end_status": pl.Int64(), "end_limit_bytes": pl.Int64(),
        "step": pl.Int64(), "others_ended": pl.Int64(), "others": pl.Int64(), "later_ns": pl.Int64(), "ranks": pl.List(pl.UInt32()),
    }
)  # fmt: skip
"""One row per way and step in which ranks ended before others, the earliest step first.

end ... end_limit_bytes: as `summary.SUMMARY_SCHEMA` has them. step: the one in which it ended, from 1; null without
steps. others: number of the others; others_ended: the median of the steps that they ended. later_ns: by which the last
of the others ended later, null where that is not known. ranks: their rows.
"""
_ENDED: Final = "steps_ended"


def find_early_ends(rows: pl.DataFrame) -> pl.DataFrame:
    """Find the ranks that ended before the others.

    Args:
        rows: Of `ranks.rank_rows`.

    Returns:
        EARLY_END_SCHEMA.
    """
    counts_calls = pl.col("step_source").is_in([StepSource.MODULE.value, StepSource.NONE.value])
    judged = rows.filter(JUDGED, pl.col("end").is_not_null()).with_columns(
        pl.when(~counts_calls.fill_null(value=False) & (pl.col(_ENDED) > 0)).then(_ENDED)
    )
    marked = judged.with_columns(is_early=_is_behind() | _fails_first())
    found = [
        _early_end(marked, part)
        for part in marked.filter("is_early").partition_by("role", *_WAY, _ENDED, maintain_order=True)
    ]
    return pl.DataFrame(found, EARLY_END_SCHEMA).sort("step", nulls_last=True, maintain_order=True)


def _is_behind() -> pl.Expr:
    usual = pl.col(_ENDED).median().over("role")
    is_orderly = pl.col("end").is_in([ProcessEnd.ORDERLY.value, ProcessEnd.RUNNING.value])
    least = pl.when(is_orderly).then(pl.max_horizontal(pl.lit(LEAST_STEPS), LEAST_SHARE * usual)).otherwise(LEAST_STEPS)
    return (usual - pl.col(_ENDED) >= least).fill_null(value=False)


def _fails_first() -> pl.Expr:
    by_signal = pl.col("end_signal").is_not_null() & ~pl.col("end_signal").is_in(SENT_TO_THE_REST)
    failed = by_signal | (pl.col("end_status").fill_null(0) != 0) | pl.col("end_limit_bytes").is_not_null()
    is_first = failed & (pl.col("end_ns") - pl.col("end_ns").min().over("role") <= AT_ONCE_NS).fill_null(value=False)
    most_failed = failed.mean().over("role") > MOST_SHARE
    return pl.when(most_failed).then(is_first & (is_first.mean().over("role") <= MOST_SHARE)).otherwise(failed)


def _early_end(marked: pl.DataFrame, ranks: pl.DataFrame) -> dict[str, Any]:
    first = ranks.row(0, named=True)
    others = marked.filter(pl.col("role").eq_missing(first["role"]), ~pl.col("is_early"))
    last, own = others["end_ns"].drop_nulls().to_list(), ranks["end_ns"].drop_nulls().to_list()
    usual = others[_ENDED].median()
    return {
        **{name: first[name] for name in _WAY},
        "step": None if first[_ENDED] is None else first[_ENDED] + 1,
        "others_ended": None if usual is None else int(usual),  # type: ignore[arg-type]  # of whole numbers
        "others": others.height,
        "later_ns": max(max(last) - max(own), 0) if last and own else None,
        "ranks": ranks[INDEX].to_list(),
    }

"""The report on watched memory, for one process: unexpected changes one by one, the others counted."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Final

import polars as pl

from msmemscope.analysis.watch.sentences import short_operator
from msmemscope.analysis.watch.verdict import LEGITIMATE, UNKNOWN
from msmemscope.reports.report_text import ALARM, HEADING, QUIET, ReportWriter, counted
from msmemscope.units import format_count

if TYPE_CHECKING:
    from msmemscope.analysis.watch.verdict import WatchResult

MOST_CHANGES: Final = 20
"""Unexpected changes that are listed."""
_MOST_OTHERS: Final = 3
"""Changes of each other kind that are named."""


def render_watch(
    result: WatchResult, out: IO[str], *, width: int | None = None, is_coloured: bool | None = None
) -> None:
    """Write the known facts about watched memory.

    Args:
        result: By `analysis.watch.verdict.judge_watched_memory`.
        out: Where to write it.
        width: Columns; by default those of the terminal, 80 where there is none.
        is_coloured: Whether to colour; by default if `out` is a terminal.
    """
    writer = ReportWriter(out, width=width, is_coloured=is_coloured)
    if not result.was_watched:
        writer.line("No memory was watched", HEADING)
        return
    unexpected = result.unexpected
    if unexpected.is_empty():
        writer.line("Watched memory: no unexpected change", HEADING)
    else:
        rest = f": {counted(unexpected.height, 'unexpected change')} of watched memory"
        writer.styled_line(("ERROR", ALARM), (rest, HEADING))
    for change in unexpected.head(MOST_CHANGES).iter_rows(named=True):
        writer.sentence(_capitalized(change["sentence"]))
        if change["call_site"]:
            where = "before" if change["when"] == "between" else "at"
            writer.line(f"    {where} {change['call_site']}", QUIET)
        if change["before"] != change["after"]:  # they do not differ where other bytes than the legitimate ones changed
            writer.line(f"    checksum {change['before']}, then {change['after']}", QUIET)
    if unexpected.height > MOST_CHANGES:
        others = unexpected.slice(MOST_CHANGES)
        writer.sentence(f"... and {counted(others.height, 'more unexpected change')}{_operators(others)}", style=QUIET)
    _watched(writer, result.watched)
    for write in result.declared.head(MOST_CHANGES).iter_rows(named=True):
        writer.sentence(_capitalized(write["sentence"]))
        if write["call_site"]:
            writer.line(f"    at {write['call_site']}", QUIET)
    if result.declared.height > MOST_CHANGES:
        more = counted(result.declared.height - MOST_CHANGES, "more line")
        writer.sentence(f"... and {more} that wrote what is watched by name", style=QUIET)
    _others(writer, result.changes, LEGITIMATE, "by operators that may write it")
    _others(writer, result.changes, UNKNOWN, "whose legitimacy is not known")
    for sentence in (*result.files, *result.extent):
        writer.sentence(sentence)


def _watched(writer: ReportWriter, watched: pl.DataFrame) -> None:
    if watched.is_empty():
        return
    names = watched.select(
        pl.when(pl.col("watch") == "window")
        .then(pl.format("output {} of {}", pl.col("output").fill_null(0), "name"))
        .otherwise("name")
        .alias("name")
    )["name"].unique(maintain_order=True)
    shown = ", ".join(name.replace("torch._ops.", "") for name in names.head(_MOST_OTHERS))
    more = f" and {format_count(len(names) - _MOST_OTHERS)} more" if len(names) > _MOST_OTHERS else ""
    pieces = "1 piece" if watched.height == 1 else f"{format_count(watched.height)} pieces"
    writer.sentence(f"Watched: {pieces} of memory, {shown}{more}.")


def _others(writer: ReportWriter, changes: pl.DataFrame, verdict: str, meaning: str) -> None:
    found = changes.filter(pl.col("verdict") == verdict)
    if found.is_empty():
        return
    writer.sentence(f"{counted(found.height, 'change')} {meaning}{_operators(found)}.", style=QUIET)


def _operators(changes: pl.DataFrame) -> str:
    """Return the operators that most of some changes were found at, with their numbers; empty if none is known."""
    writers = (
        changes.group_by(pl.coalesce("writer", "operator").alias("writer"))
        .agg(pl.len().alias("count"))
        .drop_nulls()
        .sort(["count", "writer"], descending=[True, False])
    )
    named = [
        f"{short_operator(name)} ({format_count(count)})" for name, count in writers.head(_MOST_OTHERS).iter_rows()
    ]
    more = f" and {format_count(writers.height - _MOST_OTHERS)} more" if writers.height > _MOST_OTHERS else ""
    return f": {', '.join(named)}{more}" if named else ""


def _capitalized(sentence: str) -> str:
    return f"{sentence[0].upper()}{sentence[1:]}." if sentence else ""

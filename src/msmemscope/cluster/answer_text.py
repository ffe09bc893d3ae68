"""The answer about a job for a terminal: the verdict first, then the tables behind it."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any, Final

import polars as pl

from msmemscope.cluster.answer.axes import AXIS_WORDS
from msmemscope.cluster.answer.end_text import early_end_text
from msmemscope.cluster.answer.ends import ENDS_WORDS
from msmemscope.cluster.answer.forecast import FORECAST_WORDS
from msmemscope.cluster.answer.headlines import headlines, name_of, nothing_wrong
from msmemscope.cluster.answer.job_answer import HEADROOM
from msmemscope.cluster.answer.ranks import INDEX, WHO
from msmemscope.cluster.answer.spread import TEST_WORDS
from msmemscope.reports.report_text import ALARM, HEADING, QUIET, ReportWriter, counted
from msmemscope.reports.sparkline import sparkline
from msmemscope.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msmemscope.cluster.answer.difference import Difference
    from msmemscope.cluster.answer.headlines import Headline
    from msmemscope.cluster.answer.job_answer import JobAnswer

MOST_HEADLINES: Final = 12
MOST_RANKS: Final = 10
MOST_ROWS: Final = 8
MOST_FAILURES: Final = 20
MODULE_WORDS: Final = "of a rank, when the driver's memory is at its highest; buffers of a communicator stand at the line that used it first"
_UNKNOWN: Final = "?"


def render_answer(answer: JobAnswer, out: IO[str], *, width: int | None = None) -> None:
    """Write the whole answer about a job.

    Args:
        answer: The answer.
        out: Where to.
        width: Columns; by default those of the terminal.
    """
    writer = ReportWriter(out, width=width)
    found = headlines(answer)
    _first_lines(answer, found, writer)
    if not answer.judged.is_empty():
        _ranks(answer, writer)
        _early_ends(answer, writer)
        _outliers(answer, writer)
        _axes(answer, writer)
        _forecasts(answer, writer)
        _worst(answer, writer)
        _modules(answer, writer)
        _timeline(answer, writer, encoding=getattr(out, "encoding", None))
    _failures(answer, writer)


def job_sentence(answer: JobAnswer) -> str:
    """Return the size of the job: `8 ranks on 2 nodes, 8 captures with 1,234,567 events`."""
    judged, rows = answer.judged, answer.rows
    nodes = judged["node"].drop_nulls().n_unique()
    on = f" on {counted(nodes, 'node')}" if nodes else ""
    captures = rows["source"].n_unique() + len(answer.failures)
    return (
        f"{counted(judged.height, 'rank')}{on}, {counted(captures, 'capture')} with "
        f"{counted(int(rows['event_count'].sum()), 'event')}"
    )


def remarks(answer: JobAnswer) -> list[str]:
    """Return the limits of the answer, one sentence each."""
    rows, lines = answer.rows, []
    beside = rows.height - answer.judged.height
    if beside:
        lines.append(
            f"{counted(beside, 'capture')} stand{'s' if beside == 1 else ''} for no rank (of an earlier restart, of a helper "
            "process, or without memory): only what was found there counts"
        )
    world = answer.judged["world_size"].drop_nulls().unique().sort().to_list()
    ranks = answer.judged["rank"].drop_nulls().n_unique()
    if len(world) == 1 and ranks < world[0]:
        lines.append(f"{format_count(world[0] - ranks)} of {format_count(world[0])} ranks have no capture here")
    without = answer.judged.filter(pl.col("limit_bytes").is_null()).height
    if without:
        lines.append(
            f"headroom: not known of {counted(without, 'rank')}, no snapshot says what the device has; --capacity=SIZE does"
        )
    partial = rows.select(WHO, "source", "problems").explode("problems", empty_as_null=False).drop_nulls("problems")
    lines.extend(f"{row[0]} ({row[1]}): {row[2]}" for row in partial.iter_rows())
    void = rows.filter(pl.col("event_count") == 0).select(WHO, "source").unique(maintain_order=True)
    lines.extend(f"{row[0]} ({row[1]}): no event was recorded" for row in void.iter_rows())
    return lines


def _first_lines(answer: JobAnswer, found: Sequence[Headline], writer: ReportWriter) -> None:
    for headline in found[:MOST_HEADLINES]:
        writer.line(headline.text, ALARM)
    if len(found) > MOST_HEADLINES:
        writer.line(f"and {format_count(len(found) - MOST_HEADLINES)} more findings; --json has all of them")
    if not found:
        writer.line(nothing_wrong(answer), HEADING)
    writer.sentence(job_sentence(answer), style=QUIET)


def _ranks(answer: JobAnswer, writer: ReportWriter) -> None:
    _heading(
        writer, "Ranks by headroom" if answer.rows[HEADROOM].null_count() < answer.rows.height else "Ranks by peak"
    )
    rows = []
    for number in answer.by_headroom.head(MOST_RANKS):
        row = answer.rows.row(number, named=True)
        memory = f"{row['device']} {row['pool']}, highest in step {format_count(row['peak_step'])}"
        place = ", ".join(filter(None, (row["node"], coordinates_text(row), memory)))
        sizes = (row[HEADROOM], row["used_bytes"], row["peak_bytes"], row["host_bytes"])
        rows.append((*map(_bytes, sizes), f"{row[WHO]}: {place}"))
    writer.table(("headroom", "of device", "peak", "of host", "rank"), rows)
    _more(writer, len(answer.by_headroom) - MOST_RANKS, "rank")


def coordinates_text(row: dict[str, Any]) -> str:
    """Return where a rank stands: `data 0, pipeline 1`."""
    return ", ".join(f"{one['axis']} {one['index']}" for one in row["coordinates"] or ())


def _early_ends(answer: JobAnswer, writer: ReportWriter) -> None:
    if answer.early_ends.is_empty():
        return
    _heading(writer, "Ended before the others")
    for row in answer.early_ends.head(MOST_ROWS).iter_rows(named=True):
        writer.sentence(early_end_text(answer, row))
    _more(writer, answer.early_ends.height - MOST_ROWS, "line")
    writer.sentence(ENDS_WORDS, style=QUIET)


def _outliers(answer: JobAnswer, writer: ReportWriter) -> None:
    if answer.outliers.is_empty():
        return
    _heading(writer, "Unlike their peers")
    pairs = [*zip(answer.outliers.iter_rows(named=True), answer.outlier_causes, strict=True)]
    rows = [
        (
            format_bytes(row["excess_bytes"]),
            format_bytes(row["peak_bytes"]),
            format_bytes(row["median_bytes"]),
            ", ".join(
                filter(
                    None,
                    (
                        f"{name_of(answer, row[INDEX])} ({row['spreads']:.1f} spreads)",
                        *_cause(row["excess_bytes"], cause),
                    ),
                )
            ),
        )
        for row, cause in pairs[:MOST_ROWS]
    ]
    writer.table(("more", "peak", "median", "rank, owner, call site"), rows)
    _more(writer, len(pairs) - MOST_ROWS, "rank")
    writer.sentence(TEST_WORDS, style=QUIET)


def _cause(excess: int, cause: Difference) -> tuple[str, ...]:
    return (cause.owner, cause.site) if excess > 0 else ()


def _axes(answer: JobAnswer, writer: ReportWriter) -> None:
    if not answer.axes:
        return
    _heading(writer, "Along the axes of the job")
    rows = [
        (
            format_bytes(spread.excess_bytes),
            format_bytes(spread.largest_bytes),
            format_bytes(spread.least_bytes),
            f"{spread.axis}: most in {spread.largest} of {spread.indexes.height}",
        )
        for spread in answer.axes
    ]
    writer.table(("more", "most", "least", "axis"), rows)
    writer.sentence(AXIS_WORDS, style=QUIET)


def _forecasts(answer: JobAnswer, writer: ReportWriter) -> None:
    if answer.forecasts.is_empty():
        return
    _heading(writer, "Ranks that grow")
    rows = [
        (
            format_bytes(round(row["slope_bytes"])),
            f"{format_bytes(round(row['least_slope_bytes']))} to {format_bytes(round(row['most_slope_bytes']))}",
            _bytes(row["headroom_bytes"]),
            _UNKNOWN if row["out_at_step"] is None else format_count(row["out_at_step"]),
            _UNKNOWN
            if row["out_at_step"] is None
            else f"{format_count(row['earliest_step'])} to {format_count(row['latest_step'])}",
            name_of(answer, row[INDEX]),
        )
        for row in answer.forecasts.head(MOST_ROWS).iter_rows(named=True)
    ]
    writer.table(("per step", "95 % range", "headroom", "out in step", "95 % range", "rank"), rows)
    _more(writer, answer.forecasts.height - MOST_ROWS, "rank")
    writer.sentence(FORECAST_WORDS, style=QUIET)


def _worst(answer: JobAnswer, writer: ReportWriter) -> None:
    if answer.worst is None:
        return
    found = answer.worst
    names = f"{name_of(answer, found.worst)} against {name_of(answer, found.median)}"
    _heading(writer, f"The worst rank against the median one: {names}")
    for title, table in (("owner", found.difference.owners), ("call site", found.difference.sites)):
        rows = [
            (format_bytes(row["more_bytes"]), format_bytes(row["bytes"]), format_bytes(row["other_bytes"]), row["name"])
            for row in table.head(MOST_ROWS).iter_rows(named=True)
        ]
        if rows:
            writer.table(("more", "worst", "median", title), rows)
        else:
            writer.sentence(f"They hold the same at their peaks, by {title}.", style=QUIET)


def _modules(answer: JobAnswer, writer: ReportWriter) -> None:
    if answer.modules.is_empty():
        return
    _heading(writer, "Memory of modules, outside the pools")
    rows = [
        (
            format_bytes(row["most_bytes"]),
            format_bytes(row["median_bytes"]),
            format_count(row["ranks"]),
            f"{row['module']}, {row['site']}",
        )
        for row in answer.modules.head(MOST_ROWS).iter_rows(named=True)
    ]
    writer.table(("most", "median", "ranks", "module, call site"), rows)
    _more(writer, answer.modules.height - MOST_ROWS, "line")
    writer.sentence(MODULE_WORDS, style=QUIET)


def _timeline(answer: JobAnswer, writer: ReportWriter, *, encoding: str | None) -> None:
    columns = answer.timeline.columns
    if columns.is_empty():
        return
    first, last = columns["first_step"][0], columns["last_step"][-1]
    _heading(writer, f"Peaks over steps {format_count(first)} to {format_count(last)}")
    for word, name in (("highest rank", "most_bytes"), ("median rank", "median_bytes"), ("lowest rank", "least_bytes")):
        values = columns[name].to_list()
        line = sparkline(values, width=min(max(writer.width - 40, 20), 60), encoding=encoding)
        writer.line(f"  {word:12}  {line}  to {format_bytes(max(values))}")


def _failures(answer: JobAnswer, writer: ReportWriter) -> None:
    if answer.failures:
        _heading(writer, f"{counted(len(answer.failures), 'capture')} without an answer")
        for location, reason in answer.failures[:MOST_FAILURES]:
            writer.line(f"  {location}: {reason}" if location not in reason else f"  {reason}")
        _more(writer, len(answer.failures) - MOST_FAILURES, "capture")
    lines = remarks(answer)
    if lines:
        _heading(writer, "Left out here")
        for line in lines[:MOST_FAILURES]:
            writer.sentence(line)
        _more(writer, len(lines) - MOST_FAILURES, "line")


def _heading(writer: ReportWriter, text: str) -> None:
    writer.line()
    writer.line(text, HEADING)


def _more(writer: ReportWriter, count: int, noun: str) -> None:
    if count > 0:
        writer.sentence(f"and {counted(count, f'more {noun}')}", style=QUIET)


def _bytes(size_bytes: int | None) -> str:
    return _UNKNOWN if size_bytes is None else format_bytes(size_bytes)

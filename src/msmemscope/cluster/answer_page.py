"""The answer about a job as one HTML page that needs nothing else: sentences, a heat map of ranks and steps, tables.

The page has no script. The heat map is an SVG picture with a title on every cell. A rank leads to the command that
opens its capture in `msmemscope view`. So a page can be mailed, and no content of a capture can run in it.
"""

from __future__ import annotations

import shlex
from html import escape
from typing import TYPE_CHECKING, Final

from msmemscope.cluster.answer.axes import AXIS_WORDS
from msmemscope.cluster.answer.end_text import early_end_text
from msmemscope.cluster.answer.ends import ENDS_WORDS
from msmemscope.cluster.answer.forecast import FORECAST_WORDS
from msmemscope.cluster.answer.headlines import headlines, name_of, nothing_wrong
from msmemscope.cluster.answer.job_answer import HEADROOM
from msmemscope.cluster.answer.ranks import INDEX, WHO
from msmemscope.cluster.answer.spread import TEST_WORDS
from msmemscope.cluster.answer_text import MODULE_WORDS, coordinates_text, job_sentence, remarks
from msmemscope.formats.output_place import Mark
from msmemscope.reports.html.shown_text import shown
from msmemscope.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import polars as pl

    from msmemscope.cluster.answer.job_answer import JobAnswer

MOST_ROWS: Final = 512
"""Ranks that the heat map and the table of ranks have; of more, those with the least headroom."""
_STYLE: Final = """
:root { color-scheme: light dark; --edge: #8884; --quiet: #777; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --bad: #ff8a80; } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; padding: 0 1rem; max-width: 72rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.verdict { color: var(--bad); font-weight: 600; } .quiet { color: var(--quiet); font-size: .9rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; }
th, td { border-bottom: 1px solid var(--edge); padding: .2rem .6rem; text-align: left; vertical-align: top; }
th { font-weight: 600; } td.number { text-align: right; white-space: nowrap; }
code { font-size: .85rem; user-select: all; overflow-wrap: anywhere; }
svg text { font: 11px system-ui, sans-serif; fill: currentColor; }
tr:target { outline: 2px solid var(--bad); }
"""
_LABEL_WIDTH: Final = 150
_CELL_WIDTHS: Final = (6, 24)
_CELL_HEIGHT: Final = 14
_LEGEND_HEIGHT: Final = 34


PAGE_MARK: Final = Mark(begin=b"<!DOCTYPE html>", near_begin=b'<meta name="generator" content="msmemscope cluster">')


def answer_page(answer: JobAnswer) -> str:
    """Return the whole page."""
    found = headlines(answer)
    parts = ["<h1>Memory of a job</h1>"]
    parts.extend(f'<p class="verdict">{_text(line.text)}</p>' for line in found)
    if not found:
        parts.append(f"<p>{_text(nothing_wrong(answer))}</p>")
    parts.append(f'<p class="quiet">{_text(job_sentence(answer))}</p>')
    parts.extend(_sections(answer))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'\">\n"
        '<meta name="generator" content="msmemscope cluster">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Memory of a job</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def _sections(answer: JobAnswer) -> Iterator[str]:
    if not answer.judged.is_empty():
        yield from _heat_map(answer)
        yield from _ranks(answer)
        yield from _early_ends(answer)
        yield from _peers(answer)
        yield from _axes(answer)
        yield from _forecasts(answer)
        yield from _worst(answer)
        yield from _modules(answer)
    if answer.failures:
        yield "<h2>Captures without an answer</h2>"
        yield _table(("capture", "why"), answer.failures, numbers=0)
    lines = remarks(answer)
    if lines:
        yield "<h2>Left out here</h2>"
        yield f"<ul>{''.join(f'<li>{_text(line)}</li>' for line in lines)}</ul>"


def _heat_map(answer: JobAnswer) -> Iterator[str]:
    columns = answer.timeline.columns
    if columns.is_empty():
        return
    rows = answer.by_headroom.head(MOST_ROWS).sort().to_list()
    place = {row: number for number, row in enumerate(rows)}
    most = int(columns["most_bytes"].max() or 1)  # type: ignore[arg-type]  # a column of whole numbers
    width = min(max(1000 // columns.height, _CELL_WIDTHS[0]), _CELL_WIDTHS[1])
    spans = [*columns.select("first_step", "last_step").iter_rows()]
    cells = []
    for row, column, size in answer.timeline.cells.iter_rows():
        if row not in place:
            continue
        first, last = spans[column]
        steps = (
            f"step {format_count(first)}" if first == last else f"steps {format_count(first)} to {format_count(last)}"
        )
        title = f"{name_of(answer, row)}, {steps}: {format_bytes(size)}"
        x, y = _LABEL_WIDTH + column * width, place[row] * _CELL_HEIGHT
        cells.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{_CELL_HEIGHT - 1}" fill="{_colour(size / most)}">'
            f"<title>{_text(title)}</title></rect>"
        )
    labels = [
        f'<a href="#rank-{row}"><text x="0" y="{number * _CELL_HEIGHT + 11}">{_text(name_of(answer, row))}</text></a>'
        for row, number in place.items()
    ]
    height = len(rows) * _CELL_HEIGHT
    legend = [
        f'<rect x="{_LABEL_WIDTH + number * 12}" y="{height + 10}" width="12" height="10" fill="{_colour(number / 15)}"/>'
        for number in range(16)
    ]
    whole = _LABEL_WIDTH + max(columns.height * width, 320)
    yield "<h2>Peaks of ranks by steps</h2>"
    yield (
        f'<div class="scroll"><svg role="img" aria-label="Peaks of ranks by steps" width="{whole}" height="{height + _LEGEND_HEIGHT}">'
        f"{''.join(labels)}{''.join(cells)}{''.join(legend)}"
        f'<text x="{_LABEL_WIDTH + 200}" y="{height + 19}">0 to {_text(format_bytes(most))}</text></svg></div>'
    )
    if len(answer.by_headroom) > MOST_ROWS:
        yield f'<p class="quiet">The {MOST_ROWS} ranks with the least headroom; --json has all.</p>'


def _colour(share: float) -> str:
    """A colour between pale and dark: one hue, so that it is read without seeing colours."""
    light = 94 - 62 * max(min(share, 1.0), 0.0)
    return f"hsl(210 70% {light:.0f}%)"


def _ranks(answer: JobAnswer) -> Iterator[str]:
    rows = []
    for number in answer.by_headroom.head(MOST_ROWS):
        row = answer.rows.row(number, named=True)
        place = ", ".join(filter(None, (row["node"], coordinates_text(row), f"{row['device']} {row['pool']}")))
        cells = (
            _bytes(row[HEADROOM]), _bytes(row["used_bytes"]), _bytes(row["peak_bytes"]), format_count(row["peak_step"]),
            _bytes(row["host_bytes"]), row[WHO], place,
        )  # fmt: skip
        command = f"msmemscope view {shlex.quote(row['source'])}"
        rows.append(
            f'<tr id="rank-{number}">{_cells(cells, numbers=5)}<td><code>{_text(command, most=2000)}</code></td></tr>'
        )
    yield "<h2>Ranks by headroom</h2>"
    heads = ("headroom", "of device", "peak", "in step", "of host", "rank", "place", "open it")
    yield f'<div class="scroll"><table>{_head(heads)}{"".join(rows)}</table></div>'


def _early_ends(answer: JobAnswer) -> Iterator[str]:
    if answer.early_ends.is_empty():
        return
    lines = (early_end_text(answer, row) for row in answer.early_ends.head(MOST_ROWS).iter_rows(named=True))
    yield "<h2>Ended before the others</h2>"
    yield f"<ul>{''.join(f'<li>{_text(line)}</li>' for line in lines)}</ul>"
    yield f'<p class="quiet">{_text(ENDS_WORDS, most=1000)}</p>'


def _peers(answer: JobAnswer) -> Iterator[str]:
    if answer.outliers.is_empty():
        return
    rows = [
        (
            format_bytes(row["excess_bytes"]), format_bytes(row["peak_bytes"]), format_bytes(row["median_bytes"]),
            f"{row['spreads']:.1f}", name_of(answer, row[INDEX]), cause.owner, cause.site,
        )
        for row, cause in zip(answer.outliers.iter_rows(named=True), answer.outlier_causes, strict=True)
    ]  # fmt: skip
    yield "<h2>Unlike their peers</h2>"
    yield _table(("more", "peak", "median", "spreads", "rank", "owner", "call site"), rows[:MOST_ROWS], numbers=4)
    yield f'<p class="quiet">{_text(TEST_WORDS, most=1000)}</p>'


def _axes(answer: JobAnswer) -> Iterator[str]:
    if not answer.axes:
        return
    rows = [
        (
            format_bytes(row["median_bytes"]), format_bytes(row["highest_bytes"]), format_count(row["count"]),
            f"{spread.axis} {row['index']}",
        )
        for spread in answer.axes
        for row in spread.indexes.iter_rows(named=True)
    ]  # fmt: skip
    yield "<h2>Along the axes of the job</h2>"
    yield _table(("median peak", "highest", "ranks", "index"), rows[:MOST_ROWS], numbers=3)
    yield f'<p class="quiet">{_text(AXIS_WORDS, most=1000)}</p>'


def _forecasts(answer: JobAnswer) -> Iterator[str]:
    if answer.forecasts.is_empty():
        return
    rows = [
        (
            format_bytes(round(row["slope_bytes"])), _bytes(row["headroom_bytes"]),
            "?" if row["out_at_step"] is None else format_count(row["out_at_step"]),
            "?" if row["out_at_step"] is None else f"{format_count(row['earliest_step'])} to {format_count(row['latest_step'])}",
            name_of(answer, row[INDEX]),
        )
        for row in answer.forecasts.iter_rows(named=True)
    ]  # fmt: skip
    yield "<h2>Ranks that grow</h2>"
    yield _table(("per step", "headroom", "out in step", "95 % range", "rank"), rows[:MOST_ROWS], numbers=4)
    yield f'<p class="quiet">{_text(FORECAST_WORDS, most=1000)}</p>'


def _worst(answer: JobAnswer) -> Iterator[str]:
    if answer.worst is None:
        return
    names = f"{name_of(answer, answer.worst.worst)} against {name_of(answer, answer.worst.median)}"
    yield f"<h2>The worst rank against the median one: {_text(names)}</h2>"
    for title, table in (("owner", answer.worst.difference.owners), ("call site", answer.worst.difference.sites)):
        yield _difference(title, table)


def _modules(answer: JobAnswer) -> Iterator[str]:
    if answer.modules.is_empty():
        return
    rows = [
        (
            format_bytes(row["most_bytes"]), format_bytes(row["median_bytes"]), format_count(row["ranks"]),
            name_of(answer, row["most_row"]), row["module"], row["site"],
        )
        for row in answer.modules.iter_rows(named=True)
    ]  # fmt: skip
    yield "<h2>Memory of modules, outside the pools</h2>"
    yield _table(("most", "median", "ranks", "most in", "module", "call site"), rows[:MOST_ROWS], numbers=3)
    yield f'<p class="quiet">{_text(MODULE_WORDS, most=1000)}</p>'


def _difference(title: str, table: pl.DataFrame) -> str:
    if table.is_empty():
        return f'<p class="quiet">They hold the same at their peaks, by {_text(title)}.</p>'
    rows = [
        (format_bytes(row["more_bytes"]), format_bytes(row["bytes"]), format_bytes(row["other_bytes"]), row["name"])
        for row in table.iter_rows(named=True)
    ]
    return _table(("more", "worst", "median", title), rows, numbers=3)


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: int) -> str:
    body = "".join(f"<tr>{_cells(row, numbers=numbers)}</tr>" for row in rows)
    return f'<div class="scroll"><table>{_head(headings)}{body}</table></div>'


def _head(headings: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<th>{_text(one)}</th>' for one in headings)}</tr>"


def _cells(row: Sequence[str], *, numbers: int) -> str:
    first = "".join(f'<td class="number">{_text(cell)}</td>' for cell in row[:numbers])
    return first + "".join(f"<td>{_text(cell)}</td>" for cell in row[numbers:])


def _bytes(size_bytes: int | None) -> str:
    return "?" if size_bytes is None else format_bytes(size_bytes)


def _text(text: str, most: int = 600) -> str:
    """A text of the observed program, fit for the page."""
    return escape(shown(text, most))

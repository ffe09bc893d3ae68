"""The effect of a cell on memory, shown as HTML in a notebook and as text elsewhere."""

from __future__ import annotations

import dataclasses
import html
import linecache
import os
import re
from typing import TYPE_CHECKING, Any

from msmemscope.integrations.memory_text import (
    counted_blocks,
    failure_text,
    rank_source_lines,
    ranking_lines,
    shortened,
    where,
)
from msmemscope.integrations.observed_region import open_capture
from msmemscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from msmemscope.analysis.window import PoolWindow
    from msmemscope.integrations.observed_region import FailedAllocation, ObservedRegion
    from msmemscope.recording.block_sets import Ranking, Share

_LINE_TEXT = re.compile(r"(?P<file>.*)\((?P<line>\d+)\)(?P<function>: .*)?", re.DOTALL)
_LONGEST_CODE = 100
_MOST_FAILURES = 3
"""Allocations that failed, the last ones, that get a line."""


@dataclasses.dataclass(frozen=True)
class BlocksBySourceLine:
    """Blocks of a pool, summed up by the line of the program that allocated them."""

    size_bytes: int
    count: int
    ranking: Ranking

    @property
    def text(self) -> str:
        """Their sum: `1.00 MiB in 2 blocks`, or `nothing`."""
        return "nothing" if not self.count else f"{format_bytes(self.size_bytes)} in {counted_blocks(self.count)}"


@dataclasses.dataclass(frozen=True)
class PoolReport:
    """One memory pool of one device during a cell."""

    pool: PoolWindow
    in_use: BlocksBySourceLine
    """At the peak, or when an allocation on the device failed for the last time."""
    has_failed: bool
    """Whether it is the latter."""
    freed: BlocksBySourceLine
    """Blocks that were there before the cell and that it freed."""
    left: BlocksBySourceLine
    """Blocks that the cell allocated and that are still alive."""

    @property
    def figures(self) -> str:
        """The events of the pool, in one line."""
        pool = self.pool
        return (
            f"peak {format_bytes(pool.peak_bytes)}, before {format_bytes(pool.before_bytes)}; "
            f"allocated {format_bytes(pool.allocated_bytes)} in {counted_blocks(pool.allocated_blocks)}"
        )

    def sections(self, *, was_interrupted: bool) -> Iterator[tuple[str, BlocksBySourceLine]]:
        """Yield the tables of the pool, each with its heading.

        Args:
            was_interrupted: Whether the cell ended with an exception, whose traceback keeps the objects of its frames.
        """
        if self.has_failed:
            yield f"in use when memory ran out: {self.in_use.text}", self.in_use
        elif self.in_use.count:
            yield "in use at the peak", self.in_use
        if self.freed.count:
            yield f"freed by the cell, of what was there before: {self.freed.text}", self.freed
        held = ", with what the traceback holds" if was_interrupted else ""
        yield f"left by the cell{held}: {self.left.text}", self.left


@dataclasses.dataclass(frozen=True)
class CellReport:
    """The effect of a cell on memory."""

    title: str
    """How the user calls the cell: `In[3]`."""
    pools: tuple[PoolReport, ...]
    failures: tuple[str, ...]
    """Allocations that failed for lack of memory, a line each."""
    was_interrupted: bool
    """Whether the cell ended with an exception."""
    problems: tuple[str, ...]
    """Why the figures may be wrong, one line each."""
    code: dict[str, str]
    """Source line to its code, where that is known."""
    folder: str
    """Paths inside it are shown without it."""

    def __repr__(self) -> str:
        """Show as text, for terminals."""
        return "\n".join(self._text())

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:  # noqa: FBT001 - IPython's protocol
        printer.text(repr(self))

    def _text(self) -> Iterator[str]:
        yield f"msmemscope: memory in {self.title}"
        yield from self.failures
        for report in self.pools:
            yield f"{where(report.pool)}: {report.figures}"
            for heading, blocks in report.sections(was_interrupted=self.was_interrupted):
                yield f"  {heading}"
                yield from ranking_lines(blocks.ranking, self.folder)
        if not (self.pools or self.problems or self.failures):
            yield "no memory of the observed devices was in use"
        yield from (f"not exact: {problem}" for problem in self.problems)

    def _repr_html_(self) -> str:
        return f"<div>{''.join(self._html())}</div>"

    def _html(self) -> Iterator[str]:
        yield from (f"<p><b>{html.escape(failure)}</b></p>" for failure in self.failures)
        for report in self.pools:
            yield f"<p><b>{html.escape(where(report.pool))}</b>: {report.figures}</p>"
            for heading, blocks in report.sections(was_interrupted=self.was_interrupted):
                yield self._table(heading, blocks)
        if not (self.pools or self.problems or self.failures):
            yield "<p>No memory of the observed devices was in use.</p>"
        yield from (f"<p>Not exact: {html.escape(problem)}</p>" for problem in self.problems)

    def _table(self, heading: str, blocks: BlocksBySourceLine) -> str:
        heading = html.escape(heading[0].upper() + heading[1:])
        rows = "".join(self._row(share, blocks.size_bytes) for share in blocks.ranking.lines())
        if not rows:
            return f"<p>{heading}</p>"
        head = f"<tr><th style='text-align:left'>{heading}</th><th>size</th><th>blocks</th><th></th></tr>"
        return f"<table>{head}{rows}</table>"

    def _row(self, share: Share, total_bytes: int) -> str:
        code = self.code.get(share.label, "")
        shown = f"<br><code>{html.escape(code)}</code>" if code else ""
        percent = 100 * share.size_bytes / total_bytes if total_bytes else 0.0
        # A grey that is visible on light and on dark pages.
        bar = f"<div style='background:#8888;height:0.8em;width:{percent:.0f}px' title='{percent:.1f} %'></div>"
        label = html.escape(shortened(share.label, self.folder))
        return (
            f"<tr><td style='text-align:left'>{label}{shown}</td><td>{format_bytes(share.size_bytes)}</td>"
            f"<td>{share.block_count:,}</td><td style='width:100px'>{bar}</td></tr>"
        )


def report_of(region: ObservedRegion, top: int, title: str, *, was_interrupted: bool = False) -> CellReport:
    """Sum up a region that has ended.

    Args:
        region: The cell.
        top: Source lines to list by name.
        title: How the user calls it.
        was_interrupted: Whether it ended with an exception.

    Raises:
        EventLogError: If the event log cannot be read.
    """
    window = region.window()
    failures = region.failures()
    capture = open_capture()
    code: dict[str, str] = {}

    def sum_up(blocks: pl.DataFrame) -> BlocksBySourceLine:
        ranking = _with_cell_names(rank_source_lines(blocks, capture, top), code)
        return BlocksBySourceLine(int(blocks["size"].sum()), blocks.height, ranking)

    failed_at = {failure.device: failure.sequence for failure in failures}
    pools = tuple(
        PoolReport(
            pool=pool,
            in_use=sum_up(window.blocks_at(pool, failed_at.get(pool.device, pool.peak_sequence))),
            has_failed=pool.device in failed_at,
            freed=sum_up(window.blocks_freed(pool)),
            left=sum_up(window.blocks_left(pool)),
        )
        for pool in window.pools
    )
    folder = os.getcwd()  # noqa: PTH109 - text for a prefix
    texts = tuple(_failures_text(failures, folder))
    return CellReport(title, pools, texts, was_interrupted, region.problems(), code, folder)


def _failures_text(failures: tuple[FailedAllocation, ...], folder: str) -> Iterator[str]:
    unseen = len(failures) - _MOST_FAILURES
    if unseen > 0:
        yield f"out of memory {unseen:,} times before"
    for failure in failures[-_MOST_FAILURES:]:
        yield failure_text(failure, shortened(_line_of_cell(failure.source_line)[0], folder))


def _with_cell_names(ranking: Ranking, code: dict[str, str]) -> Ranking:
    """Call files of cells by their cells, and note the code of each line."""
    shares = []
    for share in ranking.shares:
        label, text = _line_of_cell(share.label)
        if text:
            code[label] = text
        shares.append(dataclasses.replace(share, label=label))
    return dataclasses.replace(ranking, shares=tuple(shares))


def _line_of_cell(label: str) -> tuple[str, str]:
    from msmemscope.recording.source_lines import line_and_library

    line, library = line_and_library(label)
    match = _LINE_TEXT.fullmatch(line)
    if match is None:
        return label, ""
    text = linecache.getline(match["file"], int(match["line"])).strip()
    text = text if len(text) <= _LONGEST_CODE else f"{text[: _LONGEST_CODE - 1]}…"
    name = cell_name(match["file"])
    if name is None:
        return label, text
    behind = f", in {library}" if library else ""
    return f"{name}, line {match['line']}{match['function'] or ''}{behind}", text


def cell_name(file: str) -> str | None:
    """How the user calls the cell whose code IPython compiled as this file, `In[3]`; None for other files."""
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    named = shell.compile.format_code_name(file) if shell is not None else None
    return None if named is None else str(named[1])

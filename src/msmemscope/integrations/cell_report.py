"""What a cell did to memory, shown as HTML in a notebook and as text elsewhere."""

from __future__ import annotations

import dataclasses
import html
import linecache
import os
import re
from typing import TYPE_CHECKING, Any

from msmemscope.integrations.memory_text import counted_blocks, rank_source_lines, ranking_lines, shortened, where
from msmemscope.integrations.observed_region import open_capture
from msmemscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from msmemscope.analysis.window import PoolWindow
    from msmemscope.integrations.observed_region import ObservedRegion
    from msmemscope.recording.block_sets import Ranking, Share

_LINE_TEXT = re.compile(r"(?P<file>.*)\((?P<line>\d+)\)(?P<function>: .*)?", re.DOTALL)
_LONGEST_CODE = 100


@dataclasses.dataclass(frozen=True)
class PoolReport:
    """One memory pool of one device during a cell."""

    pool: PoolWindow
    at_peak: Ranking
    """Blocks in use at the peak, by source line."""
    left: Ranking
    """Blocks that the cell allocated and that are still alive, by source line."""
    left_bytes: int
    left_blocks: int


@dataclasses.dataclass(frozen=True)
class CellReport:
    """What a cell did to memory."""

    title: str
    """How the user calls the cell: `In[3]`."""
    pools: tuple[PoolReport, ...]
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
        for report in self.pools:
            pool = report.pool
            yield (
                f"{where(pool)}: peak {format_bytes(pool.peak_bytes)}, before {format_bytes(pool.before_bytes)}; "
                f"allocated {format_bytes(pool.allocated_bytes)} in {counted_blocks(pool.allocated_blocks)}"
            )
            if report.at_peak.shares:
                yield "  in use at the peak, by source line"
                yield from ranking_lines(report.at_peak, self.folder)
            if report.left_blocks:
                yield f"  left by the cell: {format_bytes(report.left_bytes)} in {counted_blocks(report.left_blocks)}"
                yield from ranking_lines(report.left, self.folder)
            else:
                yield "  left by the cell: nothing"
        if not self.pools and not self.problems:
            yield "no memory of the observed devices was in use"
        yield from (f"not exact: {problem}" for problem in self.problems)

    def _repr_html_(self) -> str:
        return f"<div>{''.join(self._html())}</div>"

    def _html(self) -> Iterator[str]:
        for report in self.pools:
            pool = report.pool
            yield (
                f"<p><b>{html.escape(where(pool))}</b>: peak <b>{format_bytes(pool.peak_bytes)}</b>, before the cell "
                f"{format_bytes(pool.before_bytes)}; allocated {format_bytes(pool.allocated_bytes)} in "
                f"{counted_blocks(pool.allocated_blocks)}</p>"
            )
            yield self._table("In use at the peak", report.at_peak, pool.peak_bytes)
            if report.left_blocks:
                heading = f"Left by the cell: {format_bytes(report.left_bytes)}, {counted_blocks(report.left_blocks)}"
                yield self._table(heading, report.left, report.left_bytes)
            else:
                yield "<p>The cell left nothing.</p>"
        if not self.pools and not self.problems:
            yield "<p>No memory of the observed devices was in use.</p>"
        yield from (f"<p>Not exact: {html.escape(problem)}</p>" for problem in self.problems)

    def _table(self, heading: str, ranking: Ranking, total_bytes: int) -> str:
        rows = "".join(self._row(share, total_bytes) for share in ranking.lines())
        if not rows:
            return ""
        head = f"<tr><th style='text-align:left'>{html.escape(heading)}</th><th>size</th><th>blocks</th><th></th></tr>"
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


def report_of(region: ObservedRegion, top: int, title: str) -> CellReport:
    """Sum up a region that has ended.

    Args:
        region: The cell.
        top: Source lines to list by name.
        title: How the user calls it.

    Raises:
        EventLogError: If the event log cannot be read.
    """
    window = region.window()
    capture = open_capture()
    code: dict[str, str] = {}
    pools = []
    for pool in window.pools:
        left = window.blocks_left(pool)
        at_peak = rank_source_lines(window.blocks_at_peak(pool), capture, top)
        of_left = rank_source_lines(left, capture, top)
        report = PoolReport(
            pool=pool,
            at_peak=_with_cell_names(at_peak, code),
            left=_with_cell_names(of_left, code),
            left_bytes=int(left["size"].sum()),
            left_blocks=left.height,
        )
        pools.append(report)
    return CellReport(title, tuple(pools), region.problems(), code, os.getcwd())  # noqa: PTH109 - text for a prefix


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
    match = _LINE_TEXT.fullmatch(label)
    if match is None:
        return label, ""
    text = linecache.getline(match["file"], int(match["line"])).strip()
    text = text if len(text) <= _LONGEST_CODE else f"{text[: _LONGEST_CODE - 1]}…"
    name = _cell_name(match["file"])
    if name is None:
        return label, text
    return f"{name}, line {match['line']}{match['function'] or ''}", text


def _cell_name(file: str) -> str | None:
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    named = shell.compile.format_code_name(file) if shell is not None else None
    return None if named is None else str(named[1])

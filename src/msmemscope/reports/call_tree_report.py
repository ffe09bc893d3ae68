"""The call tree of a process as lines, one tree per pool.

A line without a mark of its own was called by the line above it, and by nothing else. So chains of calls do not move to
the right.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any, Final

from msmemscope.analysis.weights.measures import Measure
from msmemscope.model.devices import device_name
from msmemscope.model.pools import pool_word
from msmemscope.reports.plain_text import can_write
from msmemscope.reports.ranked_sites_report import HEADINGS, byte_seconds_text, percent
from msmemscope.reports.report_text import HEADING, QUIET, ReportWriter, counted, cut_label
from msmemscope.units import format_bytes, format_count

if TYPE_CHECKING:
    from msmemscope.analysis.weights.call_tree import CallTree, PoolTree

_GUIDES: Final = ("├ ", "└ ", "│ ", "  ")
_PLAIN_GUIDES: Final = ("|-", "`-", "| ", "  ")
"""Of a branch, of the last one, beside a branch that goes on, and beside nothing."""
_HEADINGS: Final = {measure: HEADINGS[one] for measure in Measure for one in HEADINGS if one.value == measure.value}


def render_call_tree(
    found: CallTree, out: IO[str], *, width: int | None = None, is_coloured: bool | None = None
) -> None:
    """Write the call trees of a process.

    Args:
        found: By `analysis.weights.call_tree.call_tree`.
        out: Where to write it.
        width: Columns; by default those of the terminal, 80 where there is none.
        is_coloured: Whether to colour; by default if `out` is a terminal.
    """
    writer = ReportWriter(out, width=width, is_coloured=is_coloured)
    if not found.pools:
        writer.line(f"{_HEADINGS[found.measure]}: no memory", HEADING)
    guides = _GUIDES if can_write("".join(_GUIDES), getattr(out, "encoding", None)) else _PLAIN_GUIDES
    for number, pool in enumerate(found.pools):
        if number:
            writer.line()
        _pool(writer, pool, found.measure, guides)


def _pool(writer: ReportWriter, tree: PoolTree, measure: Measure, guides: tuple[str, ...]) -> None:
    size_text = byte_seconds_text if measure is Measure.BYTE_SECONDS else format_bytes
    where = f"{device_name(tree.device)} ({pool_word(tree.pool, tree.device)})"
    whole = f"{size_text(tree.weight)} in {counted(tree.block_count, 'block')}"
    writer.sentence(f"{_HEADINGS[measure]} on {where}: {whole}", indent=0, style=HEADING)
    rows = tree.calls.to_dicts()
    cells = [(size_text(row["weight"]), percent(row["share"]), format_count(row["block_count"])) for row in rows]
    headings = ("byte-seconds" if measure is Measure.BYTE_SECONDS else "bytes", "share", "blocks")
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]

    def numbers(texts: tuple[str, ...]) -> str:
        return "".join(f"  {text:>{width}}" for text, width in zip(texts, widths, strict=True))

    writer.line(f"{numbers(headings)}  called from the outermost frame on", QUIET)
    for row, texts, prefix in zip(rows, cells, _prefixes(rows, guides), strict=True):
        left = f"{numbers(texts)}  {_shortened(prefix, (writer.width - sum(widths)) // 3)}"
        label = f"{format_count(row['folded'])} more" if row["folded"] else row["frame"]
        writer.styled_line((left, ""), (cut_label(label, max(writer.width - len(left), 1)), _style(row)))


def _style(row: dict[str, Any]) -> str:
    return QUIET if row["folded"] else ""


def _shortened(prefix: str, most: int) -> str:
    """The guides of a line that is very deep: the last ones."""
    return prefix if len(prefix) <= most else f"…{prefix[len(prefix) - most + 1 :]}"


def _prefixes(rows: list[dict[str, Any]], guides: tuple[str, ...]) -> list[str]:
    """The guides of each line."""
    branch, last, beside, nothing = guides
    siblings: dict[int | None, list[int]] = {}
    for row in rows:
        siblings.setdefault(row["parent"], []).append(row["line"])
    prefixes: list[str] = []
    below: list[str] = []
    """The beginning of the lines under each line."""
    for row in rows:
        line, parent = row["line"], row["parent"]
        outer = "" if parent is None else below[parent]
        if len(siblings[parent]) == 1:
            prefixes.append(outer)
            below.append(outer)
        else:
            is_last = siblings[parent][-1] == line
            prefixes.append(outer + (last if is_last else branch))
            below.append(outer + (nothing if is_last else beside))
    return prefixes

"""The numbers of a process at a glance, with bars for how blocks are spread."""

from __future__ import annotations

import datetime as dt
from typing import IO, TYPE_CHECKING, Any, Final

import polars as pl

from msmemscope.analysis.weights.measures import POOL_KEY
from msmemscope.model.devices import device_name
from msmemscope.model.pools import pool_word
from msmemscope.reports.plain_text import can_write
from msmemscope.reports.ranked_sites_report import percent
from msmemscope.reports.report_text import HEADING, QUIET, ReportWriter, counted
from msmemscope.units import format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msmemscope.analysis.weights.numbers import ProcessNumbers

_BAR: Final = 24
"""Letters of the longest bar."""
_NEVER_FREED: Final = "never freed"
_MICROSECOND: Final = 1000
_NS_PER_SECOND: Final = 1_000_000_000


def render_numbers(
    found: ProcessNumbers, out: IO[str], *, width: int | None = None, is_coloured: bool | None = None
) -> None:
    """Write the numbers of a process.

    Args:
        found: By `analysis.weights.numbers.count_process`.
        out: Where to write it.
        width: Columns; by default those of the terminal, 80 where there is none.
        is_coloured: Whether to colour; by default if `out` is a terminal.
    """
    writer = ReportWriter(out, width=width, is_coloured=is_coloured)
    writer.sentence(f"{found.program} (process {found.process_id}, {found.form})", indent=0, style=HEADING)
    if found.place:
        writer.sentence(found.place.words)
    if found.begin_ns is not None:
        writer.sentence(f"{format_duration(found.duration_ns)} from {_time(found.begin_ns)} on")
    steps = f", taken from {found.step_source}" if found.step_count else ""
    writer.sentence(f"{counted(found.step_count, 'step')}{steps}")
    kinds = ", ".join(f"{format_count(count)} {kind.replace('_', ' ')}" for kind, count in found.events_by_kind.items())
    writer.sentence(f"{counted(found.event_count, 'event')}{': ' if kinds else ''}{kinds}")
    bar = "█" if can_write("█", getattr(out, "encoding", None)) else "#"
    for pool in found.pools.iter_rows(named=True):
        writer.line()
        _pool(writer, found, pool, bar)


def _time(nanoseconds: int) -> str:
    """A moment as text; a damaged recording can have any."""
    try:
        moment = dt.datetime.fromtimestamp(nanoseconds // _NS_PER_SECOND, dt.timezone.utc)
    except (ValueError, OverflowError, OSError):
        return f"{nanoseconds} ns"
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _pool(writer: ReportWriter, found: ProcessNumbers, pool: dict[str, Any], bar: str) -> None:
    peak, end = format_bytes(pool["peak_bytes"]), format_bytes(pool["end_bytes"])
    where = f"{device_name(pool['device'])} ({pool_word(pool['pool'], pool['device'])})"
    writer.sentence(f"{where}: peak {peak}, {end} at the end", indent=0, style=HEADING)
    rate = pool["allocations_per_second"]
    per_second = f" ({format_count(round(rate))} per second)" if rate is not None else ""
    writer.sentence(
        f"{counted(pool['allocations'], 'allocation')}{per_second} of {format_bytes(pool['allocated_bytes'])}, "
        f"{counted(pool['frees'], 'free')}"
    )
    writer.sentence(f"{counted(pool['call_sites'], 'call site')}, {counted(pool['operators'], 'operator')}")
    sizes = _of_pool(found.block_sizes, pool)
    _bars(writer, "block size from", [format_bytes(size) for size in sizes["from_bytes"]], sizes, bar)
    lifetimes = _of_pool(found.lifetimes, pool)
    _bars(writer, "in use from", [_lifetime(lasted) for lasted in lifetimes["from_ns"]], lifetimes, bar)
    frequent = [
        f"{format_bytes(row['block_bytes'])} ({counted(row['block_count'], 'block')}, "
        f"{percent(row['block_count'] / pool['allocations'])})"
        for row in _of_pool(found.frequent_sizes, pool).iter_rows(named=True)
    ]
    writer.sentence(f"most frequent sizes: {', '.join(frequent)}")


def _of_pool(table: pl.DataFrame, pool: dict[str, Any]) -> pl.DataFrame:
    return table.filter(pl.all_horizontal(pl.col(name) == pool[name] for name in POOL_KEY))


def _lifetime(from_ns: int | None) -> str:
    if from_ns is None:
        return _NEVER_FREED
    return format_duration(from_ns) if from_ns >= _MICROSECOND else "0 ns"


def _bars(writer: ReportWriter, heading: str, labels: Sequence[str], table: pl.DataFrame, bar: str) -> None:
    """A line per bin: its begin, blocks, bytes, and a bar whose length is its number of blocks."""
    cells = [
        (label, format_count(row["block_count"]), format_bytes(row["size_bytes"]))
        for label, row in zip(labels, table.iter_rows(named=True), strict=True)
    ]
    headings = (heading, "blocks", "bytes")
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]

    def line(texts: Sequence[str]) -> str:
        return "".join(f"  {text:>{width}}" for text, width in zip(texts, widths, strict=True))

    writer.line(line(headings), QUIET)
    most = max(table["block_count"], default=1)
    for texts, count in zip(cells, table["block_count"], strict=True):
        writer.line(f"{line(texts)}  {bar * max(_BAR * count // most, 1)}")

"""The call sites of a process as tables, one per pool."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any, Final

import polars as pl

from msmemscope.analysis.weights.ranked_sites import RankedBy
from msmemscope.model.devices import device_name
from msmemscope.model.pools import pool_word
from msmemscope.recording.block_sets import OUTSIDE_OPERATORS
from msmemscope.reports.plain_text import cut_end
from msmemscope.reports.report_text import HEADING, QUIET, ReportWriter, counted
from msmemscope.units import format_bytes, format_count

if TYPE_CHECKING:
    from msmemscope.analysis.weights.ranked_sites import RankedSites

HEADINGS: Final = {
    RankedBy.PEAK: "In use at the peak",
    RankedBy.LEAKED: "Leaked",
    RankedBy.ALLOCATED: "Allocated",
    RankedBy.CHURN: "Allocated and freed again",
    RankedBy.BLOCKS: "Blocks allocated",
    RankedBy.BYTE_SECONDS: "In use over time",
}
"""The name of each order above a table."""
_MOST_FRAMES: Final = 5
"""Frames by which call sites with the same line are told apart."""
_OPERATOR_WIDTH: Final = 28


def render_ranked_sites(
    found: RankedSites, out: IO[str], *, limit: int, width: int | None = None, is_coloured: bool | None = None
) -> None:
    """Write the first call sites of each pool.

    Args:
        found: By `analysis.weights.ranked_sites.rank_sites`.
        out: Where to write it.
        limit: Rows of a table.
        width: Columns; by default those of the terminal, 80 where there is none.
        is_coloured: Whether to colour; by default if `out` is a terminal.
    """
    writer = ReportWriter(out, width=width, is_coloured=is_coloured)
    if found.pools.is_empty():
        writer.line("No memory was allocated", HEADING)
    for number, pool in enumerate(found.pools.iter_rows(named=True)):
        if number:
            writer.line()
        _pool(writer, found, pool, limit)


def _pool(writer: ReportWriter, found: RankedSites, pool: dict[str, Any], limit: int) -> None:
    where = f"{device_name(pool['device'])} ({pool_word(pool['pool'], pool['device'])})"
    blocks = counted(pool["block_count"], "block")
    whole = f"{byte_seconds_text(pool['weight'])}, " if found.ranked_by is RankedBy.BYTE_SECONDS else ""
    size = f"{whole}{format_bytes(pool['size_bytes'])} in {blocks}"
    sites = counted(pool["site_count"], "call site")
    writer.sentence(f"{HEADINGS[found.ranked_by]} on {where}: {size}, {sites}", indent=0, style=HEADING)
    of_pool = found.sites.filter((pl.col("device") == pool["device"]) & (pl.col("pool") == pool["pool"]))
    listed = _told_apart(of_pool.head(limit))
    if listed.is_empty():
        return
    has_seconds = found.ranked_by is RankedBy.BYTE_SECONDS
    headings = ["byte-seconds"] if has_seconds else []
    rows = [
        [
            *([byte_seconds_text(row["weight"])] if has_seconds else []),
            format_bytes(row["size_bytes"]),
            percent(row["share"]),
            format_count(row["block_count"]),
            format_bytes(row["largest_bytes"]),
            _operator(row),
            row["label"],
        ]
        for row in listed.iter_rows(named=True)
    ]
    writer.table([*headings, "bytes", "share", "blocks", "largest", "operator", "line"], rows, labels=2)
    rest = of_pool.slice(limit)
    if rest.height:
        size, blocks = format_bytes(int(rest["size_bytes"].sum())), counted(int(rest["block_count"].sum()), "block")
        share = percent(float(rest["share"].sum()))
        writer.line(f"  and {format_count(rest.height)} more: {size} ({share}) in {blocks}", QUIET)


def _told_apart(sites: pl.DataFrame) -> pl.DataFrame:
    """Add `label`: the line, and as many of its callers as tell apart the sites that have it."""
    frames = pl.col("site_path").str.split("\n").list
    labelled = sites.with_columns(label="site")
    for count in range(2, _MOST_FRAMES + 1):
        is_shared = pl.col("label").is_duplicated() & (pl.col("site_path") != pl.col("site"))
        longer = pl.concat_list("site", frames.slice(1, count - 1)).list.join("\n")
        labelled = labelled.with_columns(label=pl.when(is_shared).then(longer).otherwise("label"))
    return labelled


def _operator(row: dict[str, Any]) -> str:
    if row["operator"] is None:
        return OUTSIDE_OPERATORS
    more = f" +{row['operator_count'] - 1}" if row["operator_count"] > 1 else ""
    return f"{cut_end(row['operator'].removeprefix('torch._ops.'), _OPERATOR_WIDTH - len(more))}{more}"


def percent(share: float) -> str:
    """Return a share of 0 to 1 as text of one decimal: `12.5%`; a share above zero is never `0.0%`."""
    return "<0.1%" if 0 < share < 0.0005 else f"{100 * share:.1f}%"  # noqa: PLR2004 - what would be rounded to 0.0


def byte_seconds_text(value: int) -> str:
    """Return byte-seconds as text: `1.50 GiB-s`, `12 byte-s`."""
    return f"{format_bytes(value).replace('bytes', 'byte')}-s"

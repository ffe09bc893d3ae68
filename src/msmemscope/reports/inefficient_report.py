"""Memory that is held without need, for a terminal, a pipe or a log file: readable at 80 columns and without colour."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Final

import polars as pl

from msmemscope.analysis.inefficient.finding_rows import by_call_site, with_line_savings
from msmemscope.model.devices import device_name
from msmemscope.model.pools import pool_word
from msmemscope.recording.call_sites import is_of_program
from msmemscope.reports.report_text import HEADING, QUIET, ReportWriter, counted
from msmemscope.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from msmemscope.analysis.inefficient.inefficient import InefficientResult
    from msmemscope.analysis.inefficient.patterns import PatternResult

DEFAULT_LIMIT: Final = 10
"""Call sites that are listed in each table."""

_LEAST_SHARE: Final = 0.001
"""Of the peak of a pool: a smaller saving is noise, and counts as nothing."""

_CHURN: Final = "short_lived_churn"
_ADVICE: Final = {
    "early_allocation": "allocate it right before the operator that uses it first",
    "late_deallocation": "drop the last reference (del, or leave the function) right after the last use",
    "temporary_idleness": "move it to the host between its uses, or compute it again",
    "unused_allocation": "do not allocate it; if a library keeps it for itself, see whether it needs that much",
    "redundant_allocation": "reuse the block that nobody needs any more, or free that one first",
    "dead_write": "do not compute what nobody reads, or free it earlier",
    _CHURN: "allocate once outside of the loop and write into it (out=, in-place operators)",
}
"""The advice about each kind of finding."""


def render_inefficient(
    result: InefficientResult,
    out: IO[str],
    *,
    patterns: PatternResult | None = None,
    width: int | None = None,
    is_coloured: bool | None = None,
    limit: int = DEFAULT_LIMIT,
) -> None:
    """Write the memory that is held inefficiently, the worst call sites first.

    Args:
        result: The findings of one process.
        out: Where to write it.
        patterns: The other patterns of the same process, if they were looked for.
        width: Columns; by default those of the terminal, 80 where there is none.
        is_coloured: Whether to colour; by default if `out` is a terminal.
        limit: How many call sites to list in each table.
    """
    writer = ReportWriter(out, width=width, is_coloured=is_coloured)
    advised = _inefficient(writer, result, limit)
    if patterns is not None:
        advised |= _patterns(writer, patterns, limit)
    _advice(writer, advised)


def render_patterns(
    patterns: PatternResult,
    out: IO[str],
    *,
    width: int | None = None,
    is_coloured: bool | None = None,
    limit: int = DEFAULT_LIMIT,
) -> None:
    """Write the other patterns alone; arguments as for `render_inefficient`."""
    writer = ReportWriter(out, width=width, is_coloured=is_coloured)
    _advice(writer, _patterns(writer, patterns, limit))


def _advice(writer: ReportWriter, kinds: AbstractSet[str]) -> None:
    if kinds:
        writer.line()
        writer.line("What to do", HEADING)
    for kind, advice in _ADVICE.items():
        if kind in kinds:
            writer.sentence(f"{kind}: {advice}")


def _inefficient(writer: ReportWriter, result: InefficientResult, limit: int) -> set[str]:
    """Write the findings; returns the kinds that the program's author can do something about."""
    findings = result.findings
    if findings.is_empty():
        writer.line(f"No inefficient memory in {counted(result.operator_count, 'operator')}", HEADING)
        return set()
    blocks = counted(findings.n_unique(["device", "pool", "allocation_id"]), "block")
    count = counted(findings.height, "finding")
    saving = [
        pool for pool in result.pools if pool.peak_bytes - pool.peak_if_fixed_bytes > _LEAST_SHARE * pool.peak_bytes
    ]
    if not saving:
        writer.line(f"Inefficient memory: {count} in {blocks}, which would not lower the peak", HEADING)
        return set()
    writer.line(f"Inefficient memory: {count} in {blocks}", HEADING)
    for pool in saving:
        saved = pool.peak_bytes - pool.peak_if_fixed_bytes
        where = f"{device_name(pool.device)} ({pool_word(pool.pool, pool.device)})"
        writer.sentence(
            f"Peak on {where}: {format_bytes(pool.peak_bytes)}, {format_bytes(saved)} less if all of it were fixed "
            f"({100 * saved / pool.peak_bytes:.1f} %)"
        )
    peaks = pl.DataFrame(
        [(pool.device, pool.pool, pool.peak_bytes) for pool in saving],
        {"device": pl.Int16(), "pool": pl.UInt8(), "peak_bytes": pl.Int64()},
        orient="row",
    )
    sites = with_line_savings(by_call_site(findings), result.pools).join(
        peaks, on=["device", "pool"], how="left", maintain_order="left"
    )
    alone = sites.filter(pl.col("saved_bytes") > _LEAST_SHARE * pl.col("peak_bytes"))
    # Where no line alone lowers the peak, it takes all of a pool that together do.
    return _sites(writer, sites, sites.filter(pl.col("peak_bytes").is_not_null()) if alone.is_empty() else alone, limit)


def _patterns(writer: ReportWriter, result: PatternResult, limit: int) -> set[str]:
    advised: set[str] = set()
    if not result.findings.is_empty():
        writer.line()
        writer.line(f"Other patterns: {counted(result.findings.height, 'finding')}", HEADING)
        sites = by_call_site(result.findings)
        advised = _sites(writer, sites, sites.filter(pl.col("saved_bytes") > 0), limit, "one block of the place")
    if result.churn.is_empty():
        return advised
    writer.line()
    writer.line(f"{_CHURN}: the same size from the same place, allocated and freed again and again", HEADING)
    writer.table(
        ("times", "size", "all together", "allocated at"),
        [
            (
                format_count(row["repetitions"]),
                format_bytes(row["size"]),
                format_bytes(row["allocated_bytes"]),
                row["call_site"],
            )
            for row in result.churn.head(limit).iter_rows(named=True)
        ],
    )
    _rest(writer, result.churn, limit)
    return advised | ({_CHURN} if any(map(is_of_program, result.churn["call_site"])) else set())


def _sites(
    writer: ReportWriter, sites: pl.DataFrame, shown: pl.DataFrame, limit: int, missing: str = "the blocks of the place"
) -> set[str]:
    """Write a table of call sites: the saving at the peak, then the cost over time.

    Args:
        writer: Where to.
        sites: All, as `by_call_site` has them.
        shown: Those of them that are worth a line.
        limit: How many to list.
        missing: The blocks that are absent, in words.

    Returns:
        The kinds that are found at lines of the program itself.
    """
    if not shown.is_empty():
        writer.table(
            ("saves", "byte x operators", "operators", "blocks", "largest", "kind", "allocated at"),
            [
                (
                    format_bytes(row["saved_bytes"]),
                    _short_number(row["byte_operators"]),
                    format_count(row["operators_wasted"]),
                    format_count(row["blocks"]),
                    format_bytes(row["largest_bytes"]),
                    row["kind"],
                    row["call_site"],
                )
                for row in shown.head(limit).iter_rows(named=True)
            ],
            labels=2,
        )
        _rest(writer, shown, limit)
    if shown.height < sites.height:
        others = sum(sites["blocks"]) - sum(shown["blocks"])
        places = counted(sites.height - shown.height, "place")
        writer.sentence(f"{counted(others, 'finding')} at {places} would not lower the peak", style=QUIET)
    if not shown.is_empty():
        writer.sentence(f"saves: by how much the peak would be lower without {missing} for that time", style=QUIET)
    return {row["kind"] for row in shown.iter_rows(named=True) if is_of_program(row["call_site"])}


def _rest(writer: ReportWriter, table: pl.DataFrame, limit: int) -> None:
    if table.height > limit:
        writer.sentence(f"and {counted(table.height - limit, 'place')} more", style=QUIET)


def _short_number(value: int) -> str:
    """Write a number with three digits if it is a long one: `1.23e9`."""
    return format_count(value) if value < 10**6 else f"{value:.2e}".replace("e+0", "e").replace("e+", "e")

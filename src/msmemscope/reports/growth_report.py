"""The report on call sites whose live memory grows over the steps of a run."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Final

from msmemscope.analysis.leaks.growth import GrowthBasis
from msmemscope.model.devices import device_name
from msmemscope.model.pools import pool_word
from msmemscope.reports.report_text import HEADING, QUIET, ReportWriter, counted
from msmemscope.units import format_bytes

if TYPE_CHECKING:
    from msmemscope.analysis.leaks.growth import SlowLeaks

MOST_SITES: Final = 20


def render_slow_leaks(
    found: SlowLeaks, out: IO[str], *, width: int | None = None, is_coloured: bool | None = None
) -> None:
    """Write which call sites grow.

    Args:
        found: By `analysis.growth.find_slow_leaks`.
        out: Where to write it.
        width: Columns; by default those of the terminal, 80 where there is none.
        is_coloured: Whether to colour; by default if `out` is a terminal.
    """
    writer = ReportWriter(out, width=width, is_coloured=is_coloured)
    for remark in found.remarks:
        writer.sentence(remark.sentence, indent=0)
    if found.remarks:
        return
    sites = found.sites
    judged = counted(found.judged_sites, "call site")
    if sites.is_empty():
        writer.line(f"No growth: {judged} judged", HEADING)
        for sentence in found.explained:
            writer.sentence(sentence, style=QUIET)
        return
    writer.line(f"Growing: {counted(sites.height, 'call site')} of {judged} judged", HEADING)
    unit = "part" if found.basis is GrowthBasis.PARTS else "step"
    writer.table(
        (f"per {unit}", "alive", f"{unit}s", "by chance", "pool", "call site"),
        [
            (
                format_bytes(round(row["slope_bytes_per_step"])),
                f"{format_bytes(row['first_bytes'])} to {format_bytes(row['last_bytes'])}",
                f"{row['first_step']} to {row['last_step']}",
                f"{row['significance']:.1e}",
                f"{device_name(row['device'])} {pool_word(row['pool'], row['device'])}",
                row["site"],
            )
            for row in sites.head(MOST_SITES).iter_rows(named=True)
        ],
        labels=2,
    )
    if sites.height > MOST_SITES:
        writer.sentence(f"and {counted(sites.height - MOST_SITES, 'more call site')}", style=QUIET)
    if found.basis is GrowthBasis.PARTS:
        writer.sentence("part: of the run, which has no known steps; all have as many allocations", style=QUIET)
    for site, holder in sites.head(MOST_SITES).drop_nulls("held_by").select("site", "held_by").iter_rows():
        writer.sentence(f"{site.rpartition('/')[2]}: held by {holder}")
    writer.sentence("by chance: how likely steps without a trend look like this or more so", style=QUIET)

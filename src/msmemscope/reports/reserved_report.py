"""The report on memory that is reserved and idle: how much, why, from which lines, and the remedy."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Final

from msmemscope.analysis.reserved.idle_memory import Cause
from msmemscope.model.devices import device_name
from msmemscope.model.pools import pool_word
from msmemscope.reports.host_growth_words import pinned_setting
from msmemscope.reports.report_text import HEADING, ReportWriter
from msmemscope.units import format_bytes

if TYPE_CHECKING:
    from msmemscope.analysis.reserved.idle_memory import IdleMemory
    from msmemscope.analysis.reserved.reserved import ReservedResult

MOST_SITES: Final = 5
"""Call sites that are listed."""


def why_idle(one: IdleMemory) -> str:
    """Return why memory is idle, and the doubts about it, for a sentence."""
    reserved, in_use = format_bytes(one.reserved_bytes), format_bytes(one.in_use_bytes)
    if one.cause is Cause.ROUNDING:
        return f"pinned and not asked for, rounded up to powers of two: {reserved} pinned for {in_use} asked for"
    totals = f"{reserved} reserved for {in_use} in use"
    if one.cause is Cause.WAITING:
        return f"freed and waiting for another stream that uses it (record_stream): {totals}"
    if one.cause is Cause.SIZES:
        return f"cached in sizes that fit nothing later: {totals}"
    return f"cached for stream {one.stream}, where no other stream gets it: {totals}"


def remedy(one: IdleMemory) -> str:
    """Return the remedy, as sentences."""
    if one.cause is Cause.ROUNDING:
        return (
            f"Set {pinned_setting(one.settings_variable, 'pinned_max_round_threshold_mb:1')}, so that requests of more than 1 MiB "
            "are not rounded; or pin one buffer and take views of it."
        )
    if one.cause is Cause.WAITING:
        return (
            "Instead of record_stream, let the stream that allocates wait for the one that uses the block (wait_stream, or an "
            "event) before the last reference goes. Or keep fewer in flight."
        )
    if one.cause is Cause.SIZES:
        with_growing = format_bytes(one.reserved_bytes - one.idle_bytes)
        return (
            f"Set {one.settings_variable}=expandable_segments:True: replayed with it, {with_growing} are reserved; or call "
            "empty_cache() where sizes change."
        )
    once = (
        "Call empty_cache() once behind the set-up: replayed with it, the memory is given back. "
        if one.is_given_back
        else ""
    )
    return f"{once}Allocate on the stream that uses the memory later, or use one stream for both."


def render_reserved(
    found: ReservedResult, out: IO[str], *, width: int | None = None, is_coloured: bool | None = None
) -> None:
    """Write the memory that is reserved and idle.

    Args:
        found: By `analysis.reserved.find_reserved`.
        out: Where to write it.
        width: Columns; by default those of the terminal, 80 where there is none.
        is_coloured: Whether to colour; by default if `out` is a terminal.
    """
    writer = ReportWriter(out, width=width, is_coloured=is_coloured)
    if not found.found:
        writer.line("Little is reserved that is idle for a reason that we know", HEADING)
    for one in found.found:
        write_idle(one, writer)


def write_idle(one: IdleMemory, writer: ReportWriter) -> None:
    """Write one finding with its lines and its remedy."""
    where = pool_word(one.pool, one.device)
    writer.sentence(
        f"{device_name(one.device)} ({where}): {format_bytes(one.idle_bytes)} {why_idle(one)}", indent=0, style=HEADING
    )
    rows = [
        (format_bytes(row["size_bytes"]), str(row["block_count"]), row["site"] or "")
        for row in one.sites.head(MOST_SITES).iter_rows(named=True)
    ]
    writer.table(("size", "blocks", "call site"), rows, labels=1)
    writer.sentence(remedy(one))

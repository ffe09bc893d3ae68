"""The state of a process now, in words: for a terminal without a screen, and for the lines of the screen."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Final

from msmemscope.reports.plain_text import printable
from msmemscope.reports.report_text import HEADING, ReportWriter, counted
from msmemscope.reports.sparkline import sparkline
from msmemscope.units import format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from msmemscope.live.snapshot import HostNow, PoolNow, ProcessNow

_OWNERS: Final = 5


def render_snapshot(
    found: ProcessNow,
    out: IO[str],
    *,
    site_count: int,
    width: int | None = None,
    is_coloured: bool | None = None,
) -> None:
    """Write a process as text.

    Args:
        found: By `FollowedCapture.now`.
        out: Where to write it.
        site_count: Call sites of a pool.
        width: Columns; by default those of the terminal, 80 where there is none.
        is_coloured: Whether to colour; by default if `out` is a terminal.
    """
    writer = ReportWriter(out, width=width, is_coloured=is_coloured)
    writer.sentence(f"{found.program} (process {found.process_id}) {found.life.value}", indent=0, style=HEADING)
    writer.sentence(progress_text(found))
    if found.host is not None:
        writer.sentence(host_text(found.host))
    for line in remarks(found):
        writer.sentence(line)
    for pool in found.pools:
        writer.line()
        writer.sentence(f"{pool.name}: {use_text(pool)}", indent=0, style=HEADING)
        _history(writer, pool, getattr(out, "encoding", None))
        owners = pool.owners[:_OWNERS]
        if owners:
            texts = [f"{owner.owner} {format_bytes(owner.size_bytes)}" for owner in owners]
            more = len(pool.owners) - len(owners)
            writer.sentence(f"owners: {', '.join(texts)}{f', and {more} more' if more else ''}")
        sites = pool.sites[:site_count]
        if sites:
            rows = [
                [format_bytes(site.size_bytes), format_count(site.block_count), site.operator, site.site]
                for site in sites
            ]
            writer.table(["bytes", "blocks", "operator", "line"], rows, labels=2)
    if not found.pools:
        writer.sentence("no memory was allocated yet")


def progress_text(found: ProcessNow) -> str:
    """Return how long a process runs, and how many events and steps there were."""
    rate = f" ({format_count(round(found.events_per_second))} per second)" if not found.life.is_over else ""
    source = f" ({found.step_source})" if found.step_count else ""
    return (
        f"{format_duration(found.recorded_ns)}, {counted(found.event_count, 'event')}{rate}, "
        f"{counted(found.step_count, 'step')}{source}"
    )


def host_text(host: HostNow) -> str:
    """Return the resident memory of a process now and at most, and how near its control group is to its limit."""
    group = ""
    if host.group_limit_bytes:
        used = "" if host.group_bytes is None else f"{format_bytes(host.group_bytes)} of "
        group = f", control group {used}{format_bytes(host.group_limit_bytes)}"
    return f"host memory: {format_bytes(host.resident_bytes)} resident, peak {format_bytes(host.peak_bytes)}{group}"


def use_text(pool: PoolNow) -> str:
    """Return the bytes in use of a pool, and the other facts of it."""
    parts = [f"{format_bytes(pool.in_use_bytes)} in use in {counted(pool.block_count, 'block')}"]
    if pool.reserved_bytes is not None:
        parts.append(f"reserved {format_bytes(pool.reserved_bytes)}")
    parts.append(f"peak {format_bytes(pool.peak_bytes)}")
    if pool.growth_per_step_bytes is not None:
        parts.append(f"{growth_text(pool.growth_per_step_bytes)} per step")
    return ", ".join(parts)


def growth_text(size_bytes: int) -> str:
    """Return a difference with its sign: `+1.00 MiB`, `-3.00 KiB`, `0 bytes`."""
    return f"{'+' if size_bytes > 0 else ''}{format_bytes(size_bytes)}"


def remarks(found: ProcessNow) -> Iterator[str]:
    """Yield the notes that a reader must know beside the figures, one line each, the most important first."""
    if found.behind_ns or found.unread_events:
        events = format_count(found.unread_events)
        age = f"this is {format_duration(found.behind_ns)} old, " if found.behind_ns else ""
        yield f"behind: {age}up to {events} events are not read yet"
    if found.failed is not None:
        failed = found.failed
        function = f" in {failed.function}" if failed.function else ""
        yield (
            f"{counted(failed.attempt_count, 'attempt')} to allocate failed; the latest: {format_bytes(failed.size_bytes)} "
            f"on {failed.device}{function}, {failed.site}"
        )
    if found.missed_events:
        yield (
            f"{format_count(found.missed_events)} events were recycled (--max-size) before they could be read; blocks in "
            "use are known all the same, peaks and steps among them are not"
        )
    if found.missed_before_events:
        yield f"{format_count(found.missed_before_events)} events had been recycled (--max-size) before reading began"
    if found.lost_events:
        yield f"{counted(found.lost_events, 'event')} could not be recorded"
    if found.late_events:
        yield f"{counted(found.late_events, 'event')} came late: a peak may be a little off"
    for problem in found.problems:
        yield printable(problem)
    if found.life.is_over:
        yield f"next: {next_command(found)}"


def next_command(found: ProcessNow) -> str:
    """Return the command to type once a program has ended."""
    import shlex

    from msmemscope.reports.report_text import relative_path

    return f"msmemscope report {shlex.quote(relative_path(found.source))}"


def _history(writer: ReportWriter, pool: PoolNow, encoding: str | None) -> None:
    if len(pool.history_bytes) > 1:
        until = format_duration(len(pool.history_bytes) * pool.history_stretch_ns)
        line = sparkline(pool.history_bytes, width=writer.width - len(until) - 4, encoding=encoding)
        writer.line(f"  {line} {until}")

"""The report on a peak, or on an allocation that failed: the blocks that filled memory, savings, and the gaps."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Final

from msmemscope.analysis.peak.explanation import DevicePeak, Moment, PeakExplanation
from msmemscope.model.devices import device_name
from msmemscope.model.owners import is_known_owner
from msmemscope.model.pools import pool_word
from msmemscope.recording.block_sets import OUTSIDE_OPERATORS
from msmemscope.recording.failed_allocations import is_in_pieces
from msmemscope.reports.report_text import ALARM, HEADING, QUIET, ReportWriter, counted
from msmemscope.units import format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_ROWS: Final = 8
"""Rows of a table that are listed."""
COMMAND_OF_PEAK: Final = "msmemscope analyze peak"
"""The questions that this report answers."""
_PERCENT: Final = 100


def render_peak(
    found: PeakExplanation, out: IO[str], *, width: int | None = None, is_coloured: bool | None = None
) -> None:
    """Write which blocks filled the memory of one process.

    Args:
        found: By `analysis.peak.explanation.explain_peak`.
        out: Where to write it.
        width: Columns; by default those of the terminal, 80 where there is none.
        is_coloured: Whether to colour; by default if `out` is a terminal.
    """
    writer = ReportWriter(out, width=width, is_coloured=is_coloured)
    if not found.devices:
        writer.line("No memory was in use", HEADING)
    for number, device in enumerate(found.devices):
        if number:
            writer.line()
        _device(writer, device)


def _device(writer: ReportWriter, device: DevicePeak) -> None:
    _heading(writer, device)
    if device.cause is not None:
        writer.sentence(device.cause.sentence, indent=2)
        for other in device.cause.others:
            writer.sentence(other, indent=2)
        writer.sentence(device.cause.advice, indent=2, style=QUIET)
        following = command_behind_peak(device)
        if following:
            writer.sentence(f"next: {following}", indent=2)
    _pools(writer, device)
    _owners(writer, device)
    _sites(writer, device)
    _recent(writer, device)
    _growth(writer, device)
    _fragmentation(writer, device)


def command_behind_peak(device: DevicePeak) -> str:
    """Return the command that the cause of a failure names; empty where that is the question about the peak itself."""
    command = "" if device.cause is None else device.cause.next_command
    return "" if command == COMMAND_OF_PEAK else command


def _heading(writer: ReportWriter, device: DevicePeak) -> None:
    where = device_name(device.device)
    filled = f"{format_bytes(device.in_use_bytes)} in {counted(device.block_count, 'block')}"
    if device.moment is Moment.OUT_OF_MEMORY:
        least = "at least " if device.cause is not None and is_in_pieces(device.cause.figures.function) else ""
        asked = f"{least}{format_bytes(device.request_bytes or 0)}"
        writer.styled_line(("Out of memory", ALARM), (f" on {where}: {asked} asked for, {filled} in use", HEADING))
    elif device.moment is Moment.PEAK:
        writer.line(f"Peak of {where}: {filled}", HEADING)
    else:
        writer.line(f"Memory of {where} at event {device.sequence}: {filled}", HEADING)
    step = "" if device.step is None else f" in step {device.step}" if device.step else " before the first step"
    if device.site is not None:
        is_failure = device.moment is Moment.OUT_OF_MEMORY
        size = "" if is_failure else f" with {format_bytes(device.request_bytes or 0)}"
        where = (
            f"{'in' if is_failure else 'by'} {_operator(device.operator)}"
            if device.operator
            else "outside of operators"
        )
        did = "failed" if is_failure else "reached"
        writer.sentence(f"{did} {where}{size}, event {device.sequence}{step}, at")
        writer.line(f"    {device.site}")
    elif step:
        writer.sentence(f"event {device.sequence}{step}")
    if device.moment is not Moment.PEAK:
        writer.sentence(f"The peak was {format_bytes(device.peak_bytes)}, at event {device.peak_sequence}.")


def _pools(writer: ReportWriter, device: DevicePeak) -> None:
    rows = [
        (
            format_bytes(row["size_bytes"]),
            format_count(row["block_count"]),
            "" if row["reserved_bytes"] is None else format_bytes(row["reserved_bytes"]),
            pool_word(row["pool"], device.device),
        )
        for row in device.pools.iter_rows(named=True)
    ]
    if rows:
        writer.line()
        writer.table(("in use", "blocks", "reserved", "pool"), rows)


def _owners(writer: ReportWriter, device: DevicePeak) -> None:
    if not any(map(is_known_owner, device.owners["owner"])):
        return  # the call sites, which follow, say who it was
    rows = [
        (
            format_bytes(row["size_bytes"]),
            _share(row["size_bytes"], device.in_use_bytes),
            format_count(row["block_count"]),
            format_bytes(row["largest_bytes"]),
            row["owner"],
        )
        for row in device.owners.head(MOST_ROWS).iter_rows(named=True)
    ]
    _section(writer, ("in use", "share", "blocks", "largest", "owner"), rows, device.owners.height)


def _sites(writer: ReportWriter, device: DevicePeak) -> None:
    has_steps = device.step is not None
    rows = [
        (
            format_bytes(row["size_bytes"]),
            format_count(row["block_count"]),
            format_bytes(row["largest_bytes"]),
            _since_step(row["oldest_step"]) if has_steps else _duration(row["oldest_age_ns"]),
            "" if row["saved_bytes"] is None else format_bytes(row["saved_bytes"]),
            row["site"],
        )
        for row in device.sites.head(MOST_ROWS).iter_rows(named=True)
    ]
    oldest = "oldest" if has_steps else "oldest age"
    _section(writer, ("in use", "blocks", "largest", oldest, "off the peak", "call site"), rows, device.sites.height)
    if rows:
        writer.sentence(
            "Off the peak: by how much the peak would be lower if the call site had allocated nothing.", style=QUIET
        )


def _recent(writer: ReportWriter, device: DevicePeak) -> None:
    if device.recent.is_empty():
        return
    size = format_bytes(int(device.recent["size_bytes"].sum()))
    since = f"in step {device.step}" if device.step else f"since event {device.recent_since}"
    writer.line()
    writer.line(f"Last: {size} of it allocated {since}", HEADING)
    has_operators = device.recent["operator"].null_count() < device.recent.height
    rows = [
        (
            format_bytes(row["size_bytes"]),
            format_count(row["block_count"]),
            *([_operator(row["operator"])] if has_operators else []),
            row["site"],
        )
        for row in device.recent.head(MOST_ROWS).iter_rows(named=True)
    ]
    operator = ["operator"] if has_operators else []
    writer.table(("size", "blocks", *operator, "call site"), rows, labels=1 + len(operator))
    _more(writer, device.recent.height)


def _growth(writer: ReportWriter, device: DevicePeak) -> None:
    growth = device.growth
    if growth.slope_bytes_per_step is None:
        return
    slope = format_bytes(round(growth.slope_bytes_per_step))
    over = counted(growth.judged_steps, "step")
    writer.line()
    if growth.is_growing:
        writer.line(f"The peak still grows: {slope} per step over {over}", HEADING)
    else:
        writer.line(f"The peak does not grow from step to step: {slope} per step over {over}", HEADING)


def _fragmentation(writer: ReportWriter, device: DevicePeak) -> None:
    found = device.fragmentation
    if found is None or found.segments.is_empty():
        return
    total = found.totals.row(0, named=True)
    writer.line()
    writer.line(
        f"Reserve: {format_bytes(total['segment_bytes'])} in {counted(total['segment_count'], 'segment')}, "
        f"{format_bytes(total['free_bytes'])} of it free",
        HEADING,
    )
    parts = [
        f"largest gap {format_bytes(total['largest_gap_bytes'])}",
        f"{_share(round(found.ratio * total['free_bytes']), total['free_bytes'])} of the free bytes are not in it",
        f"{format_bytes(total['returnable_bytes'])} in segments that hold no block",
    ]
    if total["rounding_bytes"]:
        parts.append(f"{format_bytes(total['rounding_bytes'])} in blocks beyond what was asked for")
    if total["waiting_bytes"]:
        parts.append(f"{format_bytes(total['waiting_bytes'])} freed, but still used by other streams")
    if device.moment is Moment.OUT_OF_MEMORY and device.request_bytes:
        unusable = format_bytes(found.unusable_bytes(device.request_bytes))
        parts.append(f"{unusable} in gaps too small for {format_bytes(device.request_bytes)}")
    writer.sentence(f"{', '.join(parts)}.")
    pinned = found.pinned()
    rows = [
        (
            format_bytes(row["free_bytes"]),
            format_bytes(row["size"]),
            format_count(row["block_count"]),
            format_bytes(row["pin_size"]),
            _duration(row["pin_age_ns"]),
            "later" if row["pin_is_freed"] else "never",
            row["pin_site"],
        )
        for row in pinned.head(MOST_ROWS).iter_rows(named=True)
    ]
    _section(writer, ("free", "of segment", "blocks", "pinned by", "age", "freed", "call site"), rows, pinned.height)


def _section(writer: ReportWriter, headings: Sequence[str], rows: Sequence[Sequence[str]], height: int) -> None:
    if rows:
        writer.line()
        writer.table(headings, rows)
        _more(writer, height)


def _more(writer: ReportWriter, height: int) -> None:
    if height > MOST_ROWS:
        writer.sentence(f"... and {format_count(height - MOST_ROWS)} more", style=QUIET)


def _operator(name: str | None) -> str:
    return (name or OUTSIDE_OPERATORS).removeprefix("torch._ops.")


def _share(part: int, whole: int) -> str:
    return f"{_PERCENT * part / whole:.1f} %" if whole else ""


def _since_step(step: int | None) -> str:
    return "" if step is None else f"step {step}" if step else "before"


def _duration(nanoseconds: int | None) -> str:
    if nanoseconds is None:
        return ""
    return format_duration(nanoseconds)

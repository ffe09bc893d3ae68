"""The effect of settings of the allocator on a recording, and the changes to make: the verdict first."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Final, TypeVar

from msmemscope.model.devices import device_name
from msmemscope.reports.report_text import HEADING, QUIET, ReportWriter, counted
from msmemscope.reports.reserved_report import write_idle
from msmemscope.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from msmemscope.analysis.replay.advice import Change, DeviceAdvice
    from msmemscope.analysis.replay.replay import Failure, Replay
    from msmemscope.analysis.replay.replayed_recording import DeviceReplay, ReplayedRecording
    from msmemscope.analysis.reserved.whole_advice import WholeAdvice

MOST_CHANGES: Final = 10

Found = TypeVar("Found")


def render_replay(found: ReplayedRecording, out: IO[str], *, width: int | None = None) -> None:
    """Write the result of a replay.

    Args:
        found: By `analysis.replay.replayed_recording.replay_recording`.
        out: Where to write it.
        width: Columns; by default those of the terminal, 80 where there is none.
    """
    _write_each(found.devices, _device, ReportWriter(out, width=width))


def _write_each(devices: Iterable[Found], write: Callable[[ReportWriter, Found], None], writer: ReportWriter) -> None:
    for index, one in enumerate(devices):
        if index:
            writer.line()
        write(writer, one)


def _device(writer: ReportWriter, one: DeviceReplay) -> None:
    recorded, replayed = one.recorded, one.replayed
    name = device_name(one.device)
    settings = replayed.settings.text or "the default settings"
    if replayed.failure is not None:
        writer.sentence(f"{name}: runs out of memory with {settings}", indent=0, style=HEADING)
        _failure(writer, replayed.failure)
    else:
        gained = recorded.peak_reserved_bytes - replayed.peak_reserved_bytes
        change = f", {format_bytes(abs(gained))} {'less' if gained > 0 else 'more'} than recorded" if gained else ""
        peak = format_bytes(replayed.peak_reserved_bytes)
        writer.sentence(f"{name}: {peak} reserved at the peak with {settings}{change}", indent=0, style=HEADING)
    rows = [(*_cells(recorded), "as recorded"), (*_cells(replayed), "replayed")]
    headings = ("reserved", "in use", "not in use", "segments", "retries", "")
    writer.table(headings, rows)
    writer.sentence(
        f"{format_count(replayed.replayed_events)} of {format_count(replayed.event_count)} events replayed; in use: the "
        "peak; not in use: of what was reserved at its peak",
        style=QUIET,
    )
    if one.compared_blocks:
        share = f"{format_count(one.equal_blocks)} of {format_count(one.compared_blocks)}"
        with_hint = "" if one.is_exact else ": it ran with other settings (name them with --recorded)"
        writer.sentence(f"the model puts {share} blocks where the allocator put them{with_hint}", style=QUIET)
    elif one.recorded_peak_reserved_bytes is not None:
        writer.sentence(
            f"the allocator itself reported {format_bytes(one.recorded_peak_reserved_bytes)} reserved at its peak",
            style=QUIET,
        )


def _cells(replay: Replay) -> tuple[str, ...]:
    return (
        format_bytes(replay.peak_reserved_bytes),
        format_bytes(replay.peak_allocated_bytes),
        format_bytes(replay.fragmentation_bytes),
        format_count(replay.most_segments),
        format_count(replay.retries),
    )


def _failure(writer: ReportWriter, failure: Failure) -> None:
    by = (
        "the memory fraction of the process allows no more" if failure.limit == "fraction" else "the driver has no more"
    )
    writer.sentence(
        f"event {failure.sequence} asks for {format_bytes(failure.requested_bytes)}, a block of "
        f"{format_bytes(failure.block_bytes)}; a segment of {format_bytes(failure.segment_bytes)} was needed, and {by}"
    )
    writer.sentence(
        f"{format_bytes(failure.reserved_bytes)} are reserved then, {format_bytes(failure.allocated_bytes)} in use; "
        f"{format_bytes(failure.free_bytes)} are free in segments that other blocks hold, the largest free block of the pool "
        f"has {format_bytes(failure.largest_free_bytes)}"
    )
    if failure.fits_after_release:
        writer.sentence(
            "the pool has the room after its cached blocks were released, but the allocator does not look again "
            "(pytorch #189504)"
        )


def render_advice(found: WholeAdvice, out: IO[str], *, width: int | None = None) -> None:
    """Write the changes to make.

    Args:
        found: By `analysis.reserved.whole_advice.advise_whole`.
        out: Where to write it.
        width: Columns; by default those of the terminal, 80 where there is none.
    """
    writer = ReportWriter(out, width=width)
    _write_each(found.devices, _advice, writer)
    for one in found.idle:
        writer.line()
        write_idle(one, writer)


def _advice(writer: ReportWriter, one: DeviceAdvice) -> None:
    reserved = one.recorded.replayed.peak_reserved_bytes
    writer.sentence(f"{device_name(one.device)}: {_verdict(one)}", indent=0, style=HEADING)
    best = next((change for change in one.changes if change.environment_line), None)
    if best is not None:
        writer.line(f"  {best.environment_line}")
    if one.changes:
        rows = [
            (
                format_bytes(change.gained_bytes),
                format_bytes(change.replayed.peak_reserved_bytes),
                "" if change.fits is None else "yes" if change.fits else "no",
                _name(change),
            )
            for change in one.changes[:MOST_CHANGES]
        ]
        writer.table(("gains", "reserved", "fits", "change"), rows)
    writer.sentence(
        f"{format_bytes(reserved)} reserved at the peak as recorded; no allocator can do with less than "
        f"{format_bytes(one.live_bytes)} in use; a plan of all lifetimes needs {format_bytes(one.packed_bytes)}"
    )
    writer.sentence(f"{counted(one.tried, 'change')} replayed", style=QUIET)


def _verdict(one: DeviceAdvice) -> str:
    best = one.changes[0] if one.changes else None
    gain = f"{_name(best)} gains {format_bytes(best.gained_bytes)} at the peak" if best else "no setting gains anything"
    if one.capacity_bytes is None:
        return gain
    capacity = format_bytes(one.capacity_bytes)
    if one.recorded.fits:
        return f"fits in {capacity} as it is; {gain}"
    if best is not None and best.fits:
        return f"does not fit in {capacity} as it is, and does with {_name(best)}"
    if one.live_bytes > one.capacity_bytes:
        return f"does not fit in {capacity}: {format_bytes(one.live_bytes)} are in use at once"
    return f"does not fit in {capacity} with any setting that was tried; {gain}"


def _name(change: Change) -> str:
    words = [f"{counted(change.withdrawn_leaks, 'leaked block')} freed"] if change.withdrawn_leaks else []
    words += [change.settings or "the default settings"] if change.settings or not words else []
    return " and ".join(words)

"""Whether the recorded program fits in devices of other sizes: the verdict first, then the worst process."""

from __future__ import annotations

import dataclasses
from typing import IO, TYPE_CHECKING, Final

from msmemscope.model.devices import device_name
from msmemscope.reports.report_text import HEADING, QUIET, ReportWriter, counted
from msmemscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msmemscope.analysis.replay.fitting import CapacityFit, DeviceFit, FittedRecording
    from msmemscope.model.place import Place

MOST_FAILURES: Final = 10
"""First allocations without memory that are shown."""


@dataclasses.dataclass(frozen=True)
class FittedProcess:
    """The need of one process."""

    process_id: int
    place: Place
    found: FittedRecording

    @property
    def name(self) -> str:
        """Its name in a row."""
        return f"process {self.process_id}" if self.place.rank is None else f"rank {self.place.rank}"


def render_fits(processes: Sequence[FittedProcess], out: IO[str], *, width: int | None = None) -> None:
    """Write which processes fit where.

    Args:
        processes: Those with an answer, the worst first; at least one.
        out: Where to write it.
        width: Columns; by default those of the terminal, 80 where there is none.
    """
    writer = ReportWriter(out, width=width)
    devices = [(process, device) for process in processes for device in process.found.devices]
    devices.sort(key=lambda pair: -pair[1].needed_bytes)
    sizes = [one.capacity_bytes for one in devices[0][1].capacities]
    fits = [[(process, device, device.capacities[place]) for process, device in devices] for place in range(len(sizes))]
    verdict = "; ".join(_verdict(column) for column in fits)
    writer.sentence(verdict[:1].upper() + verdict[1:], indent=0, style=HEADING)
    rows = [
        (
            format_bytes(device.peak_reserved_bytes),
            "?" if device.others_bytes is None else format_bytes(device.others_bytes),
            format_bytes(device.needed_bytes),
            *(_cell(one) for one in device.capacities),
            f"{process.name}, {device_name(device.device)}",
        )
        for process, device in devices
    ]
    headings = ("reserved", "others", "needed", *(f"in {format_bytes(size)}" for size in sizes), "")
    writer.table(headings, rows)
    shown = 0
    for column in fits:
        for process, _, one in column:
            if one.failure is not None and shown < MOST_FAILURES:
                shown += 1
                _failure(writer, process, one)
    worst = devices[0][1]
    if worst.others_by_module:
        of = ", ".join(f"{name or 'without a module'} {format_bytes(size)}" for name, size in worst.others_by_module)
        writer.sentence(f"others of {devices[0][0].name}, at their most: {of}", style=QUIET)
    writer.sentence(
        "reserved: by the caching allocator at its peak; others: what else the process has from the driver", style=QUIET
    )


def _verdict(column: Sequence[tuple[FittedProcess, DeviceFit, CapacityFit]]) -> str:
    process, _, worst = min(column, key=lambda one: (one[2].fits, one[2].headroom_bytes))
    capacity = format_bytes(worst.capacity_bytes)
    of = f" ({process.name})" if len(column) > 1 else ""
    if worst.fits:
        return f"fits in {capacity}, {format_bytes(worst.headroom_bytes)} left{of}"
    failing = sum(not one.fits for _, _, one in column)
    which = f": {failing} of {counted(len(column), 'device')}" if len(column) > 1 else ""
    return f"does not fit in {capacity}{which}, {_missing(worst)}{of}"


def _missing(one: CapacityFit) -> str:
    if one.headroom_bytes >= 0:
        return "fragmented"
    return f"{format_bytes(-one.headroom_bytes)} short"


def _cell(one: CapacityFit) -> str:
    return f"{format_bytes(one.headroom_bytes)} left" if one.fits else _missing(one)


def _failure(writer: ReportWriter, process: FittedProcess, one: CapacityFit) -> None:
    failure = one.failure
    if failure is None:
        return
    where = f" at {one.line}" if one.line else ""
    writer.sentence(
        f"{process.name} in {format_bytes(one.capacity_bytes)}: event {failure.sequence} asks for "
        f"{format_bytes(failure.requested_bytes)}{where}, with {format_bytes(failure.reserved_bytes)} reserved and "
        f"{format_bytes(failure.allocated_bytes)} in use"
    )

"""Which step a block was allocated in, and which steps it outlived.

Steps are those of `store.steps`. As a rule one loop takes the steps of a whole process, so they count for each of its
devices. Where several loops run at once, one per device, their steps overlap: then each device has its own.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from msmemscope.recording.once_per_recording import once_per_recording

if TYPE_CHECKING:
    from typing import TypeAlias

    from msmemscope.recording import Recording

Sequences: TypeAlias = "np.ndarray[Any, np.dtype[np.uint64]]"
Counts: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

WARM_UP_STEPS = 1
"""Steps at the beginning that no analysis judges: a program sets itself up in them."""


@dataclasses.dataclass(frozen=True)
class StepBounds:
    """The steps that count for one device, numbered from 1."""

    begins: Sequences
    """Sequence number of the begin of each step, ascending."""
    ends: Sequences
    """Sequence number of the end of each step that has ended, ascending; at most one fewer than `begins`."""

    @property
    def ended(self) -> int:
        """How many steps have ended."""
        return len(self.ends)

    def step_of(self, sequences: Sequences) -> Counts:
        """Return the step that had begun last at each event, 0 before the first."""
        return np.searchsorted(self.begins, sequences, side="right").astype(np.int64)

    def ends_before(self, sequences: Sequences) -> Counts:
        """Return how many steps had ended before each event."""
        return np.searchsorted(self.ends, sequences, side="left").astype(np.int64)


@dataclasses.dataclass(frozen=True)
class ProcessSteps:
    """The steps of a process, by device."""

    shared: StepBounds
    """Of devices that have none of their own."""
    by_device: dict[int, StepBounds]

    def of(self, device: int) -> StepBounds:
        """Return the steps that count for a device."""
        return self.by_device.get(device, self.shared)

    @property
    def ended(self) -> int:
        """The most steps that have ended on any device."""
        return max([self.shared.ended, *(bounds.ended for bounds in self.by_device.values())])

    def groups(self, devices: pl.Series) -> list[tuple[StepBounds, pl.Series]]:
        """Return each set of steps with the rows that it counts for.

        Args:
            devices: Of the rows.
        """
        if not self.by_device:
            return [(self.shared, pl.repeat(True, len(devices), dtype=pl.Boolean, eager=True))]
        own = [(bounds, devices == device) for device, bounds in self.by_device.items()]
        return [*own, (self.shared, ~devices.is_in([*self.by_device]))]


@once_per_recording
def process_steps(recording: Recording) -> ProcessSteps:
    """Find the steps of a process."""
    return bounds_of(recording.steps)


def bounds_of(steps: pl.DataFrame) -> ProcessSteps:
    """Take a table of steps apart by device.

    A step whose end was not seen ends where the next one begins; the last one without an end has not ended.

    Args:
        steps: Of `recording.STEP_SCHEMA`.
    """
    table = steps.sort("begin_sequence")
    everything = _bounds(table)
    if table["device"].n_unique() <= 1 or not _overlap(table):
        return ProcessSteps(everything, {})
    by_device = {device: _bounds(part) for (device,), part in table.partition_by("device", as_dict=True).items()}
    return ProcessSteps(max(by_device.values(), key=lambda bounds: bounds.ended), by_device)


def with_steps(blocks: pl.DataFrame, bounds: ProcessSteps) -> pl.DataFrame:
    """Add to each block where it stands among the steps of its device.

    Args:
        blocks: Of `recording.BLOCK_SCHEMA`.
        bounds: Of the same process.

    Returns:
        The blocks and four columns (i64).

        - `step`: the step that the block was allocated in, 0 before the first.
        - `first_end`, `last_end`: the first and the last step at whose end it was alive. `last_end` is 0 if there is
          none.
        - `ended`: the last step that has ended. A free after that is too late for `last_end`.
    """
    columns = {name: np.zeros(blocks.height, dtype=np.int64) for name in ("step", "first_end", "last_end", "ended")}
    allocated = blocks["malloc_sequence"].to_numpy()
    freed = blocks["free_sequence"].fill_null(np.iinfo(np.uint64).max).to_numpy()
    for group, is_member in bounds.groups(blocks["device"]):
        rows = slice(None) if is_member.all() else is_member.to_numpy()
        first_end, last_end = group.ends_before(allocated[rows]) + 1, group.ends_before(freed[rows])
        columns["step"][rows] = group.step_of(allocated[rows])
        columns["first_end"][rows] = first_end
        columns["last_end"][rows] = np.where(last_end >= first_end, last_end, 0)
        columns["ended"][rows] = group.ended
    return blocks.with_columns(pl.Series(name, values) for name, values in columns.items())


def _overlap(table: pl.DataFrame) -> bool:
    """Whether a step begins on one device before one of another device has ended."""
    is_within = (table["begin_sequence"].shift(-1) < table["end_sequence"]) & (
        table["device"].shift(-1) != table["device"]
    )
    return bool(is_within.any())


def _bounds(table: pl.DataFrame) -> StepBounds:
    ends = table["end_sequence"].fill_null(table["begin_sequence"].shift(-1)).drop_nulls().to_numpy()
    # Steps that nest are a fault of the program: each then lasts at least as long as those before it.
    return StepBounds(table["begin_sequence"].to_numpy(), np.maximum.accumulate(ends) if len(ends) else ends)

"""How much the use of a memory pool fluctuates within a step.

Per step from the second, pool and device: the least and the most bytes in use, and their ratio. A pool whose least use
climbs towards its most use from step to step fills up with blocks that are never given back. The first step is warm-up.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from msmemscope.recording.step_bounds import WARM_UP_STEPS, StepBounds, process_steps
from msmemscope.recording.timeline import MemoryUse

if TYPE_CHECKING:
    from msmemscope.recording import Recording

FLUCTUATION_SCHEMA: Final = pl.Schema(
    {
        "device": pl.Int16(),
        "pool": pl.UInt8(),
        "step": pl.Int64(),
        "minimum_bytes": pl.Int64(),
        "maximum_bytes": pl.Int64(),
        "ratio": pl.Float64(),
    }
)
"""One row per device, pool and step in which something of the pool was allocated or freed, in this order.

minimum_bytes, maximum_bytes: of the bytes in use at the begin of the step and after each MALLOC and FREE in it.
ratio: minimum by maximum, 0 to 1; null if nothing was in use.
"""


@dataclasses.dataclass(frozen=True)
class StepExtreme:
    """The step with the smallest or the largest ratio."""

    step: int
    ratio: float
    minimum_bytes: int
    maximum_bytes: int


@dataclasses.dataclass(frozen=True)
class PoolFluctuation:
    """The fluctuation of one memory pool of one device."""

    device: int
    pool: int
    smallest: StepExtreme
    """The first step with the smallest ratio: where the pool fluctuated most."""
    largest: StepExtreme
    """The first step with the largest ratio."""


@dataclasses.dataclass(frozen=True)
class Fluctuation:
    """The fluctuation of all pools of a process."""

    steps: pl.DataFrame
    """FLUCTUATION_SCHEMA."""
    pools: tuple[PoolFluctuation, ...]
    """By device and pool; without those that held nothing from the second step on."""

    def to_polars(self) -> pl.DataFrame:
        """Return the steps, of FLUCTUATION_SCHEMA."""
        return self.steps


def find_fluctuation(recording: Recording) -> Fluctuation:
    """Find how much each pool fluctuates in each step that has ended, from the second on."""
    bounds = process_steps(recording)
    parts = []
    if bounds.ended > WARM_UP_STEPS:
        changing = recording.blocks.select("device", "pool", "size", "malloc_sequence", "free_sequence")
        for (device, pool), blocks in sorted(changing.partition_by("device", "pool", as_dict=True).items()):
            of_device = bounds.of(device)
            if of_device.ended > WARM_UP_STEPS:
                parts.append(_steps(blocks, of_device).with_columns(device=device, pool=pool))
    steps = pl.concat(
        [
            FLUCTUATION_SCHEMA.to_frame(),
            *(part.select(FLUCTUATION_SCHEMA.names()).cast(FLUCTUATION_SCHEMA) for part in parts),
        ]
    )
    return Fluctuation(steps, _pools(steps))


def _steps(blocks: pl.DataFrame, bounds: StepBounds) -> pl.DataFrame:
    use = MemoryUse.of(blocks)
    numbers = np.arange(WARM_UP_STEPS, bounds.ended)
    begins, ends = bounds.begins[numbers], bounds.ends[numbers]
    has_events = np.searchsorted(use.moments, ends, side="right") > np.searchsorted(use.moments, begins, side="left")
    numbers = numbers[has_events]
    lowest, highest = use.extremes(begins[has_events], ends[has_events])
    ratio = np.divide(lowest, highest, out=np.full(len(lowest), np.nan), where=highest > 0)
    return pl.DataFrame(
        {"step": numbers + 1, "minimum_bytes": lowest, "maximum_bytes": highest, "ratio": ratio}
    ).with_columns(pl.col("ratio").fill_nan(None))


def _pools(steps: pl.DataFrame) -> tuple[PoolFluctuation, ...]:
    found = []
    reported = steps.drop_nulls("ratio")
    for (device, pool), part in sorted(reported.partition_by("device", "pool", as_dict=True).items()):
        smallest, largest = (
            StepExtreme(row["step"], row["ratio"], row["minimum_bytes"], row["maximum_bytes"])
            for row in (
                part.row(part["ratio"].arg_min() or 0, named=True),
                part.row(part["ratio"].arg_max() or 0, named=True),
            )
        )
        found.append(PoolFluctuation(device, pool, smallest, largest))
    return tuple(found)

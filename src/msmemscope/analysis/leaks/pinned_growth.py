"""Growth of pinned memory: torch's allocator of it gives nothing back, so that sizes which come once add up.

A size that comes again is served from the allocator's reserve, and is no growth. Pinned memory grows if it rises anew
in several of the later steps, at half the pace of the earlier ones at least. Memory that is set up once, or fills up,
does not.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from msmemscope.analysis.host.pinned_settings import pinned_settings
from msmemscope.analysis.leaks.host_growth import LEAST_HOST_GROWTH_BYTES
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.pools import Pool
from msmemscope.recording.call_sites import STACK_COLUMNS, call_sites
from msmemscope.recording.step_bounds import WARM_UP_STEPS
from msmemscope.recording.timeline import MemoryUse, blocks_in_use

if TYPE_CHECKING:
    from msmemscope.recording import Recording

_LEAST_STEPS: Final = 8
_LEAST_RISES: Final = 3
"""Steps in the second half of the run in which it grew, and had not in the step before."""


@dataclasses.dataclass(frozen=True)
class PinnedGrowth:
    """Pinned memory that grew over the steps, and did not stop."""

    first_step: int
    last_step: int
    growth_bytes: int
    """From the end of `first_step` to the end of `last_step`."""
    site: str
    """The line that most of it is from; empty if none is known."""
    settings_variable: str
    """As `pinned_settings` has it."""

    @property
    def bytes_per_step(self) -> int:
        """The mean growth."""
        return round(self.growth_bytes / max(self.last_step - self.first_step, 1))


def find_pinned_growth(recording: Recording) -> PinnedGrowth | None:
    """Judge the pinned memory of a process.

    Args:
        recording: With steps, MALLOC and FREE.

    Returns:
        None where it does not grow, or there are too few steps to tell.
    """
    pinned = recording.blocks.filter((pl.col("device") == DEVICE_CPU) & (pl.col("pool") == Pool.HAL))
    ends = recording.steps.drop_nulls("end_sequence").filter(pl.col("number") >= WARM_UP_STEPS).sort("end_sequence")
    if pinned.is_empty() or ends.height < _LEAST_STEPS:
        return None
    edges = ends["end_sequence"].to_numpy()
    held = MemoryUse.of(pinned).after(edges)
    has_grown = np.diff(held) > 0
    rises = has_grown[1:] & ~has_grown[:-1]
    middle = len(held) // 2
    before, after = int(held[middle] - held[0]), int(held[-1] - held[middle])
    if rises[middle - 1 :].sum() < _LEAST_RISES or after < max(LEAST_HOST_GROWTH_BYTES, before // 2):
        return None
    new = blocks_in_use(pinned, int(edges[-1])).filter(pl.col("malloc_sequence") > int(edges[0]))
    sites = call_sites(recording, new).select(*STACK_COLUMNS, "site")
    by_site = new.join(sites, on=STACK_COLUMNS, how="left").group_by("site").agg(pl.col("size").sum())
    numbers = ends["number"]
    return PinnedGrowth(
        first_step=int(numbers[0]),
        last_step=int(numbers[-1]),
        growth_bytes=int(held[-1] - held[0]),
        site=by_site.sort("size", "site", descending=[True, False])["site"][0] or "",
        settings_variable=pinned_settings(recording),
    )

"""All that is asked about leaks of one process, together."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from msmemscope.analysis.coverage import Coverage, Question, coverage_of
from msmemscope.analysis.leaks.driver_leaks import DriverLeaks, find_driver_leaks
from msmemscope.analysis.leaks.fluctuation import Fluctuation, find_fluctuation
from msmemscope.analysis.leaks.growth import GrowthOptions, SlowLeaks, find_slow_leaks
from msmemscope.analysis.leaks.step_leaks import StepLeakOptions, StepLeaks, find_step_leaks

if TYPE_CHECKING:
    import polars as pl

    from msmemscope.recording import Recording


@dataclasses.dataclass(frozen=True)
class LeakOverview:
    """The leaks of one process."""

    process_id: int
    source: str
    """What was read."""
    step_leaks: StepLeaks
    fluctuation: Fluctuation
    slow_leaks: SlowLeaks
    driver_leaks: DriverLeaks
    coverage: Coverage
    """What of this is answered."""

    def to_polars(self) -> pl.DataFrame:
        """Returns the blocks that leaked over steps, of LEAK_BLOCK_SCHEMA."""
        return self.step_leaks.to_polars()


def find_leaks(
    recording: Recording, *, options: StepLeakOptions | None = None, growth: GrowthOptions | None = None
) -> LeakOverview:
    """Find leaks over steps, fluctuation, slow leaks, and memory of the driver that was never given back.

    Args:
        recording: Any; what it does not have is empty, and the coverage says why.
        options: How strictly leaks over steps are judged.
        growth: What counts as a slow leak.
    """
    return LeakOverview(
        recording.process_id,
        recording.source,
        find_step_leaks(recording, options),
        find_fluctuation(recording),
        find_slow_leaks(recording, growth),
        find_driver_leaks(recording),
        coverage_of(Question.LEAKS, recording),
    )

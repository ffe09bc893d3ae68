"""All that is asked about leaks of one process, together."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from msmemscope.analysis.coverage import Coverage, Question, coverage_of
from msmemscope.analysis.driver_leaks import DriverLeaks, find_driver_leaks
from msmemscope.analysis.fluctuation import Fluctuation, find_fluctuation
from msmemscope.analysis.growth import GrowthOptions, SlowLeaks, find_slow_leaks
from msmemscope.analysis.leaks import StepLeakOptions, StepLeaks, find_step_leaks

if TYPE_CHECKING:
    import polars as pl

    from msmemscope.store import Dataset


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
    dataset: Dataset, *, options: StepLeakOptions | None = None, growth: GrowthOptions | None = None
) -> LeakOverview:
    """Find leaks over steps, fluctuation, slow leaks, and memory of the driver that was never given back.

    Args:
        dataset: Any; what it does not have is empty, and the coverage says why.
        options: How strictly leaks over steps are judged.
        growth: What counts as a slow leak.
    """
    return LeakOverview(
        dataset.process_id,
        dataset.source,
        find_step_leaks(dataset, options),
        find_fluctuation(dataset),
        find_slow_leaks(dataset, growth),
        find_driver_leaks(dataset),
        coverage_of(Question.LEAKS, dataset),
    )

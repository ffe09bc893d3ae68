"""All questions about leaks of one process, together."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.analysis.coverage import Coverage, Subject, recorded_coverage
from msmemscope.analysis.host.copied_pages import CopiedPages, find_copied_pages
from msmemscope.analysis.leaks.between_marks import MARK_POSITION, MARK_TEXT
from msmemscope.analysis.leaks.cycles import WaitingCycles, find_waiting_cycles
from msmemscope.analysis.leaks.driver_leaks import DriverLeaks, find_driver_leaks
from msmemscope.analysis.leaks.fluctuation import Fluctuation, find_fluctuation
from msmemscope.analysis.leaks.growth import SlowLeaks, find_slow_leaks
from msmemscope.analysis.leaks.growth_outside_steps import find_growth_outside_steps
from msmemscope.analysis.leaks.host_growth import (
    LEAST_SAMPLES,
    HostGrowth,
    HostRise,
    find_host_growth,
    rise_over_few_steps,
)
from msmemscope.analysis.leaks.net_growth import rules_out_growth
from msmemscope.analysis.leaks.pinned_growth import PinnedGrowth, find_pinned_growth
from msmemscope.analysis.leaks.step_leaks import StepLeakOptions, StepLeaks, find_step_leaks
from msmemscope.analysis.options import QuestionOptions, option
from msmemscope.analysis.recorded import Need, Recorded
from msmemscope.model.devices import CPU_WORD
from msmemscope.model.events import EventFlag, EventKind
from msmemscope.model.sources import CPU_SOURCES, DEVICE_SOURCES

if TYPE_CHECKING:
    from msmemscope.analysis.leaks.growing_sites import GrowthOptions
    from msmemscope.recording import Recording
    from msmemscope.recording.recording import StepSource


SUBJECT: Final = Subject(
    "Leaks", needed=(Need.ALLOCATIONS, Need.ALL_STEPS), helpful=(Need.FREES, Need.STACKS, Need.STEPS)
)

_HOST_SUBJECT: Final = Subject("Growth of host memory", needed=(Need.HOST_SAMPLES,), helpful=(Need.STACKS,))
"""The same of a program without tensors, whose host memory alone is known."""


ONLY_OLDER: Final = "no allocations were recorded but older ones"


def subject_of(recorded: Recorded) -> Subject:
    """Choose what an answer about leaks needs.

    Args:
        recorded: The contents of the recording.
    """
    if recorded.counts.get(EventKind.MALLOC, 0):
        return SUBJECT
    observed = {
        source for source in CPU_SOURCES.union(*DEVICE_SOURCES.values()) if f"observed.{source}" in recorded.facts
    }
    samples = recorded.counts.get(EventKind.HOST_SAMPLE, 0)
    # A process that is forked from one with torch can have other work: a manager of multiprocessing.
    records_tensors = CPU_WORD in recorded.facts.get("setting.devices", ("",))[-1].split(",")
    is_of_host = not observed or (observed <= CPU_SOURCES and records_tensors and samples >= LEAST_SAMPLES)
    has_host = samples > 0 or recorded.counts.get(EventKind.HOST_MEMORY, 0) > 0
    return _HOST_SUBJECT if has_host and is_of_host else SUBJECT


@dataclasses.dataclass(frozen=True)
class LeaksOptions(QuestionOptions):
    """The kind of leaks to look for: over the steps of the program, or between marks of it."""

    mstx_info: str | None = option(
        None, MARK_TEXT,
        "judge the range between the mstx marks A, B and C with this text", spelling="--mark",
    )  # fmt: skip
    """Text of the mstx marks A, B and C; None looks for leaks over the steps of the program instead."""
    start_index: int = option(0, MARK_POSITION, "which mark with this text is A, from 0", needs="mstx_info")
    """Which of the marks with this text is A, from 0."""


@dataclasses.dataclass(frozen=True)
class LeakOverview:
    """The leaks of one process."""

    process_id: int
    source: str
    """The recording that was read."""
    step_leaks: StepLeaks
    fluctuation: Fluctuation
    slow_leaks: SlowLeaks
    outside_steps: SlowLeaks
    """Growth before, between and after the steps of a program that has some."""
    waiting_cycles: tuple[WaitingCycles, ...]
    """Memory that waited for the garbage collector, by device and pool."""
    driver_leaks: DriverLeaks
    host_growth: HostGrowth | None
    """Of the process's memory besides tensors; None where too few figures were recorded to tell."""
    host_rise: HostRise | None
    """How that memory rose over steps that are too few to judge it; None where it is judged, or hardly rose."""
    is_growth_ruled_out: bool
    """Whether the run holds no more in the end than early in it, which can be said of short ones, too."""
    pinned_growth: PinnedGrowth | None
    """Of pinned memory that torch's allocator keeps; None where it does not grow."""
    coverage: Coverage
    """The coverage of the answer."""
    copied_pages: CopiedPages | None = None
    """Of a forked process: memory that it copied from its parent by reading; None where that is little."""

    @property
    def is_of_host_alone(self) -> bool:
        """Whether the program had no tensors: then its host memory is judged, and nothing else."""
        return self.coverage.is_answered and self.coverage.question == _HOST_SUBJECT.title

    @property
    def step_source(self) -> StepSource:
        """Where the steps were taken from."""
        return self.step_leaks.step_source

    @property
    def explained(self) -> tuple[str, ...]:
        """Growth that is no leak, one sentence each."""
        # Those of steps know of all blocks of a container, those of growth of blocks that are alive at the ends of
        # steps.
        filling = {one.held_by: one for one in (*self.slow_leaks.filling, *self.step_leaks.filling)}
        return (*(one.text for one in filling.values()), *self.slow_leaks.of_passes)

    @property
    def leaked_sequences(self) -> pl.Series:
        """`malloc_sequence` of blocks that leaked over steps and of live blocks of call sites that grow, each once."""
        grown = (self.slow_leaks.blocks, self.outside_steps.blocks)
        return pl.concat([self.step_leaks.leaked["malloc_sequence"], *grown]).unique()

    def to_polars(self) -> pl.DataFrame:
        """Return the blocks that leaked over steps, of LEAK_BLOCK_SCHEMA."""
        return self.step_leaks.to_polars()


def _coverage(recording: Recording) -> Coverage:
    recorded = Recorded.of(recording)
    coverage = recorded_coverage(subject_of(recorded), recorded, recording.coverage)
    # Another tool can take the allocations away from us.
    is_older = (recording.blocks["flags"] & int(EventFlag.SHADOW)) != 0
    return coverage.without_answer((ONLY_OLDER,)) if len(is_older) and is_older.all() else coverage


def find_leaks(
    recording: Recording, *, options: StepLeakOptions | None = None, growth: GrowthOptions | None = None
) -> LeakOverview:
    """Find leaks over steps, fluctuation, slow leaks, memory of the driver that was never given back, growth of host memory.

    Args:
        recording: Any; parts that it does not have are empty, and the coverage says why.
        options: How strictly leaks over steps are judged.
        growth: The limits of a slow leak.
    """
    host_growth = find_host_growth(recording)
    step_leaks, slow_leaks = find_step_leaks(recording, options), find_slow_leaks(recording, growth)
    known = pl.concat([step_leaks.leaked["malloc_sequence"], slow_leaks.blocks]).unique()
    return LeakOverview(
        recording.process_id,
        recording.source,
        step_leaks,
        find_fluctuation(recording),
        slow_leaks,
        find_growth_outside_steps(recording, growth, known=known),
        find_waiting_cycles(recording),
        find_driver_leaks(recording),
        host_growth,
        None if host_growth is not None else rise_over_few_steps(recording),
        rules_out_growth(recording),
        find_pinned_growth(recording),
        _coverage(recording),
        find_copied_pages(recording),
    )

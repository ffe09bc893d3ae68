"""The analyses, by name."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from rich.console import Console

from msmemscope.analysis.inefficient.inefficient import InefficientResult, find_inefficient
from msmemscope.analysis.inefficient.patterns import PatternOptions, find_memory_patterns
from msmemscope.analysis.leaks.between_marks import MarkLeaks, find_leaks_between_marks
from msmemscope.analysis.leaks.growth import GrowthOptions, SlowLeaks, find_slow_leaks
from msmemscope.analysis.leaks.overview import LeakOverview, find_leaks
from msmemscope.analysis.operators.memory_changes import MemoryChanges, find_memory_changes
from msmemscope.analysis.owners.decomposition import Decomposition, DecompositionOptions, decompose
from msmemscope.analysis.peak.explanation import PeakExplanation, explain_peak
from msmemscope.analysis.peak.out_of_memory import OutOfMemoryOptions, OutOfMemoryResult, analyze_out_of_memory
from msmemscope.analysis.watch.verdict import WatchResult, judge_watched_memory
from msmemscope.analyzer.base import Analyzer
from msmemscope.analyzer.configs import (
    DecomposeConfig,
    GrowthConfig,
    InefficientConfig,
    LeaksConfig,
    OperatorsConfig,
    OutOfMemoryConfig,
    PeakConfig,
    WatchConfig,
)
from msmemscope.errors import ConfigurationError
from msmemscope.formats.dump.changes_csv import check_new, write_changes
from msmemscope.launch.write_back import check_writable, dumps_at, write_findings_back
from msmemscope.reports.analysis_json import result_content
from msmemscope.reports.decomposition_section import print_decomposition
from msmemscope.reports.growth_report import render_slow_leaks
from msmemscope.reports.inefficient_report import render_inefficient, render_patterns
from msmemscope.reports.leaks_report import render_leaks, render_mark_leaks
from msmemscope.reports.operators_report import changes_by_name, highest_places, render_memory_changes
from msmemscope.reports.out_of_memory_report import render_out_of_memory
from msmemscope.reports.peak_report import render_peak
from msmemscope.reports.report_text import ReportWriter, counted
from msmemscope.reports.watch_report import render_watch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msmemscope.recording import Recording


class LeaksAnalyzer(Analyzer[LeaksConfig, "LeakOverview | MarkLeaks"]):
    """What a program allocates and never gives back: over its steps, or between marks of it."""

    name = "leaks"
    config_class = LeaksConfig

    def examine(self, recording: Recording, config: LeaksConfig) -> LeakOverview | MarkLeaks:
        """Find leaks between marks if a text of marks was given, else over steps."""
        if config.mstx_info is not None:
            return find_leaks_between_marks(recording, config.mstx_info, config.start_index)
        return find_leaks(recording)

    def render(self, result: LeakOverview | MarkLeaks, recording: Recording, config: LeaksConfig, out: IO[str]) -> None:
        """Write the lines that scripts look for, and what helps to find the cause."""
        del recording, config
        if isinstance(result, MarkLeaks):
            render_mark_leaks(result, out)
        else:
            render_leaks(result, out)

    def finding_count(self, result: LeakOverview | MarkLeaks) -> int:
        """Leaked blocks, and call sites that grow slowly."""
        if isinstance(result, MarkLeaks):
            return result.blocks.height
        return result.step_leaks.leaked.height + result.slow_leaks.sites.height


class InefficientAnalyzer(Analyzer[InefficientConfig, InefficientResult]):
    """Memory that is held while nobody needs it."""

    name = "inefficient"
    config_class = InefficientConfig

    def check(self, recording: Recording, config: InefficientConfig) -> None:
        """Refuse dumps that cannot be replaced."""
        if config.write_back:
            check_writable(dumps_at(Path(recording.source)))

    def examine(self, recording: Recording, config: InefficientConfig) -> InefficientResult:
        """Find blocks that are allocated too early, freed too late, or idle."""
        return find_inefficient(recording, config.options)

    def render(self, result: InefficientResult, recording: Recording, config: InefficientConfig, out: IO[str]) -> None:
        """Write the worst call sites."""
        patterns = find_memory_patterns(recording, PatternOptions(config.mem_size)) if config.patterns else None
        render_inefficient(result, out, patterns=patterns)

    def render_remainder(self, recording: Recording, config: InefficientConfig, out: IO[str]) -> None:
        """Write the patterns for which allocations are enough."""
        if config.patterns:
            render_patterns(find_memory_patterns(recording, PatternOptions(config.mem_size)), out)

    def write(self, result: InefficientResult, recording: Recording, config: InefficientConfig) -> Sequence[str]:
        """Write `inefficient_type` into the dumps that lie where the data was read."""
        return write_findings_back(result, recording) if config.write_back else ()

    def content(self, result: InefficientResult, recording: Recording, config: InefficientConfig) -> dict[str, Any]:
        """Return the findings, and the other patterns if they were asked for."""
        if not config.patterns:
            return result_content(result, recording)
        patterns = find_memory_patterns(recording, PatternOptions(config.mem_size))
        fields = {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
        return result_content({**fields, "patterns": patterns}, recording)

    def finding_count(self, result: InefficientResult) -> int:
        """Findings."""
        return result.findings.height


class DecomposeAnalyzer(Analyzer[DecomposeConfig, Decomposition]):
    """What memory is made of, by owner."""

    name = "decompose"
    config_class = DecomposeConfig

    def examine(self, recording: Recording, config: DecomposeConfig) -> Decomposition:
        """Sum up owners at the peaks, at each step and over time."""
        return decompose(recording, DecompositionOptions(config.moments))

    def render(self, result: Decomposition, recording: Recording, config: DecomposeConfig, out: IO[str]) -> None:
        """Write the tree of owners at the peak of each pool."""
        del recording, config
        print_decomposition(result, Console(file=out, highlight=False, markup=False, emoji=False))
        if not result.pools:
            ReportWriter(out).line("No memory was in use")


class PeakAnalyzer(Analyzer[PeakConfig, PeakExplanation]):
    """What filled memory at its peak, or when an allocation failed, and how it was cut up."""

    name = "peak"
    config_class = PeakConfig

    def check(self, recording: Recording, config: PeakConfig) -> None:
        """Refuse a moment that the process does not have."""
        numbers = recording.events["sequence"]
        if config.at is None or (len(numbers) and numbers[0] <= config.at <= numbers[-1]):
            return
        message = f"{recording.source} has no such event"
        accepted = f"{numbers[0]} to {numbers[-1]}" if len(numbers) else "it has no events at all"
        raise ConfigurationError(message, option="at", value=str(config.at), accepted=accepted)

    def examine(self, recording: Recording, config: PeakConfig) -> PeakExplanation:
        """Explain the moment on each device."""
        return explain_peak(recording, device=config.device_number, at=config.at)

    def render(self, result: PeakExplanation, recording: Recording, config: PeakConfig, out: IO[str]) -> None:
        """Write what was in use, who had it, what came last, and what could be saved."""
        del recording, config
        render_peak(result, out)


class OperatorsAnalyzer(Analyzer[OperatorsConfig, MemoryChanges]):
    """What each operator, or each launch of a kernel, changed."""

    name = "operators"
    config_class = OperatorsConfig

    def check(self, recording: Recording, config: OperatorsConfig) -> None:
        """Refuse a file that is there already."""
        del recording
        if config.csv is not None:
            check_new(config.csv)

    def examine(self, recording: Recording, config: OperatorsConfig) -> MemoryChanges:
        """Attribute every change of memory to the operator or launch that it happened in."""
        return find_memory_changes(recording, config.levels)

    def render(self, result: MemoryChanges, recording: Recording, config: OperatorsConfig, out: IO[str]) -> None:
        """Write the sums by name, and the highest rises."""
        del config
        render_memory_changes(result, recording, out)

    def write(self, result: MemoryChanges, recording: Recording, config: OperatorsConfig) -> Sequence[str]:
        """Write all rows into a file, if one was named."""
        del recording
        if config.csv is None:
            return ()
        return (f"{counted(result.rows.height, 'row')} written to {write_changes(result, config.csv)}",)

    def content(self, result: MemoryChanges, recording: Recording, config: OperatorsConfig) -> dict[str, Any]:
        """Return sums and the highest rises; a file takes all rows, of which there may be millions."""
        del config
        parts = {
            "by_name": changes_by_name(result),
            "highest": highest_places(result, recording),
            "coverage": result.coverage,
        }
        return {"row_count": result.rows.height, **result_content(parts, recording)}


class OutOfMemoryAnalyzer(Analyzer[OutOfMemoryConfig, OutOfMemoryResult]):
    """Allocations that failed for lack of memory."""

    name = "oom"
    config_class = OutOfMemoryConfig

    def examine(self, recording: Recording, config: OutOfMemoryConfig) -> OutOfMemoryResult:
        """Describe each failure, and what was alive then."""
        return analyze_out_of_memory(recording, OutOfMemoryOptions(limit=config.limit))

    def render(self, result: OutOfMemoryResult, recording: Recording, config: OutOfMemoryConfig, out: IO[str]) -> None:
        """Write what is known about each failure."""
        del recording, config
        render_out_of_memory(result, out)

    def finding_count(self, result: OutOfMemoryResult) -> int:
        """Failures."""
        return result.failure_count


class GrowthAnalyzer(Analyzer[GrowthConfig, SlowLeaks]):
    """Call sites whose live memory grows over many steps, although blocks are freed."""

    name = "growth"
    config_class = GrowthConfig

    def examine(self, recording: Recording, config: GrowthConfig) -> SlowLeaks:
        """Look for a robust trend."""
        return find_slow_leaks(recording, GrowthOptions(config.significance, config.minimum_bytes))

    def render(self, result: SlowLeaks, recording: Recording, config: GrowthConfig, out: IO[str]) -> None:
        """Write the call sites that grow."""
        del recording, config
        render_slow_leaks(result, out)

    def finding_count(self, result: SlowLeaks) -> int:
        """Call sites that grow."""
        return result.sites.height


class WatchAnalyzer(Analyzer[WatchConfig, WatchResult]):
    """What changed watched memory: which operator, which bytes, and whether it may."""

    name = "watch"
    config_class = WatchConfig

    def examine(self, recording: Recording, config: WatchConfig) -> WatchResult:
        """Judge every change."""
        del config
        return judge_watched_memory(recording)

    def render(self, result: WatchResult, recording: Recording, config: WatchConfig, out: IO[str]) -> None:
        """Write the unexpected changes, and count the others."""
        del recording, config
        render_watch(result, out)

    def finding_count(self, result: WatchResult) -> int:
        """Unexpected changes."""
        return result.unexpected.height


ANALYZERS: Final[dict[str, type[Analyzer[Any, Any]]]] = {
    analyzer.name: analyzer
    for analyzer in (
        LeaksAnalyzer,
        InefficientAnalyzer,
        DecomposeAnalyzer,
        PeakAnalyzer,
        OperatorsAnalyzer,
        OutOfMemoryAnalyzer,
        GrowthAnalyzer,
        WatchAnalyzer,
    )
}
"""By name."""

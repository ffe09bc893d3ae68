"""The analyses that a run asked for by `--analysis`, done when it has ended, in our own process."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Final

from msmemscope.analysis.coverage import recorded_coverage, summary_limits
from msmemscope.analysis.inefficient.inefficient import find_inefficient
from msmemscope.analysis.leaks.overview import SUBJECT as LEAKS
from msmemscope.analysis.leaks.overview import find_leaks
from msmemscope.analysis.recorded import Recorded
from msmemscope.analysis.watch.sentences import coverage_sentences
from msmemscope.analysis.watch.verdict import NAMED_LAUNCH_KINDS, WINDOW_NEVER_BEGAN, judge_watched_memory
from msmemscope.configuration import Analysis
from msmemscope.errors import MsmemscopeError
from msmemscope.formats.dump.naming import DUMP_TABLE
from msmemscope.formats.event_log.recording_of_log import recording_of_capture
from msmemscope.formats.write_back import write_into
from msmemscope.launch import messages
from msmemscope.launch.faults import fault_text, show_traceback
from msmemscope.model.events import ACCESS_KINDS, MEMORY_KINDS, WATCH_KINDS, EventKind
from msmemscope.units import format_count

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

    from msmemscope.analysis.inefficient.inefficient import InefficientResult
    from msmemscope.analysis.leaks.overview import LeakOverview
    from msmemscope.analysis.watch.verdict import WatchResult
    from msmemscope.formats.event_log import Capture
    from msmemscope.recording import Recording

MOST_EVENTS: Final = 30_000_000
"""Events that an analysis needs, above which it does not run by itself: they would take some gigabytes of memory."""

_STEP_KINDS: Final = (EventKind.STEP, EventKind.RANGE_START, EventKind.RANGE_END)
_NEEDED_BY_LEAKS: Final = (*MEMORY_KINDS, *_STEP_KINDS, EventKind.KERNEL_LAUNCH, EventKind.RESERVED)
_NEEDED_BY_INEFFICIENT: Final = (
    *MEMORY_KINDS, *ACCESS_KINDS, *_STEP_KINDS,
    EventKind.ATEN_START, EventKind.ATEN_END, EventKind.ATB_START, EventKind.ATB_END,
)  # fmt: skip
_WATCH: Final = "watch"
_NO_STEPS: Final = (
    'leaks: not judged, the program marks no steps (msmemscope.step() behind each, or mstx ranges "step start")'
)


@dataclasses.dataclass(frozen=True)
class RunAnalyses:
    """What the analyses say about one process."""

    leaks: LeakOverview | None = None
    """None if leaks were not asked for, or cannot be judged."""
    inefficient: InefficientResult | None = None
    """None if it was not asked for, or could not be done."""
    watch: WatchResult | None = None
    """None if no memory was watched."""
    remarks: tuple[str, ...] = ()
    """What the recording leaves out, and what was not done, and why: one sentence each."""


def analyze_run(capture: Capture, files: Iterable[Path]) -> RunAnalyses:
    """Run the analyses that a capture was made for, and judge memory that was watched. That of owners is no part of this, and neither are failures.

    Args:
        capture: Of a process that has ended; one that still runs is left for later.
        files: What was just written; the dumps among it get the attribute `inefficient_type` if that was asked for.

    Raises:
        MsmemscopeError: the event log cannot be read.
    """
    asked = {word for text in capture.facts.get("setting.analysis", ()) for word in text.split(",")}
    if capture.is_running():
        return RunAnalyses()
    remarks = list(summary_limits(Recorded.of_capture(capture)))
    leaks = inefficient = watch = None
    if Analysis.LEAKS.value in asked:
        with _surviving(Analysis.LEAKS.value, capture, remarks):
            leaks = _leaks(capture, remarks)
    if Analysis.INEFFICIENT.value in asked:
        with _surviving(Analysis.INEFFICIENT.value, capture, remarks):
            inefficient = _inefficient(capture, files, remarks)
    with _surviving(_WATCH, capture, remarks):
        watch = _watch(capture)
    return RunAnalyses(leaks, inefficient, watch, tuple(remarks))


@contextlib.contextmanager
def _surviving(analysis: str, capture: Capture, remarks: list[str]) -> Iterator[None]:
    """A fault of one analysis becomes a line: it must not cost the rest of the summary."""
    try:
        yield
    except (MsmemscopeError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - whatever it is, the other results of the run are worth showing
        show_traceback(error)
        remarks.append(
            f"{analysis}: failed, {fault_text(error)}; msmemscope analyze {analysis} {capture.directory} tries again"
        )


def _leaks(capture: Capture, remarks: list[str]) -> LeakOverview | None:
    """Returns what is said about leaks; None, and a remark, if nothing can be."""
    counts = capture.kind_counts()
    if counts.get(EventKind.MALLOC, 0) == 0:
        return None  # what the recording leaves out stands in the summary anyway
    coverage = recorded_coverage(LEAKS, Recorded.of_capture(capture))
    if not coverage.is_answered:
        remarks.extend(f"leaks: not judged, {line}" for line in coverage.missing)
        return None
    if not any(counts.get(kind, 0) for kind in _STEP_KINDS):
        remarks.append(_NO_STEPS)
        return None
    recording = _recording_of(capture, Analysis.LEAKS, _NEEDED_BY_LEAKS, remarks)
    if recording is None:
        return None
    found = find_leaks(recording)
    if found.step_leaks.steps_ended == 0:
        remarks.append(_NO_STEPS)
        return None
    if found.step_leaks.remarks and not found.fluctuation.pools:
        remarks.extend(found.step_leaks.remarks)
        return None
    return found


def _inefficient(capture: Capture, files: Iterable[Path], remarks: list[str]) -> InefficientResult | None:
    recording = _recording_of(capture, Analysis.INEFFICIENT, _NEEDED_BY_INEFFICIENT, remarks)
    if recording is None:
        return None
    found = find_inefficient(recording)
    if not found.coverage.is_answered:
        remarks.extend(f"inefficient memory: not judged, {line}" for line in found.coverage.missing)
        return None
    if not found.findings.is_empty():
        try:
            write_into([file for file in files if file.name.startswith(f"{DUMP_TABLE}_")], found, recording.process_id)
        except MsmemscopeError as error:
            # The dumps are complete without it, and the findings are shown all the same.
            messages.error(error)
    return found


def _watch(capture: Capture) -> WatchResult | None:
    """Returns what is said about watched memory; None if there was none."""
    counts = capture.kind_counts()
    has_events = any(counts.get(kind, 0) for kind in WATCH_KINDS)
    is_without_window = WINDOW_NEVER_BEGAN in capture.facts
    if not (has_events or is_without_window or coverage_sentences(capture.facts)):
        return None
    kinds = set(WATCH_KINDS)
    if counts.get(EventKind.WATCH, 0) and counts.get(EventKind.MALLOC, 0) <= MOST_EVENTS:
        # Blocks are called by who allocated them; a change is worth saying without that, too.
        kinds.add(EventKind.MALLOC)
    if is_without_window:
        kinds.update(NAMED_LAUNCH_KINDS)
    return judge_watched_memory(recording_of_capture(capture, capture.directory, kinds))


def _recording_of(
    capture: Capture, analysis: Analysis, kinds: Collection[EventKind], remarks: list[str]
) -> Recording | None:
    counts = capture.kind_counts()
    needed = sum(counts.get(kind, 0) for kind in kinds)
    if needed > MOST_EVENTS:
        remarks.append(
            f"{analysis.value}: not run by itself, {format_count(needed)} events are more than {format_count(MOST_EVENTS)};"
            f" msmemscope analyze {analysis.value} {capture.directory}"
        )
        return None
    return recording_of_capture(capture, capture.directory, kinds)

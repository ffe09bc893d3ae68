"""The analyses that a run asked for by `--analysis`, done when it has ended, in our own process."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from typing import TYPE_CHECKING, Final

from msmemscope.analysis.coverage import recorded_coverage, summary_limits
from msmemscope.analysis.inefficient.inefficient import find_inefficient
from msmemscope.analysis.judged import LEAKS, NotJudged, devices_not_observed, failures_not_judged, leaks_not_judged
from msmemscope.analysis.leaks.overview import find_leaks, subject_of
from msmemscope.analysis.owners.decomposition import DECOMPOSED_KINDS, DecompositionOptions, decompose_capture
from msmemscope.analysis.owners.ownership import LABEL_KINDS, OWNER_KINDS, labelled_blocks, owners_of_capture
from msmemscope.analysis.recorded import Recorded
from msmemscope.analysis.reserved.reserved import find_reserved
from msmemscope.analysis.watch.sentences import coverage_sentences
from msmemscope.analysis.watch.verdict import NAMED_LAUNCH_KINDS, WINDOW_NEVER_BEGAN, judge_watched_memory
from msmemscope.configuration import Analysis
from msmemscope.errors import MsmemscopeError
from msmemscope.formats.dump import BlockFindings
from msmemscope.formats.event_log.events_in_memory import KindsInMemory
from msmemscope.formats.event_log.recording_of_log import recording_of_capture
from msmemscope.launch.faults import fault_text, show_traceback
from msmemscope.model.devices import KIND_NAMES, DeviceKind
from msmemscope.model.events import ACCESS_KINDS, MEMORY_KINDS, SCOPE_KINDS, WATCH_KINDS, EventKind
from msmemscope.model.labels import USER_LABELS_FACT
from msmemscope.units import format_count

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import polars as pl

    from msmemscope.analysis.inefficient.inefficient import InefficientResult
    from msmemscope.analysis.leaks.overview import LeakOverview
    from msmemscope.analysis.owners.decomposition import Decomposition
    from msmemscope.analysis.owners.ownership import Ownership
    from msmemscope.analysis.reserved.reserved import ReservedResult
    from msmemscope.analysis.watch.verdict import WatchResult
    from msmemscope.configuration import Config
    from msmemscope.formats.event_log import Capture
    from msmemscope.recording import Recording

SUMMARY_KINDS: Final = (*MEMORY_KINDS, *SCOPE_KINDS, EventKind.OOM, EventKind.SNAPSHOT, *WATCH_KINDS)
"""Kinds of the events that the summary of a run always needs."""

MOST_EVENTS: Final = 30_000_000
"""Events that an analysis needs, above which it does not run by itself: they would take some gigabytes of memory."""

_STEP_KINDS: Final = (EventKind.STEP, EventKind.RANGE_START, EventKind.RANGE_END, EventKind.IMPLIED_STEP)
_COVERED_KINDS: Final = (EventKind.START_TRACE, EventKind.STOP_TRACE)
"""Kinds that say which part of a run was recorded."""
_NEEDED_BY_LEAKS: Final = (
    *MEMORY_KINDS, *_STEP_KINDS, *_COVERED_KINDS,
    EventKind.KERNEL_LAUNCH, EventKind.RESERVED, EventKind.HOLDER, EventKind.FREE_COMPLETED, EventKind.REQUESTED,
    EventKind.HOST_SAMPLE, EventKind.HOST_SAMPLE_FREE, EventKind.HOST_RESIDENT, EventKind.HOST_MEMORY,
    EventKind.CONTAINER,
)  # fmt: skip
_NEEDED_BY_INEFFICIENT: Final = (
    *MEMORY_KINDS, *ACCESS_KINDS, *_STEP_KINDS, *_COVERED_KINDS,
    EventKind.ATEN_START, EventKind.ATEN_END, EventKind.ATB_START, EventKind.ATB_END,
)  # fmt: skip
_NEEDED: Final = {Analysis.LEAKS: _NEEDED_BY_LEAKS, Analysis.INEFFICIENT: _NEEDED_BY_INEFFICIENT}
_RESERVED: Final = "reserved"
_WATCH: Final = "watch"
_LABELS: Final = "labels"


@dataclasses.dataclass(frozen=True)
class RunAnalyses:
    """The answers of the analyses about one process."""

    leaks: LeakOverview | None = None
    """None if leaks were not asked for, or cannot be judged."""
    reserved: ReservedResult | None = None
    """None if leaks were not asked for, or it could not be done."""
    inefficient: InefficientResult | None = None
    """None if it was not asked for, or could not be done."""
    decomposition: Decomposition | None = None
    """None if it was not asked for, or could not be done."""
    watch: WatchResult | None = None
    """None if no memory was watched."""
    not_judged: tuple[NotJudged, ...] = ()
    """The words that a summary may not say where nothing is found."""
    remarks: tuple[str, ...] = ()
    """The gaps of the recording, and the analyses that were not done, and why: one sentence each."""


class RunRecordings:
    """The recordings that the analyses of a run read: one for all, or one for each where that would be too large.

    Args:
        capture: Of a process.
    """

    def __init__(self, capture: Capture) -> None:
        """Read nothing yet."""
        self._capture = capture
        self._read: dict[frozenset[EventKind], Recording] = {}

    def of(self, analysis: Analysis, remarks: list[str]) -> Recording | None:
        """Return a recording with the events of an analysis; None, and a remark, if those are too many for a run."""
        own = frozenset(_NEEDED[analysis])
        if (needed := self._count(own)) > MOST_EVENTS:
            remarks.append(
                f"{analysis.value}: not run by itself, {format_count(needed)} events are more than {format_count(MOST_EVENTS)};"
                f" msmemscope analyze {analysis.value} {self._capture.directory}"
            )
            return None
        asked = _asked(self._capture)
        together = own.union(*(kinds for other, kinds in _NEEDED.items() if other.value in asked))
        kinds = together if self._count(together) <= MOST_EVENTS else own
        if kinds not in self._read:
            self._read[kinds] = recording_of_capture(self._capture, self._capture.directory, kinds)
        return self._read[kinds]

    def of_leaks(self) -> Recording | None:
        """Return the recording that leaks are judged by; None if they were not asked for, or have too many events."""
        return self.of(Analysis.LEAKS, []) if Analysis.LEAKS.value in _asked(self._capture) else None

    def of_memory(self) -> Recording | None:
        """Return a recording with all events about memory; None if none was read."""
        return next(iter(self._read.values()), None)

    def _count(self, kinds: Collection[EventKind]) -> int:
        counts = self._capture.kind_counts()
        return sum(counts.get(kind, 0) for kind in kinds)


@dataclasses.dataclass(frozen=True)
class FoundFirst:
    """The findings that are made before the dumps are written, because their rows show them."""

    ownership: Ownership | None = None
    inefficient: InefficientResult | None = None
    labelled: pl.DataFrame | None = None
    """Blocks that the user has labelled, as `labelled_blocks` has them; None where owners are found."""
    remarks: tuple[str, ...] = ()
    """Why something of this is missing: one sentence each."""
    error: MsmemscopeError | None = None
    """Why all that was not found yet is missing."""
    recordings: RunRecordings | None = None
    """The recordings that were read for that; the other analyses need them too."""

    def of_blocks(self, settings: Config) -> BlockFindings:
        """Return the findings that the rows of blocks show.

        Args:
            settings: Those that the dumps are written by.
        """
        return BlockFindings(
            owners=self.ownership.owners
            if self.ownership and Analysis.DECOMPOSE in settings.analysis
            else self.labelled,
            inefficient=self.inefficient.kinds_by_block() if self.inefficient else None,
        )


def find_first(capture: Capture, settings: Config | None = None) -> FoundFirst:
    """Find what the rows of dumps show of their blocks: owners and inefficient memory, if the run asked for them.

    Nothing that goes wrong here is raised, except for interrupts: the dumps are written all the same.

    Args:
        capture: Of a process; of one that still runs, inefficient memory is left for later.
        settings: Those that the dumps are written by; None if none are.
    """
    remarks: list[str] = []
    ownership = inefficient = labelled = None
    recordings = RunRecordings(capture)
    try:
        asked = _asked(capture)
        if Analysis.DECOMPOSE.value in asked or (settings and Analysis.DECOMPOSE in settings.analysis):
            with _surviving(Analysis.DECOMPOSE.value, capture, remarks):
                ownership = owners_of_capture(capture)
        else:
            with _surviving(_LABELS, capture, remarks):
                labelled = labelled_blocks(capture)
        if Analysis.INEFFICIENT.value in asked and not capture.is_running():
            with _surviving(Analysis.INEFFICIENT.value, capture, remarks):
                inefficient = _inefficient(recordings, remarks)
    except MsmemscopeError as error:
        return FoundFirst(ownership, inefficient, labelled, tuple(remarks), error, recordings)
    return FoundFirst(ownership, inefficient, labelled, tuple(remarks), recordings=recordings)


def analyze_run(capture: Capture, first: FoundFirst) -> RunAnalyses:
    """Run the analyses that a capture was made for, and judge memory that was watched. Failures are no part of this.

    Args:
        capture: Of a process; of one that still runs, only its memory is decomposed.
        first: The result of `find_first`.

    Raises:
        MsmemscopeError: the event log cannot be read.
    """
    if first.error is not None:
        raise first.error
    recorded = Recorded.of_capture(capture)
    remarks = [*summary_limits(recorded), *_queue_remarks(capture)]
    leaks = reserved = watch = None
    recordings = first.recordings or RunRecordings(capture)
    not_judged: tuple[NotJudged, ...] = (NotJudged(LEAKS, "--analysis leaves them out", "--analysis=leaks"),)
    if Analysis.LEAKS.value in _asked(capture):
        failed: list[str] = []
        with _surviving(Analysis.LEAKS.value, capture, failed):
            leaks, not_judged = _leaks(capture, recordings)
        if failed:
            remarks.extend(failed)
            not_judged = (NotJudged(LEAKS, failed[0].partition(": ")[2]),)
        with _surviving(_RESERVED, capture, remarks):
            reserved = _reserved(capture, recordings)
    remarks.extend(first.remarks)
    inefficient = first.inefficient
    if recorded.damage:
        reserved = inefficient = None  # it is not known which blocks were freed
    with _surviving(_WATCH, capture, remarks):
        watch = _watch(capture)
    decomposition = _decomposition(capture, first, remarks)
    not_judged = (*devices_not_observed(recorded), *not_judged, *failures_not_judged(recorded))
    return RunAnalyses(leaks, reserved, inefficient, decomposition, watch, not_judged, tuple(remarks))


def kinds_in_memory(capture: Capture) -> KindsInMemory:
    """Return the kinds of events that stay in memory from the first pass over a capture on.

    Its summary needs those about memory. If there are too many events, events that only the chosen analyses need are
    read again from the log; in the last resort, all are.
    """
    asked = _asked(capture)
    kinds = {
        **{analysis.value: kinds for analysis, kinds in _NEEDED.items()},
        Analysis.DECOMPOSE.value: (*OWNER_KINDS, *DECOMPOSED_KINDS),
        _LABELS: LABEL_KINDS if USER_LABELS_FACT in capture.facts else (),
        _WATCH: NAMED_LAUNCH_KINDS if WINDOW_NEVER_BEGAN in capture.facts else (),
    }
    needed = (kind for word in (*asked, _LABELS, _WATCH) for kind in kinds.get(word, ()))
    return KindsInMemory(frozenset(map(int, SUMMARY_KINDS)), frozenset(map(int, needed)), MOST_EVENTS)


def _queue_remarks(capture: Capture) -> list[str]:
    """Say that kernels were launched out of order, if a queue may have done it."""
    names = KIND_NAMES[DeviceKind.NPU]
    launchers = capture.facts.get("observed.kernel_launch", ())
    is_queued = any(names.extension in path for path in launchers) and os.environ.get(names.queue_variable) != "0"
    if not is_queued or not capture.kind_counts().get(EventKind.KERNEL_LAUNCH, 0):
        return []
    line = (
        "kernels: a thread of the task queue launches them, so their steps and allocations are approximate; "
        f"record with {names.queue_variable}=0 to compare kernels"
    )
    return [line]


def _asked(capture: Capture) -> list[str]:
    """Return the analyses that were asked for at any time."""
    return sorted({word for text in capture.facts.get("setting.analysis", ()) for word in text.split(",")})


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


def _leaks(capture: Capture, recordings: RunRecordings) -> tuple[LeakOverview | None, tuple[NotJudged, ...]]:
    """Return the answer about leaks, None if there can be none; and the parts that are not judged."""
    recorded = Recorded.of_capture(capture)
    coverage = recorded_coverage(subject_of(recorded), recorded)
    if not coverage.is_answered:
        return None, tuple(NotJudged(LEAKS, line) for line in coverage.missing)
    too_much: list[str] = []
    recording = recordings.of(Analysis.LEAKS, too_much)
    if recording is None:
        return None, tuple(NotJudged(LEAKS, line.partition(": ")[2]) for line in too_much)
    return judged_leaks(find_leaks(recording))


def _reserved(capture: Capture, recordings: RunRecordings) -> ReservedResult | None:
    """Return the answer about idle memory; None if there can be none. Too many events for leaks are too many here."""
    if capture.kind_counts().get(EventKind.MALLOC, 0) == 0:
        return None
    recording = recordings.of(Analysis.LEAKS, [])
    return find_reserved(recording) if recording is not None else None


def judged_leaks(found: LeakOverview) -> tuple[LeakOverview | None, tuple[NotJudged, ...]]:
    """Return leaks as far as they could be judged: None if nothing could; and the parts that could not."""
    not_judged = leaks_not_judged(found)
    if not any(one.subject == LEAKS for one in not_judged):
        return found, not_judged
    is_host_growing = found.host_growth is not None and found.host_growth.is_growing
    is_host_growing |= found.copied_pages is not None
    is_known = found.coverage.is_answered and (bool(found.fluctuation.pools) or is_host_growing)
    return found if is_known else None, not_judged


def _inefficient(recordings: RunRecordings, remarks: list[str]) -> InefficientResult | None:
    recording = recordings.of(Analysis.INEFFICIENT, remarks)
    if recording is None:
        return None
    found = find_inefficient(recording)
    if not found.coverage.is_answered:
        remarks.extend(f"inefficient memory: not judged, {line}" for line in found.coverage.missing)
        return None
    return found


def _decomposition(capture: Capture, first: FoundFirst, remarks: list[str]) -> Decomposition | None:
    if first.ownership is None or Analysis.DECOMPOSE.value not in _asked(capture):
        return None
    with _surviving(Analysis.DECOMPOSE.value, capture, remarks):
        return decompose_capture(capture, DecompositionOptions(moments=0), ownership=first.ownership)
    return None


def _watch(capture: Capture) -> WatchResult | None:
    """Return the answer about watched memory; None if there was none."""
    counts = capture.kind_counts()
    has_events = any(counts.get(kind, 0) for kind in WATCH_KINDS)
    is_without_window = WINDOW_NEVER_BEGAN in capture.facts
    if not (has_events or is_without_window or coverage_sentences(capture.facts)):
        return None
    kinds = set(WATCH_KINDS)
    if counts.get(EventKind.WATCH, 0) and counts.get(EventKind.MALLOC, 0) <= MOST_EVENTS:
        # The name of a block is the line that allocated it; a change is worth saying without that, too.
        kinds.add(EventKind.MALLOC)
    if is_without_window:
        kinds.update(NAMED_LAUNCH_KINDS)
    return judge_watched_memory(recording_of_capture(capture, capture.directory, kinds))

"""A process that has been read: its questions answered, and summed up as at the end of a run."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msmemscope.analysis.judged import LEAKS, NotJudged, devices_not_observed, failures_not_judged
from msmemscope.analysis.peak.overview import recording_overview
from msmemscope.analysis.recorded import Recorded
from msmemscope.errors import EventLogError, MsmemscopeError
from msmemscope.formats.event_log import Capture
from msmemscope.launch import messages
from msmemscope.launch.analyses import judged_leaks
from msmemscope.launch.captures import program_text
from msmemscope.launch.faults import faults_as_errors
from msmemscope.questions import QUESTIONS
from msmemscope.reports.run_summary import ProcessSummary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from msmemscope.analysis.leaks.overview import LeakOverview
    from msmemscope.recording import Recording

SUMMARY_QUESTIONS: Final = ("oom", "leaks", "reserved", "inefficient", "watch", "host")
"""The questions that a summary is made from."""


@dataclasses.dataclass(frozen=True, eq=False)
class JudgedProcess:
    """One process and its findings."""

    summary: ProcessSummary
    results: Mapping[str, Any]
    """By the name of the question; one that failed is left out."""
    remarks: tuple[str, ...]
    """The gaps of the recording, and the work that could not be done, one sentence each."""

    def as_summary(self) -> ProcessSummary:
        """Return the summary with the remarks in it."""
        return dataclasses.replace(self.summary, remarks=tuple(dict.fromkeys(self.remarks)))


def judge_process(recording: Recording, names: Iterable[str] = SUMMARY_QUESTIONS) -> JudgedProcess:
    """Answer questions about a process and sum it up; questions that fail are left out and named.

    Args:
        recording: Any.
        names: The questions, those of SUMMARY_QUESTIONS among them.
    """
    remarks = [*recording.coverage, *recording.problems]
    results: dict[str, Any] = {}
    for name in names:
        with named_failure(name, recording, remarks):
            question = QUESTIONS[name]
            results[name] = question.examine(recording, question.options())
    answered = {name: result for name, result in results.items() if result.coverage.is_answered}
    leaks: LeakOverview | None = None
    not_judged: tuple[NotJudged, ...] = (NotJudged(LEAKS, "the analysis failed"),)
    if "leaks" in results:
        leaks, not_judged = judged_leaks(results["leaks"])
    recorded = Recorded.of(recording)
    not_judged = (*devices_not_observed(recorded), *not_judged, *failures_not_judged(recorded))
    overview = None
    with named_failure("peak", recording, remarks):
        overview = recording_overview(recording, out_of_memory=answered.get("oom"))
    summary = ProcessSummary(
        process_id=recording.process_id,
        program=program_text(recording.facts.get("argument", ()), recording.facts.get("executable", ())),
        directory=Path(recording.source),
        form=recording.form,
        overview=overview,
        leaks=leaks,
        reserved=answered.get("reserved"),
        inefficient=answered.get("inefficient"),
        watch=results.get("watch"),
        host_memory=answered.get("host"),
        not_judged=not_judged,
        place=recording.place,
        start_ns=_start_ns(recording),
    )
    return JudgedProcess(summary, results, tuple(remarks))


@contextlib.contextmanager
def named_failure(what: str, recording: Recording, remarks: list[str]) -> Iterator[None]:
    """A part that cannot be made must not cost the rest; it is warned of, and named in the remarks.

    Args:
        what: The part.
        recording: Its process.
        remarks: Gets a sentence if it fails.
    """
    try:
        with faults_as_errors(during=f"{what} of {recording.source}", send=recording.source):
            yield
    except MsmemscopeError as error:
        messages.warning(error.message, error.hint)
        remarks.append(error.message)


def _start_ns(recording: Recording) -> int:
    """When recording began, as the summary at the end of a run counts; where that is not known, the first event."""
    if recording.form == "event log":
        with contextlib.suppress(EventLogError, OSError):
            return Capture(Path(recording.source)).header.start_ns
    times = recording.events["timestamp_ns"]
    return int(times[0]) if len(times) else 0

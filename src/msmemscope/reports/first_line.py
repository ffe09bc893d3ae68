"""The first line of a run without findings: the subjects that were not judged, and those that were looked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msmemscope.recording.recording import StepSource
from msmemscope.reports.report_text import counted
from msmemscope.reports.run_verdicts import LEAST_LEAK_BYTES, LEAST_LEAK_SHARE
from msmemscope.reports.verdict import named_processes

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from msmemscope.analysis.judged import NotJudged
    from msmemscope.reports.run_summary import ProcessSummary

_MOST_NOT_JUDGED: Final = 3
_MOST_EXPLAINED: Final = 2


def not_judged(
    processes: Sequence[ProcessSummary], not_observed: Sequence[NotJudged] = (), but: Collection[str] = ()
) -> tuple[str, ...]:
    """Return what was not judged in some processes, one sentence each.

    These keep a summary from saying that nothing was found.

    Args:
        processes: All of a run. One that had too little memory for a leak that is worth a verdict does not count.
        not_observed: Devices that no process of the run observed.
        but: Subjects that are left out.
    """
    from msmemscope.analysis.judged import together

    largest = max((process.peak_bytes for process in processes), default=0)
    least = min(LEAST_LEAK_BYTES, round(LEAST_LEAK_SHARE * largest))
    of_run = {one.subject for one in not_observed}
    concerned: dict[NotJudged, list[ProcessSummary]] = {one: [] for one in not_observed}
    for process in processes:
        for one in together(one for one in process.not_judged if one.subject not in but):
            # A device that the whole run lacks is told of once, with the better reason.
            if (one.is_device and one.subject not in of_run) or (not one.is_device and process.peak_bytes >= least):
                concerned.setdefault(one, []).append(process)
    return tuple(
        f"{one.sentence} ({named_processes(who)})" if who and len(who) < len(processes) else one.sentence
        for one, who in concerned.items()
    )


def without_findings(processes: Sequence[ProcessSummary], unknown: Sequence[str]) -> str:
    """Return the first line where there is no verdict: what was not judged, or "nothing found"; and what was looked at.

    Args:
        processes: All of a run.
        unknown: The result of `not_judged` for them.
    """
    events = counted(sum(process.event_count for process in processes), "event")
    of = "1 process" if len(processes) == 1 else f"{len(processes)} processes"
    looked = ", ".join(_looked_at(processes))
    if not unknown:
        return f"{f'nothing found: {looked}' if looked else 'nothing was judged'} ({events} of {of})"
    more = [f"and {len(unknown) - _MOST_NOT_JUDGED} more"] if len(unknown) > _MOST_NOT_JUDGED else []
    unknown = [*unknown[:_MOST_NOT_JUDGED], *more]
    return f"{'; '.join(unknown)}{f'; otherwise {looked}' if looked else ''} ({events} of {of})"


def what_steps_are(processes: Sequence[ProcessSummary]) -> str:
    """Return the word for a step where calls of the model are taken for steps; empty elsewhere.

    Args:
        processes: All of a run.
    """
    of_calls = [
        process.leaks.step_leaks.steps_ended
        for process in processes
        if process.leaks is not None and process.leaks.step_leaks.step_source is StepSource.MODULE
    ]
    if not any(of_calls):
        return ""
    calls = f"{counted(max(of_calls), 'call')} of the model"
    return f"steps: {calls}" if len(of_calls) == 1 else f"steps: {calls} at most"


def grown_and_no_leak(processes: Sequence[ProcessSummary]) -> tuple[str, ...]:
    """Return growth in some processes that is no leak, as where its backward pass has not run: one sentence each."""
    found = [one for process in processes if process.leaks for one in process.leaks.explained]
    return tuple(dict.fromkeys(found))[:_MOST_EXPLAINED]


def _looked_at(processes: Sequence[ProcessSummary]) -> list[str]:
    """The subjects that were looked for in some processes without findings."""
    looked = []
    host = [process.leaks.host_growth for process in processes if process.leaks and process.leaks.host_growth]
    has_risen = any(one.unexplained_bytes for one in host)
    judged = [process.leaks.step_leaks for process in processes if process.leaks and process.judges_leaks]
    if judged:
        steps = max(0 if one.remarks else one.steps_ended for one in judged)
        if steps:
            looked.append(f"no leak over {counted(steps, 'step')}")
        elif not has_risen:
            looked.append("no growth over the run")
    if host and not has_risen:
        looked.append("no steady growth of host memory")
    if any(process.reserved is not None and process.reserved.is_judged for process in processes):
        looked.append("no idle reserve")
    if any(process.inefficient is not None for process in processes):
        looked.append("no inefficient memory worth fixing")
    if any(process.watch is not None and process.watch.was_watched for process in processes):
        looked.append("no unexpected change of watched memory")
    if any(process.judges_failures for process in processes):
        looked.append("no failed allocation")
    return looked

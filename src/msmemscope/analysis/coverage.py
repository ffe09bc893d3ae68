"""The needs of each question of a recording: an answer is only given for what was observed.

A question without its events has no answer, which differs from "none found". Other gaps of a recording (steps, devices,
stretches of time, call stacks) limit the coverage of an answer.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from msmemscope.analysis.recorded import Need, Recorded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from msmemscope.recording import Recording


@dataclasses.dataclass(frozen=True)
class Subject:
    """The subject of a question, and the events that it is answered from."""

    title: str
    needed: tuple[Need, ...] = ()
    """Without one of these there is no answer."""
    helpful: tuple[Need, ...] = ()
    """Without one of these an answer leaves something out."""


SUMMARY: Final = Subject("Summary", helpful=(Need.ALLOCATIONS, Need.OPERATORS))
COMPARISON: Final = "Comparison"


@dataclasses.dataclass(frozen=True)
class Coverage:
    """The coverage of an answer."""

    question: str
    """The title of the answer's subject."""
    missing: tuple[str, ...] = ()
    """Why there is no answer, one line each; empty if there is one."""
    limits: tuple[str, ...] = ()
    """The gaps of the answer, one line each."""

    @property
    def is_answered(self) -> bool:
        """Whether there is an answer at all."""
        return not self.missing

    def without_answer(self, reasons: Iterable[str]) -> Coverage:
        """Say why there is no answer after all; nothing changes without a reason."""
        missing = tuple(dict.fromkeys(reasons))
        return dataclasses.replace(self, missing=missing, limits=()) if missing else self

    def with_limits(self, lines: Iterable[str]) -> Coverage:
        """Add the gaps that an analysis itself found; without an answer there is nothing to limit."""
        if not self.is_answered:
            return self
        return dataclasses.replace(self, limits=tuple(dict.fromkeys((*self.limits, *lines))))


def coverage_of(subject: Subject, recording: Recording) -> Coverage:
    """Return the coverage of an answer from a recording."""
    return recorded_coverage(subject, Recorded.of(recording), recording.coverage)


def recorded_coverage(subject: Subject, recorded: Recorded, notes: Iterable[str] = ()) -> Coverage:
    """Return the coverage of an answer, for callers that have no recording with all events.

    Args:
        subject: The subject of the question.
        recorded: The recorded events and settings to answer it from.
        notes: The losses before it could be read, one line each.
    """
    coverage = Coverage(subject.title)
    nothing = recorded.why_nothing() if subject.needed else ()
    missing = nothing or [line for need in subject.needed for line in recorded.why_missing(need)]
    if missing:
        return coverage.without_answer(missing)
    lines = [*notes, *recorded.limits(), *recorded.chosen_steps()]
    for need in subject.needed:
        lines.extend((*recorded.for_a_part(need), *recorded.unobserved(need)))
    for need in subject.helpful:
        lines.extend((*recorded.not_chosen(need), *recorded.unobserved(need)))
    return coverage.with_limits(lines)


def summary_limits(recorded: Recorded) -> tuple[str, ...]:
    """Say what a recording as a whole leaves out, one line each: a summary cannot show it."""
    nothing = recorded.why_nothing()
    return (*nothing, *recorded.limits()) if nothing else recorded_coverage(SUMMARY, recorded).limits


def comparison_coverage(sides: Mapping[str, Coverage]) -> Coverage:
    """Put the coverages of the two sides of a comparison together.

    Args:
        sides: By the word for each.
    """
    missing = [f"{word}: {line}" for word, side in sides.items() for line in side.missing]
    limits = [f"{word}: {line}" for word, side in sides.items() for line in side.limits]
    return Coverage(COMPARISON).without_answer(missing).with_limits(limits)

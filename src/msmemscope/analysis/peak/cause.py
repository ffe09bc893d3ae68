"""Why memory ran out: the memory that would have to be gone for the step to finish, ranked by its bytes.

An allocator asks the driver when nothing in its reserve fits, and gives its empty segments back before it asks for the
last time. The state at the last attempt: the device has `capacity` bytes; `used` bytes of them are in use by anybody.
Of the reserve of the pools, `slack` bytes lie in gaps. The step needs `need` bytes of the pools in full: at least the
bytes in use and the request (see `comparison`). Everything that could be gone is a candidate with the bytes that it
would free:

- memory that the program keeps though no step needs it (`kept`);
- memory that came since the last good step, by kind of use (`candidates`);
- gaps, as far as a replay closes them (`gaps`);
- memory of the device that is not the pools', and a limit that was configured.

Candidates after which the step finishes come before those after which it does not. Of the first, kept memory comes
before the rest: it grows until memory runs out, so that the next steps would fail. Memory since the last good step
comes before gaps, unless the step finishes with it once they are closed. So does a container that the program bounds, if there
is no room for a full one. Any other comes last, because its entries may be needed. Within these, more bytes come first.

Two causes are known without bytes. One is a free block that the allocator did not look for again (`refusal`). The other
is memory of the host that the driver refused to pin.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from msmemscope.analysis.fragmentation.fragmentation import Fragmentation, find_fragmentation
from msmemscope.analysis.peak.candidates import Candidate, candidates_by_use
from msmemscope.analysis.peak.cause_words import (
    RESTS,
    Cause,
    Remedy,
    missing_figures,
    next_command_of,
    others_of,
    remedy_of,
    sentence_of,
    verdict_of,
)
from msmemscope.analysis.peak.comparison import FailingStep, StepComparison
from msmemscope.analysis.peak.figures import MemoryFigures, failure_of, memory_figures
from msmemscope.analysis.peak.gaps import gaps_candidate, returnable_candidate
from msmemscope.analysis.peak.kept import bounded_candidate, kept_candidates
from msmemscope.analysis.peak.refusal import Refusal, find_refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from msmemscope.recording import Recording

LEAST_SHARE: Final = 1 / 16
"""Of a device: smaller memory of others is no cause, whatever is missing."""
_LEAST_MODEL: Final = 3 / 4
"""Of the bytes in use: the least share of a model that is too large by itself."""
_LEAST_OF_LIMITED: Final = 1 / 2
"""Of the bytes in use under a limit: with at least this share, collected memory is the cause and not the limit."""
_LEAST_OF_SURPLUS: Final = 9 / 10
"""Of the surplus over a good step: so much of one kind of use explains it."""
_LEAST_SHOWN: Final = 1 / 100
"""Of the bytes in use: smaller candidates are not listed behind the first."""
MOST_CANDIDATES: Final = 3
_LARGE_BLOCK: Final = 2
"""A request of more than so many times what is in use has a size to look at."""


@dataclasses.dataclass(frozen=True)
class OutOfMemoryCause:
    """Why an allocation failed."""

    sequence: int
    """The event of its last attempt."""
    cause: Cause
    """Of the first candidate."""
    site: str
    """Of the first candidate: the line of the program to look at; the operator if there is no such line, empty if nothing is known."""
    candidates: tuple[Candidate, ...]
    """The memory that would have to be gone, the first is the cause; MOST_CANDIDATES at most."""
    remedy: Remedy
    verdict: str
    """One line: the cause in a few words, bytes, device, step and line."""
    sentence: str
    """The cause with the figures that decided it."""
    others: tuple[str, ...]
    """A sentence for each of the other candidates."""
    advice: str
    """The remedy, one sentence."""
    next_command: str
    """The command to type next, without a path where that is the one of the recording; empty if there is none."""
    figures: MemoryFigures
    step: int
    """The step that failed, 0 before the first and without steps."""
    later_steps: int
    """Steps that ended after it; 0 where none did, or nobody knows."""
    is_handled: bool
    """Whether the program went on: steps followed, or the same call was served later."""
    comparison: StepComparison | None
    """With the last good step; None without one."""
    missing: tuple[str, ...]
    """Figures that are not known, one line each."""
    refusal: Refusal | None = None
    """How the caching allocator came to refuse it; None where there is none, or its segments are not known."""


def find_cause(recording: Recording, sequence: int, gaps: Fragmentation | None = None) -> OutOfMemoryCause:
    """Find out why memory ran out.

    Args:
        recording: Any with an OOM event.
        sequence: Number of that event, of the last attempt if there were several.
        gaps: The result of `find_fragmentation` at that event on its device, if the caller has it.

    Raises:
        ValueError: no OOM event has this number.
    """
    failure = failure_of(recording, sequence)
    if gaps is None and failure["device"] >= 0:
        gaps = find_fragmentation(recording, sequence, device=failure["device"])
    figures = memory_figures(recording, failure, gaps)
    step = FailingStep(recording, failure, figures.request_bytes)
    refusal = find_refusal(recording, failure, gaps) if gaps is not None else None
    comparison = step.comparison
    figures = dataclasses.replace(
        figures,
        need_bytes=max(
            step.least_need_bytes,
            comparison.need_bytes if comparison is not None else 0,
            step.in_use_bytes + (step.bytes_to_come or 0),
        ),
        overlooked_bytes=refusal.overlooked_bytes if refusal is not None else 0,
        request_site=step.site,
    )
    candidates = _ranked(step, figures, gaps)
    first = candidates[0]
    figures = _in_full(first, figures)
    remedy, advice = remedy_of(first, figures)
    return OutOfMemoryCause(
        sequence=sequence,
        cause=first.cause,
        site=first.site,
        candidates=candidates,
        remedy=remedy,
        verdict=verdict_of(first, figures, step.step, later_steps=step.later_steps, is_handled=step.is_handled),
        sentence=sentence_of(first, figures, comparison),
        others=others_of(candidates, figures),
        advice=advice,
        next_command=next_command_of(first, figures),
        figures=figures,
        step=step.step,
        later_steps=step.later_steps,
        is_handled=step.is_handled,
        comparison=comparison,
        missing=missing_figures(figures),
        refusal=refusal,
    )


def _ranked(step: FailingStep, figures: MemoryFigures, gaps: Fragmentation | None) -> tuple[Candidate, ...]:
    """Return the candidates, the cause first."""
    if figures.overlooked_bytes:
        return (Candidate(Cause.NOT_SEARCHED, figures.overlooked_bytes, step.site, is_enough=True),)
    if figures.device < 0 and _is_pinned(figures):
        return (Candidate(Cause.PINNED_HOST, figures.pinned_bytes, step.site),)
    kept, recent = (
        [_judged(one, figures) for one in some] for some in (kept_candidates(step), candidates_by_use(step))
    )
    bounded = next((_judged(one, figures) for one in (bounded_candidate(step),) if one is not None), None)
    holes = gaps_candidate(step, figures, gaps)
    closable = staying = None
    outside: list[Candidate] = []
    if figures.is_limit:
        # The collected memory may be all that the program works with: it would fit without the limit.
        least_kept = figures.in_use_bytes * _LEAST_OF_LIMITED
        kept = [one for one in kept if one.cause is not Cause.KEPT or one.freed_bytes >= least_kept]
        bounded = bounded if bounded is not None and bounded.freed_bytes >= least_kept else None
    else:
        closable = holes if holes is not None and holes.is_enough else None
        # Gaps that no setting closes are no room.
        staying = holes if holes is not None and holes.setting == "" else None
        outside = list(_not_of_pools(figures, step.site, is_closed=staying is not None))
    enough: list[Candidate | None] = [
        one for one in recent if one.is_enough and not (closable and _fits(one, figures, closable))
    ]
    is_filling = bounded is not None and bounded.is_enough and bounded.need_bytes > step.least_need_bytes
    if bounded is not None and is_filling and not (closable and _fits(bounded, figures, closable)):
        enough = enough or [bounded]
    tiers = (
        [returnable_candidate(step, figures, gaps)],
        _by_bytes(one for one in kept if one.is_enough),
        _named_first([*(enough or [closable]), *outside]),
        [bounded] if bounded is not None and bounded.is_enough else [],
        [closable, staying if figures.is_room else None, _rest(figures, step.site)],
        _by_bytes([*kept, *recent, holes, bounded]),
    )
    first, *others = (one for tier in tiers for one in tier if one is not None)
    least = max(figures.in_use_bytes, step.request_bytes) * _LEAST_SHOWN
    shown: dict[Cause, Candidate] = {}
    for one in (first, *(other for other in others if other.freed_bytes >= least and other.cause not in RESTS)):
        shown.setdefault(one.cause, one)
    return tuple(shown.values())[:MOST_CANDIDATES]


def _named_first(candidates: Iterable[Candidate | None]) -> list[Candidate]:
    """Return candidates by their bytes; a kind of use that is most of a surplus stands before the surplus."""
    found = _by_bytes(candidates)
    surplus = next((one for one in found if one.cause in {Cause.BATCH_JUMP, Cause.MORE_BLOCKS}), None)
    if surplus is None:
        return found
    least = surplus.freed_bytes * _LEAST_OF_SURPLUS
    return sorted(
        found,
        key=lambda one: one is surplus and any(other.freed_bytes >= least for other in found if other is not surplus),
    )


def _by_bytes(candidates: Iterable[Candidate | None]) -> list[Candidate]:
    return sorted((one for one in candidates if one is not None), key=lambda one: -one.freed_bytes)


def _in_full(one: Candidate, figures: MemoryFigures) -> MemoryFigures:
    return dataclasses.replace(figures, need_bytes=max(figures.need_bytes, one.need_bytes))


def _judged(one: Candidate, figures: MemoryFigures) -> Candidate:
    """Return a candidate, marked with whether the step finishes without it. The gaps stay."""
    is_enough = bool(one.is_enough) or one.freed_bytes >= _in_full(one, figures).lacking_bytes
    return dataclasses.replace(one, is_enough=is_enough)


def _fits(one: Candidate, figures: MemoryFigures, holes: Candidate) -> bool:
    """Whether the step finishes with a candidate in full once the gaps are closed."""
    full = _in_full(one, figures)
    if one.is_whole:
        return full.is_room and full.is_full
    if one.cause is Cause.MORE_BLOCKS:
        return False  # nobody knows how often a loop that runs longer will go on
    if one.cause is Cause.SECOND_MODEL and one.freed_bytes >= holes.freed_bytes:
        return False
    # Nobody knows the bytes still to come of a model that is being made: gaps are not what it lacks.
    is_model = one.cause is Cause.MODEL_TOO_LARGE and one.freed_bytes >= figures.in_use_bytes * _LEAST_MODEL
    return not is_model and full.is_room and full.is_full


def _is_pinned(figures: MemoryFigures) -> bool:
    is_driver = figures.function not in {"", "posix_memalign"} and not figures.function.startswith("torch.")
    return is_driver or figures.pinned_bytes > max(figures.in_use_bytes, figures.request_bytes)


def _not_of_pools(figures: MemoryFigures, site: str, *, is_closed: bool) -> Iterator[Candidate]:
    """Memory of other processes, or of the driver, on the device: the larger one, if it has the missing bytes."""
    free = figures.reported_free_bytes if figures.free_bytes is None else figures.free_bytes
    capacity, request = figures.capacity_bytes or 0, figures.request_bytes
    # A request that exceeds the whole device is too much, whoever else is there.
    if free is None or free >= request or 0 < capacity < request:
        return
    missing = figures.missing_bytes
    if missing is None:
        missing = figures.more_bytes - (figures.slack_bytes or 0) - free
    if is_closed:
        missing = max(missing, request - free)
    size, largest = max(
        (figures.other_bytes or 0, Cause.OTHER_PROCESS),
        (figures.outside_growth_bytes or 0, Cause.OUTSIDE_FRAMEWORK),
        (figures.unattributed_bytes or 0, Cause.OUTSIDE_POOL),
        key=lambda one: one[0],
    )
    if missing > 0 and size >= max(missing, capacity * LEAST_SHARE):
        own_site = figures.outside_site if largest is Cause.OUTSIDE_FRAMEWORK else ""
        yield Candidate(largest, size, own_site or site, is_enough=True)


def _rest(figures: MemoryFigures, site: str) -> Candidate:
    """The remaining cause where nothing is to blame alone."""
    if figures.is_limit:
        return Candidate(Cause.LIMIT, 0, site)
    if not figures.is_full:
        return Candidate(Cause.UNKNOWN, 0, site)
    if (figures.machine_free_bytes or 0) >= figures.request_bytes:
        return Candidate(Cause.LIMIT, 0, site)
    if figures.request_bytes > _LARGE_BLOCK * figures.in_use_bytes:
        return Candidate(Cause.ONE_BLOCK, figures.request_bytes, site)
    return Candidate(Cause.REAL_SHORTAGE, 0, site)

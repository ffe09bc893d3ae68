"""Each question names the data that it needs, and says so if a recording lacks it."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.analysis.coverage import (
    COMPARISON,
    Coverage,
    Subject,
    comparison_coverage,
    recorded_coverage,
    summary_limits,
)
from msmemscope.analysis.inefficient.finding_rows import SUBJECT as INEFFICIENT
from msmemscope.analysis.leaks.between_marks import SUBJECT as MARK_LEAKS
from msmemscope.analysis.leaks.growth import SUBJECT as GROWTH
from msmemscope.analysis.leaks.overview import SUBJECT as LEAKS
from msmemscope.analysis.operators.memory_changes import SUBJECTS
from msmemscope.analysis.owners.decomposition import SUBJECT as OWNERS
from msmemscope.analysis.peak.explanation import SUBJECT as PEAK
from msmemscope.analysis.peak.out_of_memory import SUBJECT as FAILURES
from msmemscope.analysis.recorded import NO_STEPS, Recorded
from msmemscope.configuration import Config, Level, with_keywords
from msmemscope.model.events import EventKind
from msmemscope.reports.coverage_report import render_limits, render_missing

EVERYTHING: dict[int, int] = dict.fromkeys(
    (EventKind.MALLOC, EventKind.FREE, EventKind.ATEN_START, EventKind.ACCESS_READ, EventKind.KERNEL_LAUNCH), 1
)
OPERATORS, KERNELS = SUBJECTS[Level.OP], SUBJECTS[Level.KERNEL]
NEEDS_MEMORY = [LEAKS, MARK_LEAKS, GROWTH, INEFFICIENT, OWNERS, PEAK, OPERATORS, KERNELS, FAILURES]


def facts_of(**settings: object) -> dict[str, tuple[str, ...]]:
    """The facts of a capture with these settings."""
    config = with_keywords(Config(devices=("cpu",)), {"level": "op,kernel", **settings})
    lines = (line.partition("=") for line in config.to_settings_text().split("\n"))
    return {f"setting.{key}": (value,) for key, _, value in lines}


def without(*kinds: EventKind) -> dict[int, int]:
    """One event of each kind but these."""
    return {kind: count for kind, count in EVERYTHING.items() if kind not in kinds}


@pytest.mark.parametrize("subject", NEEDS_MEMORY)
def test_everything_is_there(subject: Subject) -> None:
    """Then there is an answer, and nothing to add."""
    recorded = Recorded(EVERYTHING, facts_of(events="alloc,free,launch,access"))
    assert recorded_coverage(subject, recorded) == Coverage(subject.title)
    assert summary_limits(recorded) == ()


@pytest.mark.parametrize("subject", NEEDS_MEMORY)
@pytest.mark.parametrize(
    ("form", "facts", "reason"),
    [
        ("event log", facts_of(events="launch"), "allocations were not recorded (--events=alloc records them)"),
        ("event log", facts_of(), "no allocations were recorded"),
        ("csv", {}, "this dump has no allocations (--events=alloc records them)"),
        ("db", {}, "this dump has no allocations (--events=alloc records them)"),
        ("torch snapshot", {}, "a torch snapshot has no allocations"),
    ],
)
def test_without_allocations(subject: Subject, form: str, facts: dict[str, tuple[str, ...]], reason: str) -> None:
    """No question about memory has an answer; that they were not chosen is another reason than that there were none."""
    coverage = recorded_coverage(subject, Recorded(without(EventKind.MALLOC, EventKind.FREE), facts, form))
    assert not coverage.is_answered
    assert coverage.missing[0] == reason
    assert coverage.limits == ()


@pytest.mark.parametrize(
    ("subject", "kind", "events", "reason"),
    [
        (INEFFICIENT, EventKind.ACCESS_READ, "alloc,launch", "accesses were not recorded (--events=access records them)"),
        (INEFFICIENT, EventKind.ACCESS_READ, "access,launch", "no accesses were recorded"),
        (INEFFICIENT, EventKind.ATEN_START, "access", "operators were not recorded (--events=launch --level=op records them)"),
        (OPERATORS, EventKind.ATEN_START, "alloc", "operators were not recorded (--events=launch --level=op records them)"),
        (KERNELS, EventKind.KERNEL_LAUNCH, "alloc", "launches of kernels were not recorded (--events=launch --level=kernel records them)"),
    ],
)  # fmt: skip
def test_what_single_questions_need(subject: Subject, kind: EventKind, events: str, reason: str) -> None:
    """Beside allocations."""
    assert recorded_coverage(subject, Recorded(without(kind), facts_of(events=events))).missing == (reason,)


def test_a_level_that_was_not_chosen() -> None:
    """Launches were chosen, of the other kind."""
    recorded = Recorded(without(EventKind.ATEN_START), facts_of(level="kernel"))
    (reason,) = recorded_coverage(OPERATORS, recorded).missing
    assert reason == "operators were not recorded (--events=launch --level=op records them)"
    assert recorded_coverage(KERNELS, recorded).is_answered


@pytest.mark.parametrize(
    ("steps", "ended", "begun", "missing", "limits"),
    [
        ("9", 5, 6, ["steps 1 to 5 ended, --steps=9 did not happen"], []),
        ("3,4", 1, 2, ["step 1 ended, --steps=3,4 did not happen"], []),
        ("2", 0, 1, ["no step ended, --steps=2 did not happen"], []),
        ("2,3", 5, 6, [], ["only steps 2, 3 were collected (--steps)"]),
        ("2", 1, 2, [], ["only step 2 was collected (--steps)", "step 2 did not end"]),
        ("1,7", 6, 6, [], ["only step 1 was collected (--steps)", "steps 1 to 6 ended, --steps=7 did not happen"]),
    ],
)  # fmt: skip
def test_chosen_steps(steps: str, ended: int, begun: int, missing: list[str], limits: list[str]) -> None:
    """Which of them came, and how far the program got."""
    facts = {**facts_of(steps=steps), "steps.ended": (str(ended),), "steps.begun": (str(begun),)}
    counts = without(EventKind.MALLOC) if missing else EVERYTHING
    coverage = recorded_coverage(PEAK, Recorded(counts, facts))
    assert list(coverage.missing) == missing
    assert list(coverage.limits) == limits
    assert list(summary_limits(Recorded(counts, facts))) == [*missing, *limits]
    assert not recorded_coverage(LEAKS, Recorded(counts, facts)).is_answered


def test_steps_of_a_process_that_was_killed() -> None:
    """Calls of step() are events; where there are none, nothing is claimed about steps."""
    facts = facts_of(steps="9")
    counts: dict[int, int] = {EventKind.STEP: 3}
    assert summary_limits(Recorded(counts, facts)) == ("steps 1 to 3 ended, --steps=9 did not happen",)
    assert summary_limits(Recorded({}, facts)) == ()


def test_collection_that_never_began() -> None:
    """And one that did, for a part of the run."""
    facts = facts_of()
    facts["setting.collect_mode"] = ("deferred",)
    reason = "collection waited for msmemscope.start(), which was never called"
    assert summary_limits(Recorded({EventKind.SNAPSHOT: 1}, facts)) == (reason,)
    assert recorded_coverage(LEAKS, Recorded({}, facts)).missing == (reason,)
    (limit,) = summary_limits(Recorded({**EVERYTHING, EventKind.START_TRACE: 1}, facts))
    assert limit.startswith("collection was on for a part of the run only")


def test_devices_that_were_left_out() -> None:
    """They limit an answer, and are the reason where there is none."""
    facts = {**facts_of(device="npu:3"), "unobserved_device": ("npu:1", "npu:0", "npu:1")}
    reason = "npu:0, npu:1 were used, which --device=npu:3 leaves out"
    assert recorded_coverage(PEAK, Recorded(EVERYTHING, facts)).limits[0] == reason
    missing = recorded_coverage(PEAK, Recorded({}, facts)).missing
    assert missing == (reason, "no allocations were recorded")


def test_sources_that_could_not_be_observed() -> None:
    """Only where the question needs them, and the device was asked for."""
    facts = {**facts_of(), "unobserved.torch_operators": ("torch 1.9 is older than 2.3",), "unobserved.hal": ("x",)}
    line = "torch_operators was not observed: torch 1.9 is older than 2.3"
    assert line in recorded_coverage(OPERATORS, Recorded(EVERYTHING, facts)).limits
    assert recorded_coverage(FAILURES, Recorded(EVERYTHING, facts)).limits == ()
    assert recorded_coverage(OPERATORS, Recorded(without(EventKind.ATEN_START), facts)).missing[0] == line


def test_events_that_were_chosen_for_a_part_of_the_run() -> None:
    """A program can call config() again."""
    facts = facts_of()
    facts["setting.events"] = ("launch", "alloc,free,launch")
    (limit,) = recorded_coverage(PEAK, Recorded(EVERYTHING, facts)).limits
    assert limit == "allocations were recorded for a part of the run only: the program changed --events"


def test_call_stacks() -> None:
    """Answers that name call sites say that they cannot."""
    facts = facts_of(call_stack="")
    line = "call stacks were not recorded (--call-stack=python records them)"
    assert recorded_coverage(LEAKS, Recorded(EVERYTHING, facts, has_stacks=False)).limits == (line,)
    # They were asked for: a program without Python has none.
    assert recorded_coverage(LEAKS, Recorded(EVERYTHING, facts_of(), has_stacks=False)).limits == ()
    dump = recorded_coverage(LEAKS, Recorded({**EVERYTHING, EventKind.STEP: 8}, {}, "csv", has_stacks=False))
    assert dump.limits == ("this dump has no call stacks (--call-stack=python records them)",)


def test_steps_that_a_dump_cannot_have() -> None:
    """An event log without steps is of a program without any; of a dump nobody knows."""
    assert recorded_coverage(LEAKS, Recorded(EVERYTHING, {}, "csv")).limits == (NO_STEPS,)
    assert recorded_coverage(LEAKS, Recorded({**EVERYTHING, EventKind.RANGE_START: 8}, {}, "db")).limits == ()
    assert recorded_coverage(LEAKS, Recorded(EVERYTHING, facts_of())).limits == ()


def test_both_sides_of_a_comparison() -> None:
    """One that lacks something is enough for there to be no comparison."""
    whole, half = Coverage(OPERATORS.title), Coverage(OPERATORS.title, limits=("a",))
    assert comparison_coverage({"base": whole, "compare": half}).limits == ("compare: a",)
    none = Coverage(OPERATORS.title, missing=("b",))
    assert comparison_coverage({"base": none, "compare": half}) == Coverage(COMPARISON, missing=("base: b",))


def test_the_report() -> None:
    """Why there is no answer, under what was asked; what one leaves out, line by line."""
    out = io.StringIO()
    render_missing(Coverage(LEAKS.title, missing=("this is why",)), out)
    render_limits(Coverage(LEAKS.title, limits=("this", "that")), out)
    assert out.getvalue() == "Leaks: not known\n  this is why\n  Not seen: this\n  Not seen: that\n"


@given(
    kinds=st.sets(st.sampled_from(list(EventKind))),
    events=st.sets(st.sampled_from(["alloc", "launch", "access", "traceback"])),
    steps=st.sampled_from(["", "1", "9"]),
    form=st.sampled_from(["event log", "csv", "torch snapshot"]),
)
def test_without_allocations_there_is_never_an_answer(
    kinds: set[EventKind], events: set[str], steps: str, form: str
) -> None:
    """Whatever else was recorded, and however it was asked for; and there is always a reason to read."""
    facts = facts_of(events=",".join(events), steps=steps) if form == "event log" else {}
    recorded = Recorded(dict.fromkeys(kinds - {EventKind.MALLOC}, 1), facts, form)
    for subject in NEEDS_MEMORY:
        coverage = recorded_coverage(subject, recorded)
        assert coverage.missing
        assert all(line and "\n" not in line for line in coverage.missing)

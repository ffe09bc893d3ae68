"""Nothing is said not to be there that was not looked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from msmemscope.analysis.judged import (
    NotJudged,
    devices_not_observed,
    failures_not_judged,
    leaks_not_judged,
    together,
)
from msmemscope.analysis.leaks.net_growth import rules_out_growth
from msmemscope.analysis.leaks.overview import find_leaks, subject_of
from msmemscope.analysis.recorded import Recorded
from msmemscope.model.events import EventKind
from tests.fakes.traces import Trace

if TYPE_CHECKING:
    from msmemscope.recording import Recording

KIBIBYTE = 1 << 10
TOO_LATE = "torch_npu had set up its memory pool before msmemscope was there"


def run(steps: int, *, keeps: int = 0, in_step: int = 4) -> Recording:
    """A run of some steps that each allocate and free blocks, and keep some bytes."""
    trace = Trace()
    weights = trace.malloc(1 << 20)
    for _ in range(steps):
        for _ in range(in_step):
            trace.free(trace.malloc(256 * KIBIBYTE))
        if keeps:
            trace.malloc(keeps)
        trace.step()
    trace.free(weights)
    return trace.recording()


def said(recording: Recording) -> list[str]:
    """The leaks of the recording that are not judged."""
    return [one.sentence for one in leaks_not_judged(find_leaks(recording))]


@pytest.mark.parametrize(
    ("steps", "keeps", "expected"),
    [
        (0, 0, "leaks not judged: no steps were seen (call msmemscope.step() after each)"),
        (2, 128 * KIBIBYTE, "leaks not judged: 2 steps have ended, at least 3 are needed"),
        (6, 128 * KIBIBYTE, "growth not judged: 6 steps have ended, at least 16 are needed"),
    ],
)
def test_too_few_steps(steps: int, keeps: int, expected: str) -> None:
    """Each reason has its sentence, with what to do where something can be done."""
    assert said(run(steps, keeps=keeps)) == [expected]


def test_what_a_thread_has_in_hand_at_one_end_is_no_growth() -> None:
    """Of a run whose last step ended while another thread had a buffer; what stays is growth, however short the run."""
    for in_hand, stays, is_ruled_out in ((1, 0, True), (0, 1, False)):
        trace = Trace()
        trace.malloc(1 << 20)
        for step in range(8):
            if step == 7 and in_hand:
                trace.malloc(256 * KIBIBYTE)
            if stays:
                trace.malloc(128 * KIBIBYTE)
            trace.free(trace.malloc(64 * KIBIBYTE))
            trace.step()
        assert rules_out_growth(trace.recording()) is is_ruled_out


@pytest.mark.parametrize("steps", [3, 6, 20])
def test_what_holds_no_more_at_its_end_has_not_grown(steps: int) -> None:
    """So that a healthy run of few steps has a first line without a but."""
    recording = run(steps)
    assert rules_out_growth(recording)
    assert said(recording) == []


def test_small_numbers_that_a_history_keeps_are_no_growth() -> None:
    """As they are no leak that is worth a verdict; a block of 128 KiB a step is."""
    assert rules_out_growth(run(6, keeps=8))
    assert not rules_out_growth(run(6, keeps=128 * KIBIBYTE))


@pytest.mark.parametrize("keeps", [0, 128 * KIBIBYTE])
def test_without_steps_the_quarters_of_a_run_are_compared(keeps: int) -> None:
    """A block that is freed when the program ends counts as held until then.

    An example is a list of the main function.
    """
    trace = Trace()
    kept = []
    for _ in range(40):
        trace.free(trace.malloc(256 * KIBIBYTE))
        if keeps:
            kept.append(trace.malloc(keeps))
    for block in kept:
        trace.free(block)
    assert rules_out_growth(trace.recording()) == (keeps == 0)


def recorded(**facts: str) -> Recorded:
    """The facts of a log without events."""
    return Recorded({}, {key.replace("__", "."): (text,) for key, text in facts.items()})


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"setting__devices": "cpu", "unobserved_device": "npu:1"}, "npu:1 not observed: --device=cpu leaves it out"),
        (
            {"setting__devices": "npu"},
            "npu not observed: the program loaded no library of CANN (--device=cpu observes CPU tensors)",
        ),
        (
            {"setting__devices": "xpu:1"},
            "xpu:1 not observed: allocations are not recorded while a program runs, snapshots and failed allocations are",
        ),
        (
            {"setting__devices": "npu", "observed.hal": "libascendcl.so", "unobserved.pta": "too late"},
            f"npu not observed: {TOO_LATE} (import msmemscope before the first NPU tensor)",
        ),
    ],
)
def test_devices_that_were_not_observed(facts: dict[str, str], expected: str) -> None:
    """Those that the program used, and those that were asked for."""
    assert [one.sentence for one in devices_not_observed(recorded(**facts))] == [expected]


def test_a_pool_that_was_seen_after_all_is_observed() -> None:
    """torch_npu may be initialised before, and have no block yet."""
    facts = {"setting__devices": "npu", "observed.hal": "", "unobserved.pta": "", "observed.ptaCaching": ""}
    assert devices_not_observed(recorded(**facts)) == ()


def test_failed_allocations_are_recorded_where_allocations_are() -> None:
    """Otherwise that there is none means nothing."""
    (one,) = failures_not_judged(recorded(setting__events="launch", setting__level="op"))
    assert one.sentence == "failed allocations not judged: allocations were not recorded (--events=alloc records them)"
    assert failures_not_judged(recorded(setting__events="alloc,free")) == ()
    (one,) = failures_not_judged(recorded(setting__events="alloc,free", setting__steps="3,4"))
    assert one.sentence == "failed allocations not judged: with --steps only some of the steps were collected"


def test_one_reason_is_said_once() -> None:
    """For all that it concerns."""
    some = (
        NotJudged("leaks", "--events= selects nothing"),
        NotJudged("failed allocations", "--events= selects nothing"),
    )
    assert [one.sentence for one in together(some)] == [
        "leaks and failed allocations not judged: --events= selects nothing"
    ]


@pytest.mark.parametrize(
    ("counts", "facts", "is_of_host"),
    [
        ({EventKind.HOST_SAMPLE: 12}, {"observed.torch_cpu": ("libc10",), "setting.devices": ("cuda,cpu",)}, True),
        ({EventKind.HOST_SAMPLE: 12}, {"observed.torch_cpu": ("libc10",), "setting.devices": ("npu",)}, False),
        ({EventKind.HOST_SAMPLE: 11}, {"observed.torch_cpu": ("libc10",), "setting.devices": ("cpu",)}, False),
        ({EventKind.HOST_SAMPLE: 12}, {"observed.hal": ("libascend_hal",)}, False),
        ({EventKind.HOST_SAMPLE: 12, EventKind.MALLOC: 1}, {}, False),
        ({EventKind.HOST_MEMORY: 1}, {}, True),
        ({}, {}, False),
    ],
)
def test_a_process_without_tensors_is_judged_by_its_host_memory(
    counts: dict[int, int],
    facts: dict[str, tuple[str, ...]],
    is_of_host: bool,  # noqa: FBT001
) -> None:
    """Also one that is forked from a process with torch, if enough of its own memory was sampled."""
    assert (subject_of(Recorded(counts, facts)).title == "Growth of host memory") is is_of_host

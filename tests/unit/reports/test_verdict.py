"""Findings as sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from msmemscope.launch.html_report import report_parts
from msmemscope.model.events import OOM_SNAPSHOT_NAME, EventKind
from msmemscope.model.holders import HELD_BY_C
from msmemscope.model.pools import Pool
from msmemscope.reports.run_verdicts import verdicts
from msmemscope.reports.verdict import Verdict, VerdictKind
from tests.fakes.traces import Trace

if TYPE_CHECKING:
    from msmemscope.reports.run_summary import ProcessSummary

STEP = "/app/train.py(41): step"
KEPT = "/app/train.py(50): main"


def sentence(*bytes_by_site: tuple[str, int]) -> str:
    """A leak at some call sites, the worst first."""
    size = sum(size for _, size in bytes_by_site)
    leak = Verdict(
        VerdictKind.LEAK, 0, Pool.PTA, size, bytes_by_site[0][0], "in step 3", (), bytes_by_site=bytes_by_site
    )
    return leak.sentence(names_process=False)


def test_lines_of_a_library_are_those_of_the_line_that_called_it() -> None:
    """The line of the program with the most bytes comes first, and behind it the library's line that made most of them."""
    in_library = ((f"{STEP}, in lib/a.py(3): f", 4 << 20), (f"{STEP}, in lib/b.py(4): g", 1 << 20))
    behind = f"{STEP}, in lib/a.py(3): f"
    assert sentence(*in_library) == f"leak: 5.00 MiB on npu:0 at {behind}, in step 3"
    halves = ((f"{STEP}, in lib/a.py(3): f", 3 << 20), (f"{STEP}, in lib/b.py(4): g", 2 << 20))
    assert sentence(*halves) == f"leak: 5.00 MiB on npu:0 at {STEP}, in step 3"
    kept = (KEPT, 4 << 20)
    assert sentence(kept, *in_library) == f"leak: 9.00 MiB on npu:0 at {behind} (5.00 MiB) and 1 more line, in step 3"
    assert sentence(kept, halves[0]) == f"leak: 7.00 MiB on npu:0 at {KEPT} (4.00 MiB) and 1 more line, in step 3"


def leaking(*holders: str) -> Trace:
    """20 steps that each keep a block of 8 MiB per holder, on lines of their own.

    Args:
        holders: Chains of references, with `{}` for the step.
    """
    trace = Trace()
    for step in range(20):
        for line, holder in enumerate(holders):
            trace.holder(trace.malloc(8 << 20, f"/app/train.py({line}): step"), holder.format(step))
        trace.free(trace.malloc(1 << 20, STEP))
        trace.step()
    return trace


def judged(trace: Trace) -> ProcessSummary:
    """The summary with the findings of the trace."""
    (part,) = report_parts([trace.recording()], process_count=1)
    return part.summary


@pytest.mark.parametrize(
    ("holders", "expected"),
    [
        ((HELD_BY_C, "DDP.weights[0]", "DDP.weights[1]"), "DDP.weights[0]"),
        ((HELD_BY_C, "DDP.weights[0]"), "DDP.weights[0]"),
        ((HELD_BY_C, HELD_BY_C, "DDP.weights[0]"), HELD_BY_C),
        ((HELD_BY_C,), HELD_BY_C),
    ],
)
def test_a_variable_says_more_than_that_there_is_none(holders: tuple[str, ...], expected: str) -> None:
    """Of the lines of one leak: unless what no variable leads to is most of it."""
    (leak,) = verdicts([judged(leaking(*holders))])
    assert leak.held_by == expected


@pytest.mark.parametrize(
    ("holders", "others"),
    [
        pytest.param(["main.results[{}]"], [], id="its line"),
        pytest.param(["main.results[{}]['loss']", "main.results[{}]['entropy']"], [], id="another line of its holder"),
        pytest.param(
            ["main.results[{}]", "main.results[{}]", "other.seen[{}]"], ["/app/train.py(2): step"], id="another holder"
        ),
    ],
)
def test_a_leak_that_is_the_cause_of_a_failure_is_not_said_again(holders: list[str], others: list[str]) -> None:
    """Neither its line nor what its holder keeps; what leaks is counted all the same."""
    trace, total = leaking(*holders), 1 << 30
    trace.add(EventKind.DEVICE_USAGE, size=total, extra=(1 << 64) - 1)
    text = f"reserved:1,allocated:1,total:{total},free:0,device_rate:4.000000"
    trace.add(EventKind.SNAPSHOT, name_id=trace.text(OOM_SNAPSHOT_NAME), attribute_id=trace.text(text))
    trace.add(EventKind.OOM, size=16 << 20, name_id=trace.text("halMemAlloc"))
    process = judged(trace)
    failure, *leaks = verdicts([process])
    assert ": leak, " in failure.known_sentence
    assert [leak.site for leak in leaks] == others
    assert process.leaked_bytes >= len(holders) * 17 * (8 << 20)


def test_a_line_that_is_reached_in_two_ways_grows_by_both() -> None:
    """One line of the program, called from two others: its bytes and its growth are those of both."""
    trace = Trace()
    for step in range(20):
        for line in (1, 2):
            block = trace.malloc(8 << 20, f"/app/record.py(9): record\n/app/train.py({line}): step")
            trace.holder(block, f"main.recorder.kept['{line}'][{step}]")
        trace.step()
    (found,) = verdicts([judged(trace)])
    assert "at /app/record.py(9): record, 16.0 MiB per step" in found.sentence(names_process=False)
    assert found.held_by.startswith("main.recorder.kept[...][")


@pytest.mark.parametrize("kept_per_validation", [60, 1])
def test_outputs_of_each_validation_are_one_leak(kept_per_validation: int) -> None:
    """They count once, though a step with a validation is long; those of a validation behind the last step count too."""
    trace = Trace()
    count = 0
    for step in range(160):
        if step % 20 == 0 and step:
            count += kept_per_validation
            validate(trace, kept_per_validation)
        trace.free(trace.malloc(1 << 20, STEP))
        trace.step()
    validate(trace, 60)
    found = verdicts([judged(trace)])
    assert [(one.kind, one.size_bytes) for one in found] == [(VerdictKind.LEAK, (count + 60) << 18)]


def validate(trace: Trace, count: int) -> None:
    """Keep the outputs of so many batches."""
    for number in range(count):
        trace.free(trace.malloc(300, STEP))
        trace.holder(trace.malloc(1 << 18, KEPT), f"Classifier.outputs[{number}], from main.module")


def test_a_cycle_that_is_found_as_the_process_ends_is_no_cause() -> None:
    """A variable held the first blocks while steps ran. Cycles that are found then stay what they are."""

    def held_by(last: str, *, before: str = "") -> str:
        trace = Trace()
        blocks = []
        for step in range(20):
            blocks.append(trace.malloc(8 << 20, "/app/train.py(1): step"))
            trace.step()
            if before and step == 9:
                trace.holder(blocks[3], before)
        for block in blocks[4:]:
            trace.holder(block, last)
        (found,) = verdicts([judged(trace)])
        return found.held_by

    cycle = "Recorder.kept[7], in a reference cycle through Recorder.model, from Model.hooks"
    assert held_by(cycle) == cycle
    assert held_by(cycle, before="Recorder.kept[3], from main.recorder") == "Recorder.kept[7], from main.recorder"
    assert held_by(cycle, before="Other.kept[3], from main.other") == cycle

"""Programs that run out of memory for a known reason, on the virtual NPU: cause, line and remedy that are named."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

import pytest

from msmemscope.analysis.peak.explanation import explain_peak
from msmemscope.analysis.peak.out_of_memory import analyze_out_of_memory
from msmemscope.formats.event_log import Capture
from msmemscope.formats.reading import load
from msmemscope.launch.captures import failures_of
from tests.oom_zoo import catalogue
from tests.oom_zoo.measure import measure, outcomes_of, precision_and_recall
from tests.support.nightly import NIGHT, nightly

if TYPE_CHECKING:
    from pathlib import Path

EXPANDABLE = {"PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True"}


@pytest.fixture(autouse=True)
def _has_compiler(vnpu_environment: dict[str, str]) -> None:
    assert vnpu_environment
    if shutil.which("gcc") is None:
        pytest.skip("no gcc on PATH")


def test_every_cause_is_planted() -> None:
    """Fourteen; some of them run by day."""
    programs = catalogue.programs()
    assert len({one.cause for one in programs}) == 14
    assert set(catalogue.BY_DAY) < {one.identity for one in programs}


@nightly
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_precision_and_recall(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both are 1 for each cause, with its line and its remedy."""
    programs = [one for one in catalogue.programs() if NIGHT or one.identity in catalogue.BY_DAY]
    rows = measure(tmp_path, programs)
    with capsys.disabled():
        sys.stdout.write(f"\nout-of-memory zoo: {sum(row.right for row in rows)} of {len(rows)} right\n")
    assert [row for row in rows if not row.right] == []
    assert set(precision_and_recall(rows).values()) == {(1.0, 1.0)}
    # Whoever asks, the answer is the same.
    for directory in sorted((tmp_path / "out").glob("msmemscope_*_ascend*"))[-2:]:
        in_summary = failures_of(Capture(directory))
        recording = load(directory)
        assert in_summary is not None
        assert in_summary.failures[-1].cause == analyze_out_of_memory(recording).failures[-1].cause
        explained = [device.cause for device in explain_peak(recording).devices if device.cause is not None]
        assert in_summary.failures[-1].cause in explained


@pytest.mark.slow
def test_programs_without_marked_steps(tmp_path: Path) -> None:
    """As their users write them: cause, line and remedy. Small gaps, which any full device has, are no cause."""
    by_day = {
        "reported.outputs_of_last_step", "reported.copied_for_averages", "reported.first_forward",
        "reported.model_left_in_evaluation", "reported.larger_batch_in_validation", "reported.keys_joined_by_token",
        "reported.second_model", "reported.results_of_folds", "reported.backbone_unfrozen", "reported.one_long_document",
        "reported.queue_that_a_thread_fills", "reported.search_for_a_batch_size", "reported.more_micro_batches",
    }  # fmt: skip
    programs = [one for one in catalogue.programs(catalogue.REPORTED_FAMILIES) if NIGHT or one.identity in by_day]
    rows = measure(tmp_path, programs)
    assert [row for row in rows if not row.right] == []
    # The need is estimated from a request of other length: two matrices of scores, and little beside them.
    scores = 4 * 6000**2 * 4
    (need,) = (row.need_bytes for row in rows if row.program == "reported.one_long_document")
    assert 2 * scores < need < 2.1 * scores
    # A thread has filled the queue while the step ran: 32 batches, of which the first step had left 3.
    (said,) = (row.sentence for row in rows if row.program == "reported.queue_that_a_thread_fills")
    assert "leak, 580 MiB in 29 blocks" in said


@pytest.mark.skipif(not NIGHT, reason="at night: the truth of the zoo itself")
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_expandable_segments_decide_what_is_fragmentation(tmp_path: Path) -> None:
    """Programs whose gaps are to blame finish with them, the others do not; without them all run out of memory."""
    programs = catalogue.programs()
    assert set(outcomes_of(tmp_path, programs, {}).values()) == {"exhausted"}
    reported = outcomes_of(tmp_path, programs, EXPANDABLE)
    expected = {
        one.identity: "finished" if one.cause in catalogue.CLOSING_GAPS_HELPS else "exhausted" for one in programs
    }
    assert reported == expected

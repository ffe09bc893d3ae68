"""Changes by kernels and differences between steps agree with torch's own counter before and after each operator."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from msmemscope.analysis.compare.comparison import compare
from msmemscope.analysis.operators.memory_changes import find_memory_changes
from msmemscope.configuration import Level
from msmemscope.formats.reading import load
from msmemscope.reports.comparison_report import largest_differences
from tests.support.nightly import nightly

if TYPE_CHECKING:
    from tests.ascend.conftest import Observe

pytestmark = [pytest.mark.torch, pytest.mark.slow]

LAST = "ReduceSum"
"""The end of the step frees everything, and that belongs to the kernel before."""


@pytest.mark.parametrize("level", [pytest.param("kernel", marks=nightly), "op,kernel"])
def test_outputs_belong_to_the_kernels_that_they_are_allocated_for(observe: Observe, level: str) -> None:
    """By kernel as by torch's counter; the differences of two steps sum to those of the totals and of the peaks."""
    seen = observe(
        ["--device=npu", f"--level={level}", "--analysis="], "planted_outputs.py", variables={"TASK_QUEUE_ENABLE": "0"}
    )
    assert "TASK_QUEUE_ENABLE" not in seen.run.stderr
    recording = load(seen.run.capture.directory)
    truth = [tuple(change) for step in json.loads(seen.run.report["steps"]) for change in step]
    changes = find_memory_changes(recording, {Level.KERNEL}).rows
    wanted = {name for name, _ in truth}
    found = [
        (name, net)
        for kernel, net in changes.select("name", "net_bytes").iter_rows()
        if (name := kernel.partition("_")[0]) in wanted
    ]
    assert [one for one in found if one[0] != LAST] == [one for one in truth if one[0] != LAST]
    assert [name for name, _ in found] == [name for name, _ in truth]

    same = compare(recording, recording, {Level.KERNEL}, base_step=2, other_step=2)
    assert same.rows["difference_bytes"].to_list() == [0] * same.rows.height
    larger = compare(recording, recording, {Level.KERNEL}, base_step=2, other_step=3)
    assert larger.remarks == ()
    (peak,) = larger.peaks
    assert peak.difference_bytes > 0
    assert larger.peak_parts["difference_bytes"].sum() == peak.difference_bytes
    # Each step frees all that it allocated: nothing is left, and nothing outside of the steps counts.
    assert largest_differences(larger)["difference_bytes"].sum() == 0


def test_a_queue_of_launches_is_named(observe: Observe) -> None:
    """When recording and when comparing, with the variable that turns it off."""
    seen = observe(
        ["--device=npu", "--level=kernel", "--analysis="], "planted_outputs.py", variables={"TASK_QUEUE_ENABLE": "1"}
    )
    assert seen.run.stderr.count("TASK_QUEUE_ENABLE=0") == 1
    recording = load(seen.run.capture.directory)
    remarks = compare(recording, recording, {Level.KERNEL}, base_step=2, other_step=3).remarks
    assert len(remarks) == 2
    assert all("TASK_QUEUE_ENABLE=0" in line for line in remarks)

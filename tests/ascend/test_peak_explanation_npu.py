"""Programs that run out of memory for different reasons: the real allocator's behaviour, and the cause that is named."""

from __future__ import annotations

import io
import pickle
import re
from typing import TYPE_CHECKING

import pytest

from msmemscope.analysis.peak.cause import OutOfMemoryCause
from msmemscope.analysis.peak.cause_words import Cause
from msmemscope.analysis.peak.explanation import DevicePeak, Moment, PeakExplanation, explain_peak
from msmemscope.formats.reading import load
from msmemscope.reports.peak_report import render_peak
from tests.support.ascend import PROGRAMS
from tests.support.nightly import nightly

if TYPE_CHECKING:
    from pathlib import Path

    from tests.ascend.conftest import CompileC, Observe
    from tests.support.ascend import Observation

PROGRAM = "fragmentation_shortages.py"
SMALL = {"VNPU_MEMORY": "1GiB", "VNPU_DEVICES": "1"}
EXPANDABLE = {"PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True"}
OPTIONS = ["--device=npu", "--analysis=oom:1"]
MEBIBYTE = 1 << 20


def explained(seen: Observation) -> PeakExplanation:
    """The explanation of the run's peak."""
    return explain_peak(load(seen.run.capture.directory))


def failure_of(found: PeakExplanation) -> tuple[DevicePeak, OutOfMemoryCause]:
    """The failure on the only device, and its cause."""
    (device,) = found.devices
    assert device.moment is Moment.OUT_OF_MEMORY
    assert device.cause is not None
    assert device.cause.missing == ()
    return device, device.cause


def line_of(text: str) -> int:
    """A line of the program, from 1."""
    lines = (PROGRAMS / PROGRAM).read_text().splitlines()
    (number,) = [index for index, line in enumerate(lines, start=1) if text in line]
    return number


def test_fragmentation(observe_once: Observe) -> None:
    """Half of three segments is free in holes of one block each: enough for what is asked, and of no use."""
    seen = observe_once(OPTIONS, PROGRAM, "fragmentation", variables=SMALL)
    found = explained(seen)
    device, cause = failure_of(found)
    assert cause.cause is Cause.SPLIT
    assert cause.sentence == (
        "Fragmentation: 306 MiB of the 606 MiB that the pool held were free, enough for the 252 MiB asked for, but the "
        "largest gap was 22.0 MiB."
    )
    report = seen.run.report
    assert device.in_use_bytes == int(report["allocated"])
    assert device.fragmentation is not None
    total = device.fragmentation.totals.row(0, named=True)
    assert total["segment_bytes"] == int(report["reserved"])
    assert total["in_use_bytes"] == int(report["allocated"])
    assert total["free_bytes"] == total["segment_bytes"] - total["in_use_bytes"]
    assert (total["unplaced_bytes"], total["returnable_bytes"]) == (0, 0)
    assert device.fragmentation.unusable_bytes(252 * MEBIBYTE) == total["free_bytes"]
    pinned = device.fragmentation.pinned()
    assert pinned["block_count"].to_list() == [5, 5, 5]
    made = f"{PROGRAM}({line_of('return torch.empty')}): made"
    assert all(site.endswith(made) for site in pinned["pin_site"])
    assert device.operator is not None
    assert "empty" in device.operator
    assert device.site is not None
    assert device.site.endswith(f"{PROGRAM}({line_of('        torch.empty(mebibytes')}): wanted")
    text = io.StringIO()
    render_peak(found, text, width=120)
    assert "Out of memory on npu:0: 252 MiB asked for, 300 MiB in 15 blocks in use" in text.getvalue()


def test_fragmentation_from_a_dump(observe_once: Observe) -> None:
    """A CSV dump has the same facts."""
    seen = observe_once(OPTIONS, PROGRAM, "fragmentation", variables=SMALL)
    (dump,) = seen.run.output.glob("msmemscope_*_ascend*/device_0/dump/memscope_dump_*.csv")
    _, cause = failure_of(explain_peak(load(dump)))
    assert cause.cause is Cause.SPLIT
    assert cause.sentence == failure_of(explained(seen))[1].sentence


@nightly
def test_fragmentation_of_expandable_segments(observe: Observe) -> None:
    """Pieces of physical memory are pinned one by one; where they are mapped is not known, and the coverage says so."""
    found = explained(observe(OPTIONS, PROGRAM, "fragmentation", variables=SMALL | EXPANDABLE))
    _, cause = failure_of(found)
    assert cause.cause is Cause.SPLIT
    assert "300 MiB of the 600 MiB that the pool held were free" in cause.sentence
    assert "Segments are expandable already" in cause.advice
    assert any("lie in no known block of the driver" in line for line in found.coverage.limits)


@pytest.mark.parametrize(
    "variables", [pytest.param({}, id="plain"), pytest.param(EXPANDABLE, id="expandable", marks=nightly)]
)
def test_real_shortage(observe: Observe, variables: dict[str, str]) -> None:
    """Tensors, the driver's own memory and what is asked for are more than the device has."""
    _, cause = failure_of(explained(observe(OPTIONS, PROGRAM, "shortage", variables=SMALL | variables)))
    assert cause.cause is Cause.REAL_SHORTAGE
    assert cause.sentence.startswith("Real shortage: 600 MiB in use by the pools, 224 MiB beside them, and ")
    if not variables:
        assert cause.sentence.endswith("the 402 MiB asked for exceed the 1.00 GiB of the device by 202 MiB.")


def test_growth_outside_the_framework(observe: Observe) -> None:
    """The program takes memory from the runtime by itself: the sentence names the line."""
    _, cause = failure_of(explained(observe(OPTIONS, PROGRAM, "outside", variables=SMALL)))
    assert cause.cause is Cause.OUTSIDE_FRAMEWORK
    place = f"{PROGRAM}({line_of('runtime.aclrtMallocAlign32')}): driver_memory"
    assert "450 MiB of the driver's memory were no pool's, mostly CANN@APP at " in cause.sentence
    assert place in cause.sentence
    assert cause.sentence.endswith(", and 52.0 MiB were missing for the 302 MiB asked for.")


def test_another_process(observe: Observe, compile_c: CompileC) -> None:
    """The management interface tells of 500 MiB of a second process, and the device gives out only the rest."""
    library = compile_c("fragmentation_other_process.c", "dl", flags=("-shared", "-fPIC", "-Wl,-soname,libdcmi.so"))
    other = {"OTHER_PROCESS_MIB": "500", "VNPU_FAULTS": "memory-limit:524MiB", "LD_PRELOAD": str(library)}
    _, cause = failure_of(explained(observe(OPTIONS, PROGRAM, "other", variables=SMALL | other)))
    assert cause.cause is Cause.OTHER_PROCESS
    assert cause.sentence == (
        "Another process: 500 MiB of the 1.00 GiB of the device were not this process's, and 102 MiB were missing for the "
        "302 MiB asked for."
    )


@nightly
def test_refused_without_a_reason(observe: Observe) -> None:
    """The device gives out less than it says it has: nobody can know why."""
    limited = {"VNPU_FAULTS": "memory-limit:524MiB"}
    _, cause = failure_of(explained(observe(OPTIONS, PROGRAM, "other", variables=SMALL | limited)))
    assert cause.cause is Cause.UNKNOWN
    assert "698 MiB of the device were reported free" in cause.sentence


@nightly
def test_a_configured_limit(observe: Observe) -> None:
    """torch_npu refuses by itself."""
    _, cause = failure_of(explained(observe(OPTIONS, PROGRAM, "limit", variables=SMALL)))
    assert cause.cause is Cause.LIMIT
    assert re.search(r"the pool held 102 MiB, and torch itself refused the 302 MiB asked for", cause.sentence)


def test_a_snapshot_of_torch(observe: Observe, output: Path) -> None:
    """Segments that are expandable are one segment of many pieces there, and their gaps are known."""
    output.mkdir(exist_ok=True)
    path = output / "snapshot.pickle"
    observe(["--device=npu"], PROGRAM, "snapshot", str(path), variables=SMALL | EXPANDABLE)
    (device,) = explain_peak(load(path)).devices
    assert device.cause is not None
    assert device.cause.cause is Cause.SPLIT
    # The piece of the driver's memory that torch gave back before it failed is no part of the last gap any more.
    snapshot = pickle.loads(path.read_bytes())  # noqa: S301 - made by this test
    blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
    largest = max(block["size"] for block in blocks if block["state"] == "inactive")
    gap = f"{largest / (1 << 20):.1f} MiB"
    assert f"enough for the 250 MiB asked for, but the largest gap was {gap}" in device.cause.sentence
    assert device.fragmentation is not None
    (pieces,) = device.fragmentation.segments["driver_blocks"]
    assert pieces > 1
    assert device.fragmentation.coverage == ()

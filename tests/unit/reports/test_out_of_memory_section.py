"""The exit summary says first where memory ran out."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

from msmemscope.analysis.peak.out_of_memory import AliveBlock, AlivePool, OutOfMemory, OutOfMemoryResult
from msmemscope.analysis.peak.overview import MemoryOverview
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.pools import Pool
from msmemscope.recording.block_sets import BlockSet, Ranking, Share
from msmemscope.reports.process_report import render_process
from msmemscope.reports.run_summary import ProcessSummary, RunSummary
from msmemscope.reports.terminal import render_run

START_NS = 5_000_000_000
MIB = 1 << 20
FAILURE = OutOfMemory(
    sequence=9,
    timestamp_ns=START_NS + 1_500_000_000,
    device=1,
    thread_id=7,
    function="halMemAlloc",
    size_bytes=2048 * MIB,
    attempts=2,
    was_given_up=True,
    source_line="train.py(7): step",
    state={"reserved": 200 * MIB, "allocated": 100 * MIB, "total": 1024 * MIB, "free": 300 * MIB},
    alive=(
        AlivePool(
            Pool.PTA,
            BlockSet(
                100 * MIB,
                1,
                Ranking((Share("aten.empty", 100 * MIB, 1),), None),
                Ranking((Share("model.py(3): build", 100 * MIB, 1),), None),
            ),
        ),
    ),
    largest=(AliveBlock(Pool.PTA, 4096, 100 * MIB, START_NS, "aten.empty", "model.py(3): build"),),
    most_recent=(),
)


def rendered(*results: OutOfMemoryResult | None) -> str:
    """Render the summary of processes 1, 2 and so on."""
    processes = [
        ProcessSummary(
            process_id=number,
            program="train.py",
            directory=Path(f"/out/p{number}"),
            overview=MemoryOverview(0, {}, (), (), out_of_memory=result),
            start_ns=START_NS,
        )
        for number, result in enumerate(results, start=1)
    ]
    out = io.StringIO()
    render_run(RunSummary(tuple(processes)), out, width=120)
    return out.getvalue()


def test_the_last_failure_in_detail() -> None:
    """The section says what was asked for, by whom, how full it was, and what was alive.

    It says how many failed before.
    """
    earlier = dataclasses.replace(FAILURE, size_bytes=MIB, timestamp_ns=START_NS)
    text = rendered(OutOfMemoryResult(7, (earlier, FAILURE)))
    for line in (
        "msmemscope: out of memory: on npu:1 at train.py(7): step, 2.00 GiB asked for, 1.50 s after recording began\n",
        "next: msmemscope analyze oom /out/p1\n",
        "  halMemAlloc failed 2 times, called from train.py(7): step\n",
        "  300 MiB of 1.00 GiB were free; 200 MiB reserved by the framework, 100 MiB of it allocated\n",
        "  alive then: 100 MiB in 1 block (PTA)\n",
        "  largest blocks",
        "and 6 before in report.txt\n",
    ):
        assert line in text, f"{line!r} is not in\n{text}"


def test_tensors_of_the_host_are_no_part_of_what_a_framework_reserved() -> None:
    """The figures are about memory of the process. Tensors that nobody has touched are no part of it."""
    text = rendered(OutOfMemoryResult(1, (dataclasses.replace(FAILURE, device=DEVICE_CPU),)))
    assert "  300 MiB of 1.00 GiB were free\n" in text
    assert "reserved" not in text


def test_the_report_has_those_before() -> None:
    """Each has a line, the rest a count."""
    earlier = dataclasses.replace(FAILURE, size_bytes=MIB, timestamp_ns=START_NS)
    overview = MemoryOverview(0, {}, (), (), out_of_memory=OutOfMemoryResult(7, (earlier, FAILURE)))
    out = io.StringIO()
    render_process(ProcessSummary(1, "train.py", Path("/out/p1"), overview=overview, start_ns=START_NS), out, width=120)
    for line in (
        "Out of memory on npu:1: 2.00 GiB asked for, 1.50 s after recording began\n",
        "  before: 5 more\n",
        "  before: Out of memory on npu:1: 1.00 MiB asked for, 0.00 s after recording began, at train.py(7): step\n",
    ):
        assert line in out.getvalue(), f"{line!r} is not in\n{out.getvalue()}"


def test_nothing_failed() -> None:
    """Then nothing is said of it, but that it was looked for."""
    text = rendered(None)
    assert "ut of memory" not in text
    assert "no failed allocation" in text


def test_many_processes_that_fail_at_one_line_are_one_verdict() -> None:
    """It names them as far as there is room."""
    text = rendered(None, *([OutOfMemoryResult(1, (FAILURE,))] * 8))
    assert text.count("asked for") == 1
    assert "2.00 GiB asked for, 1.50 s after recording began (processes 2, 3, 4, 5 and 4 more)" in " ".join(
        text.split()
    )

"""The zoo of host memory: its headers, how a first line is judged, and some of the programs as people run them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.host_zoo.catalogue import KINDS, THINGS, HostProgram, host_programs
from tests.host_zoo.measure import judge, run_program
from tests.reports.measure import Outcome
from tests.support.nightly import nightly

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BY_DAY = ("log_buffer", "sensor_windows", "background_tasks", "background_tasks fixed", "reservoir_sample")
NOT_RIGHT = {
    "heartbeat_threads": "half of its threads are there before their stacks are worth a log",
    "index_worker": "the first 8 MiB of a program without torch are not recorded",
    "log_follower": "likewise",
    "error_page": "likewise",
    "request_records": "likewise",
    "failed_requests": "likewise",
    "sessions_by_user": "likewise",
}
"""Programs whose first line is not right, or not each time, and why."""


def chosen() -> Iterator[object]:
    """All programs that are right; most of them at night."""
    for program in host_programs():
        if program.name not in NOT_RIGHT:
            yield pytest.param(program, id=program.name, marks=[] if program.name in BY_DAY else [nightly])


def test_every_header_is_whole() -> None:
    """A known kind and thing, an amount and a line where something grows."""
    found = host_programs()
    assert sum(not one.is_healthy for one in found) >= 20
    assert sum(one.is_healthy for one in found) >= 20
    assert [one.name for one in found if one.kind not in KINDS or one.what not in THINGS] == []
    assert [one.name for one in found if not one.is_healthy and not (one.mebibytes and one.lines)] == []
    assert {*BY_DAY, *NOT_RIGHT} <= {one.name for one in found}


@pytest.mark.parametrize(
    ("verdict", "outcome"),
    [
        ("host memory: 90.0 MiB on cpu at background_tasks.py({line}): deliver, over the run", Outcome.RIGHT),
        ("host memory: 90.0 MiB on cpu, over the run, held by Notifier.background, from main", Outcome.RIGHT),
        ("host memory: 50.0 MiB on cpu at background_tasks.py({line}): deliver, over the run", Outcome.HALF),
        ("host memory: 90.0 MiB on cpu, over the run, outside of tensors", Outcome.HALF),
        ("nothing found: no growth over the run", Outcome.SILENT),
        ("leak: 90.0 MiB on cpu at background_tasks.py({line}): deliver", Outcome.WRONG),
    ],
)
def test_a_first_line_is_judged(verdict: str, outcome: Outcome) -> None:
    """By its kind, its amount, and the line or the holder."""
    program = next(one for one in host_programs() if one.name == "background_tasks")
    assert judge(program, verdict.format(line=min(program.lines)), 90.0) is outcome


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("program", list(chosen()))
def test_the_first_line_is_right(program: HostProgram, tmp_path: Path) -> None:
    """With its kind, its bytes, and its line or holder; of a healthy program nothing is found."""
    judged = run_program(program, tmp_path)
    assert judged.outcome is Outcome.RIGHT, f"{judged.truth_mebibytes}: {judged.verdict}"

"""Conditions of --trigger: what a program does in step 20 switches details on for five steps, and no longer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl
import pytest

from msmemscope.formats.reading import load
from msmemscope.model.events import ACCESS_KINDS, EventKind
from tests.support.nightly import nightly
from tests.support.targets import SOURCES
from tests.support.warm import run_observed_with_results, run_python

if TYPE_CHECKING:
    from pathlib import Path

    from msmemscope.recording import Recording

pytestmark = pytest.mark.torch

PROGRAM = SOURCES / "triggered.py"
AT, DETAILED = 20, 5
LATE = 2
"""Steps until a change takes effect: it is made in a thread of its own."""


def recorded(folder: Path, deed: str, condition: str) -> tuple[str, Recording]:
    """Run the program under the tool; what the tool has said, and the recording. The losses are those of a bare run."""
    # Nobody awaits the signal in a bare run.
    bare = run_python([PROGRAM, "nothing" if deed == "asks" else deed], output=folder, variables={})
    options = (f"--trigger={condition}", f"--trigger-steps={DETAILED}", "--events=alloc,free")
    observed = run_observed_with_results([PROGRAM, deed], *options, output=folder / "out")
    assert observed.returncode == 0, observed.stderr
    assert observed.stdout == bare.stdout
    (capture,) = (folder / "out").glob("msmemscope_*_ascend")
    return " ".join(observed.stderr.split()), load(capture)


@pytest.mark.parametrize(
    "deed, condition",
    [
        ("grows", "growth>200MiB/min"),
        pytest.param("sleeps", "step_time>5x", marks=nightly),
        ("fails", "oom|rss>99%"),
        pytest.param("grows", "rss>1MiB", marks=nightly),
        ("asks", "SIGUSR2"),
    ],
)
def test_details_are_recorded_for_some_steps(deed: str, condition: str, tmp_path: Path) -> None:
    """A snapshot, then accesses of these steps alone, with both stacks; the summary says which condition it was."""
    said, recording = recorded(tmp_path, deed, condition)
    fired = condition.partition("|")[0]
    found = re.search(rf"--trigger: {re.escape(fired)} in step (\d+) \(([^)]+)\); details of the next 5 steps", said)
    assert found, said
    assert ("refused; handled, later steps: 40)" in said) is (deed == "fails")
    step = int(found[1])
    assert step == AT or fired == "rss>1MiB"
    first = step - (fired == "SIGUSR2")  # it is no end of a step
    events = recording.events
    snapshot = events.filter(pl.col("kind") == EventKind.SNAPSHOT)["name_id"].tail(1)
    names = recording.strings.filter(pl.col("id").is_in(snapshot.implode()))["text"].to_list()
    assert names == [f"trigger {fired}"]
    ends = events.filter(pl.col("kind") == EventKind.IMPLIED_STEP)["sequence"].to_list()
    accesses = events.filter(pl.col("kind").is_in(ACCESS_KINDS))["sequence"]
    assert accesses.len() > 0
    assert ends[first - 1] < accesses.min() < ends[first + LATE - 1]
    assert ends[first + DETAILED - 2] < accesses.max() < ends[first + DETAILED + LATE - 1]


@nightly
def test_a_condition_that_never_holds_is_said(tmp_path: Path) -> None:
    """Nothing is recorded besides."""
    said, recording = recorded(tmp_path, "nothing", "growth>100GiB/h")
    assert "--trigger: growth>100GiB/h never held where a step ended" in said
    assert recording.events.filter(pl.col("kind").is_in(ACCESS_KINDS)).is_empty()


def test_times_of_steps_need_steps(tmp_path: Path) -> None:
    """And that is said; the other condition was looked at."""
    conditions = "--trigger=rss>1TiB|step_time>2x"
    observed = run_observed_with_results(["-c", "import torch; torch.ones(100)"], conditions, output=tmp_path)
    said = " ".join(observed.stderr.split())
    assert "--trigger: rss>1TiB never held" in said
    assert "--trigger: step_time>2x was not looked at, because no step ended" in said


def test_a_program_without_steps_is_looked_at_every_second(tmp_path: Path) -> None:
    """While it allocates; from then on details are recorded."""
    program = """
import time, torch
for _ in range(150):
    time.sleep(0.02)
    for _ in range(20):
        torch.ones(100).sum()
"""
    observed = run_observed_with_results(["-c", program], "--trigger=rss>1", "--events=alloc,free", output=tmp_path)
    assert observed.returncode == 0, observed.stderr
    said = " ".join(observed.stderr.split())
    assert re.search(
        r"--trigger: rss>1 before a step ended \([0-9.]+ MiB\); details of a minute were recorded", said
    ), said
    (capture,) = tmp_path.glob("msmemscope_*_ascend")
    assert load(capture).events.filter(pl.col("kind").is_in(ACCESS_KINDS)).height > 100


SERVES = """
import os, signal, time, torch
OWN_HANDLER
torch.ones(10).sum()
os.kill(os.getpid(), signal.SIGUSR1)
for _ in range(50):
    time.sleep(0.02)
    torch.ones(100).sum()
"""


def test_a_signal_takes_effect_in_a_program_without_steps(tmp_path: Path) -> None:
    """As soon as it arrives."""
    program = SERVES.replace("OWN_HANDLER", "")
    observed = run_observed_with_results(["-c", program], "--trigger=SIGUSR1|rss>1", output=tmp_path)
    assert observed.returncode == 0, observed.stderr
    said = " ".join(observed.stderr.split())
    assert "--trigger: SIGUSR1 before a step ended (it arrived); details of a minute were recorded" in said
    (capture,) = tmp_path.glob("msmemscope_*_ascend")
    assert load(capture).events.filter(pl.col("kind").is_in(ACCESS_KINDS)).height > 10


def test_a_handler_of_the_program_is_left_alone(tmp_path: Path) -> None:
    """One from before, and one that comes later."""
    program = SERVES.replace("OWN_HANDLER", "signal.signal(signal.SIGUSR1, lambda *_: print('its own'))")
    observed = run_observed_with_results(["-c", program], "--trigger=SIGUSR1", output=tmp_path)
    assert observed.stdout == "its own\n"
    assert "--trigger: SIGUSR1 did not arrive" in " ".join(observed.stderr.split())

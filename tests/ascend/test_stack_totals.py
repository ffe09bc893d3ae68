"""At every step of a training, what was recorded adds up to what torch and the device say, to the byte."""

from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.support.ascend import PROGRAMS, attributes
from tests.support.nightly import NIGHT, nightly

if TYPE_CHECKING:
    from pathlib import Path

    from tests.ascend.conftest import Observe, RunAlone
    from tests.support.ascend import Observation

MODES = {
    "task queue 0": {"TASK_QUEUE_ENABLE": "0"},
    "task queue 1": {"TASK_QUEUE_ENABLE": "1"},
    "task queue 2": {"TASK_QUEUE_ENABLE": "2"},
    "expandable segments": {"PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True"},
}
MODES_OF_THE_NIGHT = ("task queue 0", "task queue 1", "task queue 2")
"""`task queue 1` is the default, in which most other tests run. `task queue 0` makes the same calls on the thread of
the program. test_mstx.py runs `task queue 2` by day."""
EVENTS = "--events=alloc,free,launch"


def all_rows(observation: Observation, process: int) -> list[dict[str, str]]:
    """The rows of one process on all devices, in the order of their IDs, each once."""
    frames = [rows.filter(pl.col("Process Id") == process) for rows in observation.rows.values()]
    return pl.concat(frames).unique("ID").sort("ID").rows(named=True)


def check_totals(observation: Observation, process: int) -> int:
    """Follow the live bytes of each pool and compare them at every mark; return how many there were."""
    live: dict[tuple[str, int], int] = {}
    reserved: dict[int, int] = {}
    marks = 0
    for row in all_rows(observation, process):
        if row["Event"] in {"MALLOC", "FREE"} and row["Device Id"].isdigit():
            values, device = attributes(row["Attr"]), int(row["Device Id"])
            size = int(values["size"]) if row["Event"] == "MALLOC" else -int(values["size"])
            live[row["Event Type"], device] = live.get((row["Event Type"], device), 0) + size
            if row["Event Type"] == "PTA" and "total" in values:
                reserved[device] = int(values["total"])
        elif row["Event"] == "MSTX" and row["Name"].strip('"').startswith("totals "):
            device, *figures = map(int, row["Name"].strip('"').split()[1:])
            # In the dump, memory of a workspace pool belongs to PTA too. It is no part of torch's allocated memory, and
            # none of it is in use between operators.
            seen = [live.get(("PTA", device), 0), live.get(("HAL", device), 0)]
            assert seen == [figures[0], figures[2]], f"mark {marks}: recorded {seen}, said {figures}"
            # A pool tells its total with each of its events; empty_cache, before the last mark of a device, is none.
            if live.get(("PTA", device), 0) == figures[0] and marks % 5 != 4:
                assert reserved[device] == figures[1]
            marks += 1
    return marks


@pytest.mark.slow
@pytest.mark.parametrize(
    "mode", [pytest.param(mode, marks=[nightly] if mode in MODES_OF_THE_NIGHT else []) for mode in MODES]
)
def test_two_devices(observe: Observe, mode: str) -> None:
    """One process trains on two devices, one after the other."""
    observation = observe([EVENTS, "--device=npu"], "stack_totals.py", 2, variables=MODES[mode])
    process = int(observation.rows["0"]["Process Id"][0])
    assert check_totals(observation, process) == 10


def free_port() -> str:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@pytest.mark.slow
@nightly
def test_two_ranks(observe: Observe) -> None:
    """Two processes, each with a device and a capture of its own."""
    program, port = PROGRAMS / "stack_totals.py", free_port()
    script = " & ".join(f"{sys.executable} {program} 1 {rank} 2 {port}" for rank in range(2)) + " & wait"
    observation = observe([EVENTS, "--device=npu"], "/bin/bash", "-c", script)
    processes = {process for rows in observation.rows.values() for process in rows["Process Id"].unique().to_list()}
    assert [check_totals(observation, process) for process in processes] == [5, 5]


@nightly
@pytest.mark.slow
def test_losses_are_the_same_to_the_bit(observe: Observe, run_alone: RunAlone, tmp_path: Path) -> None:
    """With and without the tool, whatever it records."""
    alone = run_alone("stack_totals.py", 1, folder=tmp_path)
    assert alone.returncode == 0, alone.stderr
    losses = [line for line in alone.stdout.splitlines() if "loss" in line]
    assert len(losses) == 4
    everything = ["--device=npu", "--events=alloc,free,launch,access", "--call-stack=python,c:20", "--level=op,kernel"]
    others = [["--device=npu"], ["--device=npu,cpu", "--data-format=db", "--steps=2"]] if NIGHT else []
    for options in (everything, *others):
        observed = observe(options, "stack_totals.py", 1, log_alone=True)
        assert [line for line in observed.run.stdout.splitlines() if "loss" in line] == losses

"""Programs that run out of device memory: the error stays theirs, and the dump says why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from msmemscope.model.events import EventKind
from tests.support.ascend import PROGRAMS, attributes
from tests.support.nightly import nightly
from tests.support.recordings import assert_sound, events_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.ascend.conftest import Observe, RunAlone
    from tests.support.ascend import Observation

PROGRAM = "runs_out_of_memory.py"
SMALL = {"VNPU_MEMORY": "1GiB", "VNPU_DEVICES": "2"}
DUMP = ["--device=npu", "--analysis=oom:5"]
SNAPSHOT_KEYS = ["reserved", "allocated", "total", "free", "device_rate", "reserved_rate"]
SNAPSHOT_KEYS_OF_TORCH = [
    "reserved", "max_reserved", "allocated", "max_allocated", "total", "free", "device_rate", "reserved_rate",
]  # fmt: skip


def line_of(text: str) -> str:
    """A place in the program as stacks show it."""
    lines = (PROGRAMS / PROGRAM).read_text().splitlines()
    (number,) = [index for index, line in enumerate(lines, start=1) if text in line]
    return f"{PROGRAM}({number})"


def words_of_torch(text: str) -> list[str]:
    """The lines with torch's own error, without moments and numbers of processes and threads."""
    return [line.partition("NPU out of memory")[2] for line in text.splitlines() if "NPU out of memory" in line]


def rows_of(seen: Observation, event_type: str) -> list[dict[str, Any]]:
    """Rows of device 0 of one type."""
    return seen.of(0, event_type=event_type)


def check_stacks(row: Mapping[str, Any]) -> None:
    """Assert that a row has both stacks of the line that failed, although none were asked for."""
    assert f"{line_of('torch.empty(size,')}: too_much" in row["Call Stack(Python)"]
    assert "libtorch_npu.so" in row["Call Stack(C)"]


def test_the_error_is_the_program_s_own(
    observe: Observe, observe_once: Observe, run_alone: RunAlone, tmp_path: Path
) -> None:
    """Caught or not, torch says the same as without the tool, word for word, and the exit status is the same."""
    plain = run_alone(PROGRAM, "caught", folder=tmp_path, variables=SMALL)
    seen = observe_once(DUMP, PROGRAM, "caught", variables=SMALL)
    assert len(words_of_torch(plain.stdout)) == 1, plain.stderr
    assert words_of_torch(seen.run.stdout) == words_of_torch(plain.stdout)
    assert words_of_torch(seen.run.stderr) == words_of_torch(plain.stderr)  # which torch_npu logs by itself
    assert seen.run.reports == plain.reports
    plain = run_alone(PROGRAM, "uncaught", folder=tmp_path, variables=SMALL)
    assert plain.returncode == 1
    seen = observe(["--device=npu"], PROGRAM, "uncaught", variables=SMALL, expected_status=1)
    assert words_of_torch(plain.stderr)[-1] == words_of_torch(seen.run.stderr)[-1] != ""


def test_what_the_dump_says(observe_once: Observe) -> None:
    """Two attempts of torch_npu: trigger, snapshots with both stacks, the K latest and largest blocks with theirs."""
    seen = observe_once(DUMP, PROGRAM, "caught", variables=SMALL)
    events = events_of(seen.run.capture)
    assert_sound(events)
    triggers = rows_of(seen, "OOM_TRIGGER")
    assert len(triggers) == 2
    for trigger in triggers:
        assert trigger["Name"] == "OOM_Trigger"
        assert trigger["attributes"]["func"] == "halMemAlloc"
        assert int(trigger["attributes"]["req_size"]) >= 2 << 30
        check_stacks(trigger)
    before, after_release, after = rows_of(seen, "SNAPSHOT")
    for snapshot in (before, after_release, after):
        check_stacks(snapshot)
    assert [before["Name"], after_release["Name"], after["Name"]] == ["OOM_Snapshot"] * 2 + ["OOM_Snapshot After"]
    assert list(before["attributes"]) == SNAPSHOT_KEYS
    assert list(after["attributes"]) == SNAPSHOT_KEYS_OF_TORCH
    # The free block of 100 MiB in the cache went back to the driver between the two attempts, with the driver's 2 MiB.
    given_back = int(after_release["attributes"]["free"]) - int(before["attributes"]["free"])
    assert given_back == 102 << 20
    assert int(before["attributes"]["reserved"]) - int(after["attributes"]["reserved"]) == given_back
    kept = sum((size << 20) + 512 for size in (30, 60, 50, 40))
    assert {int(row["attributes"]["allocated"]) for row in (before, after_release, after)} == {kept}
    for trigger in triggers:
        behind = [row for row in seen.of(0, event="OOM_DETAIL") if trigger["ID"] < row["ID"] <= trigger["ID"] + 10]
        assert [row["Event Type"] for row in behind] == ["OOM_RECENT_ALLOC"] * 5 + ["OOM_TOP_ALLOC"] * 5
        assert [row["ID"] for row in behind] == list(range(trigger["ID"] + 1, trigger["ID"] + 11))
        recent, top = behind[:5], behind[5:]
        of_torch = [int(row["attributes"]["size"]) >> 20 for row in recent if row["attributes"]["pool"] == "PTA"]
        assert of_torch == [40, 50, 60][: len(of_torch)]
        assert len(of_torch) >= 2
        moments = [int(row["attributes"]["timestamp"]) for row in recent]
        assert moments == sorted(moments, reverse=True)
        sizes = [int(row["attributes"]["size"]) for row in top]
        assert sizes == sorted(sizes, reverse=True)
        for row in behind:
            assert row["Timestamp(ns)"] == trigger["Timestamp(ns)"]
            if row["attributes"]["pool"] == "PTA":
                assert f"{line_of('torch.empty(mebibytes << 20')}: made" in row["Call Stack(Python)"]
    assert {row["attributes"]["pool"] for row in rows_of(seen, "OOM_TOP_ALLOC")} >= {"HAL"}
    report = (seen.run.capture.directory / "report.txt").read_text(encoding="utf-8")
    assert "Out of memory on npu:0: 2.00 GiB asked for" in report
    assert "halMemAlloc failed 2 times" in report


def test_it_goes_on_after_the_error(observe: Observe) -> None:
    """A smaller batch works, is recorded, and sums stay those of torch; without the analysis there are snapshots only."""
    seen = observe(["--device=npu"], PROGRAM, "caught", variables=SMALL)
    assert rows_of(seen, "OOM_TRIGGER") == []
    assert len(rows_of(seen, "SNAPSHOT")) == 3
    later = [row for row in rows_of(seen, "PTA") if int(row["attributes"]["size"]) >> 20 == 20]
    assert later[0]["Event"] == "MALLOC"
    assert later[0]["attributes"]["used"] == seen.run.report["allocated"]
    assert later[0]["attributes"]["total"] == seen.run.report["reserved"]


@nightly
def test_in_a_thread_of_autograd(observe: Observe) -> None:
    """The stacks are those of that thread; the observer that torch calls there takes its snapshot."""
    seen = observe(["--device=npu", "--analysis=oom:1"], PROGRAM, "backward", variables=SMALL)
    triggers = rows_of(seen, "OOM_TRIGGER")
    assert len(triggers) == 2
    for row in [*triggers, *rows_of(seen, "SNAPSHOT")]:
        assert row["Thread Id"] != row["Process Id"]
        check_stacks(row)
    assert [row["Name"] for row in rows_of(seen, "SNAPSHOT")][-1] == "OOM_Snapshot After"


def test_a_limit_of_torch_s_own(observe: Observe) -> None:
    """The driver is not asked, so torch's observer says what failed; once."""
    seen = observe(["--device=npu", "--analysis=oom:2"], PROGRAM, "limit", variables=SMALL)
    (trigger,) = rows_of(seen, "OOM_TRIGGER")
    assert trigger["attributes"]["func"] == "torch.npu"
    assert int(trigger["attributes"]["req_size"]) >= 400 << 20
    check_stacks(trigger)
    assert len(rows_of(seen, "OOM_TOP_ALLOC")) == 2
    assert [row["Name"] for row in rows_of(seen, "SNAPSHOT")] == ["OOM_Snapshot After"]


def test_expandable_segments(observe: Observe) -> None:
    """Physical memory is asked for in pieces by another function."""
    variables = SMALL | {"PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True"}
    seen = observe(["--device=npu", "--analysis=oom:1"], PROGRAM, "caught", variables=variables)
    triggers = rows_of(seen, "OOM_TRIGGER")
    assert triggers
    assert {row["attributes"]["func"] for row in triggers} == {"halMemCreate"}
    assert [row["Name"] for row in rows_of(seen, "SNAPSHOT")][-1] == "OOM_Snapshot After"


@nightly
def test_numbers_of_devices(observe: Observe) -> None:
    """Rows have the driver's number, not the program's."""
    variables = SMALL | {"ASCEND_RT_VISIBLE_DEVICES": "1"}
    seen = observe(["--device=npu", "--analysis=oom:1"], PROGRAM, "caught", variables=variables)
    assert "0" not in seen.rows
    assert [row["Name"] for row in seen.of(1, event="SNAPSHOT")][-1] == "OOM_Snapshot After"
    assert len(seen.of(1, event_type="OOM_TOP_ALLOC")) == 2


@nightly
def test_a_device_that_is_not_observed(observe: Observe) -> None:
    """Its failures are nobody's business."""
    seen = observe(["--device=npu:1", "--analysis=oom"], PROGRAM, "caught", variables=SMALL)
    kinds = events_of(seen.run.capture)["kind"]
    assert not kinds.is_in([int(EventKind.OOM), int(EventKind.SNAPSHOT)]).any()


@nightly
def test_without_any_call_stack(observe: Observe) -> None:
    """Stacks of a failure are taken even where none are collected."""
    seen = observe(["--device=npu", "--analysis=oom:1", "--call-stack="], PROGRAM, "caught", variables=SMALL)
    for row in [*rows_of(seen, "OOM_TRIGGER"), *rows_of(seen, "SNAPSHOT")]:
        check_stacks(row)
    (block,) = [row for row in rows_of(seen, "OOM_TOP_ALLOC") if row["ID"] < rows_of(seen, "OOM_TRIGGER")[1]["ID"]]
    assert block["Call Stack(Python)"] == ""


@pytest.mark.slow
@nightly
def test_a_hundred_thousand_blocks(observe: Observe, run_alone: RunAlone, tmp_path: Path) -> None:
    """Writing at a failure costs the program far less than a second, however many blocks are alive."""
    plain = run_alone(PROGRAM, "many", "100000", folder=tmp_path, variables=SMALL)
    options = ["--device=npu", "--analysis=oom", "--level=kernel"]
    seen = observe(options, PROGRAM, "many", "100000", variables=SMALL)
    added_s = float(seen.run.report["seconds"]) - float(plain.report["seconds"])
    assert added_s < 0.5, f"{added_s:.3f} s"
    assert len(rows_of(seen, "OOM_TOP_ALLOC")) == 20
    events = events_of(seen.run.capture)
    assert events.filter(pl.col("kind") == int(EventKind.OOM)).height == 2
    assert attributes(rows_of(seen, "SNAPSHOT")[0]["Attr"])["allocated"] == str(100_000 * 512)

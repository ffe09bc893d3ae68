"""Snapshots of NPUs: torch's own figures for those in use, the management interface's for the others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.nightly import nightly

if TYPE_CHECKING:
    from pathlib import Path

    from tests.ascend.conftest import Observe, RunAlone
    from tests.support.ascend import Observation

PROGRAM = "snapshots_of_devices.py"
SMALL = {"VNPU_MEMORY": "1GiB", "VNPU_DEVICES": "2"}
UNUSED = {
    "reserved": "0", "max_reserved": "0", "allocated": "0", "max_allocated": "0", "total": str(1 << 30),
    "free": str(1 << 30), "device_rate": "0.000000", "reserved_rate": "0.000000",
}  # fmt: skip


def printed(seen: Observation) -> dict[str, Any]:
    """The lines that the program printed, by moment."""
    lines = [json.loads(line) for line in seen.run.stdout.splitlines() if line.startswith("{")]
    return {line["moment"]: line for line in lines}


@pytest.mark.parametrize(
    ("visible", "numbers"),
    [pytest.param("", (0, 1), id="all devices"), pytest.param("1,2", (1, 2), id="other numbers", marks=nightly)],
)
def test_figures_and_devices(observe: Observe, visible: str, numbers: tuple[int, int]) -> None:
    """None takes all of them, and touches none that is not used. Rows have the driver's numbers."""
    variables = SMALL | ({"ASCEND_RT_VISIBLE_DEVICES": visible, "VNPU_DEVICES": "3"} if visible else {})
    seen = observe(["--device=npu"], PROGRAM, *numbers, variables=variables)
    words = printed(seen)
    first, second = numbers
    assert words["nothing used"]["contexts"] == [False, False]
    assert words["nothing used"]["used"] == [0, 0]
    assert words["one used"]["contexts"] == [True, False]
    assert words["one used"]["used"][1] == 0
    assert words["wrong"]["error"] == "device_mask: no such device: '2' (accepted: 0 to 1)"
    of_first = {row["Name"]: row for row in seen.of(first, event="SNAPSHOT")}
    of_second = {row["Name"]: row for row in seen.of(second, event="SNAPSHOT")}
    assert list(of_first) == ["nothing used", "one used", "both"]
    assert list(of_second) == ["nothing used", "one used", "the other", "both"]
    assert of_first["nothing used"]["attributes"] == UNUSED
    for row in of_second.values():
        assert row["attributes"] == UNUSED
        assert row["Device Id"] == str(second)
    figures = words["torch"]["figures"]
    in_use = figures["total"] - figures["free"]
    assert of_first["one used"]["attributes"] == {
        **{key: str(value) for key, value in figures.items()},
        "device_rate": f"{in_use / figures['total'] * 100:.6f}",
        "reserved_rate": f"{figures['allocated'] / figures['reserved'] * 100:.6f}",
    }
    assert seen.run.stderr.count("msmemscope: no snapshot of device 7: there is no such npu") == 1
    assert "cpu" not in seen.rows


def test_with_the_cpu(observe: Observe) -> None:
    """The cpu has a row of its own beside the NPUs if it is observed; an NPU that is not observed has none."""
    seen = observe(["--device=npu:0,cpu"], PROGRAM, variables=SMALL)
    assert [row["Name"] for row in seen.of("cpu", event="SNAPSHOT")] == ["nothing used", "one used"]
    assert [row["Name"] for row in seen.of(1, event="SNAPSHOT")] == ["the other", "both"]
    for row in seen.of("cpu", event="SNAPSHOT"):
        assert int(row["attributes"]["reserved"]) > 0


def test_the_cpu_alone(observe: Observe) -> None:
    """A program that has torch_npu is not asked about NPUs if only the cpu is observed."""
    seen = observe(["--device=cpu"], PROGRAM, variables=SMALL)
    assert [row["Name"] for row in seen.of("cpu", event="SNAPSHOT")] == ["nothing used", "one used"]
    assert [row["Name"] for row in seen.of(1, event="SNAPSHOT")] == ["the other", "both"]


def test_figures_that_trainers_log(run_alone: RunAlone, tmp_path: Path) -> None:
    """Those of torch for the devices in use, to the byte; no device is touched for them."""
    run = run_alone("logged_memory.py", folder=tmp_path, variables=SMALL)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout.splitlines()[-1])
    assert set(found["unused"]) == {"memory/host_resident_mib", "memory/host_max_resident_mib"}
    assert {name: size for name, size in found["used"].items() if "npu" in name} == found["torch"]
    assert found["torch"]["memory/npu_0_allocated_mib"] == pytest.approx(12, rel=0.01)

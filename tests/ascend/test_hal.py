"""The recording of the driver has each block with its kind and owner, pinned memory, devices, and exact totals."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from msmemscope.formats.event_log import Capture
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from tests.support.ascend import PROGRAMS
from tests.support.nightly import nightly
from tests.support.recordings import assert_sound, events_of, shadows
from tests.support.targets import environment

if TYPE_CHECKING:
    from tests.ascend.conftest import CompileC, Observe

PROGRAM = "driver_memory.c"
MODULES = {0: "SLOG", 3: "HCCL", 7: "RUNTIME", 33: "APP", 48: "ASCENDCL", 75: "INVLID_MOUDLE_ID", 76: "UNKNOWN"}
NO_OVERHEAD = {"VNPU_OVERHEAD": ""}


def test_every_flag(compile_c: CompileC, observe_c: Observe) -> None:
    """Page type, module and way of allocation are those of the flag's bits, and of the properties."""
    seen = observe_c(["--device=npu", "--analysis=decompose"], compile_c(PROGRAM), "flags")
    blocks = [row["attributes"] for row in seen.of(1, event="MALLOC", event_type="HAL")]
    assert len(blocks) == 77 * 4 + 3
    assert len(seen.of(1, event="FREE", event_type="HAL")) == len(blocks)
    for module, name in MODULES.items():
        mine = [block for block in blocks if block["size"] == str(1000 + module)]
        assert [block["page_type"] for block in mine] == ["normal", "huge", "giant", "giant"]
        assert {block["owner"] for block in mine} == {f"CANN@{name}"}
        assert {block["alloc_type"] for block in mine} == {"alloc"}
    created = blocks[-3:]
    assert [block["page_type"] for block in created] == ["normal", "huge", "giant"]
    assert {(block["owner"], block["alloc_type"], block["size"]) for block in created} == {
        ("CANN@GE", "create", str(2 << 20))
    }
    handles = [line.split()[1] for line in seen.run.stdout.splitlines() if line.startswith("handle ")]
    assert [int(block["addr"], 16) for block in created] == [int(handle, 16) for handle in handles]
    assert seen.live_bytes(1, "HAL") == 0


def test_pinned_memory(compile_c: CompileC, observe_c: Observe) -> None:
    """Host memory of the driver and registered memory are the host's, if they are pinned."""
    program = compile_c(PROGRAM)
    seen = observe_c(["--device=npu,cpu"], program, "pinned", variables=NO_OVERHEAD)
    blocks = seen.of("cpu", event="MALLOC", event_type="HOST")
    assert [int(row["attributes"]["size"]) for row in blocks] == [3000, 4000, 5000, 4 << 20]
    assert all(row["attributes"]["pinned"] == "true" for row in blocks)
    assert all(row["attributes"]["used"] == row["attributes"]["size"] for row in blocks)
    assert all(int(row["attributes"]["process_used"]) > 0 for row in blocks)
    assert len(seen.of("cpu", event="FREE", event_type="HOST")) == len(blocks)
    assert "0" not in seen.rows or not seen.of(0, event="MALLOC")


def test_pinned_memory_is_recorded_for_npus(compile_c: CompileC, observe_c: Observe) -> None:
    """Also without the cpu among the devices: it is what a device copies from and to."""
    seen = observe_c(["--device=npu"], compile_c(PROGRAM), "pinned", "devices", variables=NO_OVERHEAD)
    assert {row["attributes"]["pinned"] for row in seen.of("cpu", event="MALLOC")} == {"true"}
    assert seen.live_bytes(0, "HAL") == 8000


@pytest.mark.parametrize(("visible", "physical"), [("0,1", [0, 1]), ("1,0", [1, 0]), ("3,2", [3, 2])])
def test_devices(compile_c: CompileC, observe_c: Observe, visible: str, physical: list[int]) -> None:
    """Rows have the driver's numbers, and what is live there is what the device says is in use."""
    variables = {"ASCEND_RT_VISIBLE_DEVICES": visible}
    seen = observe_c(["--device=npu"], compile_c(PROGRAM), "devices", variables=variables)
    used = [line.split()[1:] for line in seen.run.stdout.splitlines() if line.startswith("used ")]
    assert len(used) == 2
    for logical, in_use in used:
        device = physical[int(logical)]
        assert seen.live_bytes(device, "HAL") == int(in_use)
        last = seen.of(device, event="MALLOC", event_type="HAL")[-1]["attributes"]
        assert last["size"] == str(8000 + int(logical))
        # The first of the two blocks is still there.
        assert last["used"] == last["process_used"] == str(int(in_use) + 7000 + int(logical))
        assert int(last["device_used"]) == -(-int(last["used"]) // (1 << 20)) << 20


def test_selected_device(compile_c: CompileC, observe_c: Observe) -> None:
    """Only the chosen device has rows, and pinned memory; the others' blocks are not followed."""
    seen = observe_c(["--device=npu:1"], compile_c(PROGRAM), "devices", "pinned", variables=NO_OVERHEAD)
    assert seen.live_bytes(1, "HAL") == 8001
    assert set(seen.rows) == {"1", "cpu"}


def test_runtime_events(compile_c: CompileC, observe_c: Observe) -> None:
    """The begin and the end of the runtime are rows of every device."""
    seen = observe_c(["--device=npu"], compile_c(PROGRAM), "devices")
    for device in (0, 1):
        rows = seen.of(device, event="SYSTEM")
        assert [(row["Event Type"], row["Name"], row["Device Id"]) for row in rows] == [
            ("ACL_INIT", "N/A", "N/A"),
            ("ACL_FINI", "N/A", "N/A"),
        ]
    events = events_of(seen.run.capture)
    assert_sound(events)
    assert events["kind"][0] == EventKind.ACL_INIT
    assert events["kind"][-1] == EventKind.ACL_FINI


def test_without_the_management_interface(
    compile_c: CompileC, observe_c: Observe, cann_environment: dict[str, str], tmp_path: Path
) -> None:
    """The figures of DCMI are left out, the capture says so, and all else is as ever."""
    folder = tmp_path / "lib64"
    folder.mkdir()
    for library in Path(cann_environment["ASCEND_HOME_PATH"], "lib64").glob("*.so"):
        if library.name != "libdcmi.so":
            (folder / library.name).symlink_to(library)
    variables = {"LD_LIBRARY_PATH": str(folder)}
    seen = observe_c(["--device=npu"], compile_c(PROGRAM), "devices", variables=variables)
    last = seen.of(0, event="MALLOC", event_type="HAL")[-1]["attributes"]
    assert "used" in last
    assert "process_used" not in last
    assert "device_used" not in last
    assert "dcmi: libdcmi.so is not found" in seen.run.stderr


def test_figures_are_those_of_their_row(observe_c: Observe) -> None:
    """A row of a free shows the bytes in use once the block is gone.

    The row of an existing block shows those at the start.
    """
    seen = observe_c(["--device=npu", "--collect-mode=deferred"], "driver_usage.py", variables=NO_OVERHEAD)
    rows = [row["attributes"] for row in seen.of(0, event_type="HAL")]
    in_use = [int(line.split()[1]) for line in seen.run.stdout.splitlines() if line.startswith(("malloc", "free"))]
    # The free behind stop() has a row without figures, the block that came behind it one of the moment of start().
    assert ["device_used" in row for row in rows] == [True, True, True, False, True, True, True, True]
    assert "shadow" in rows[3]
    assert "shadow" in rows[4]
    assert [int(row.get("device_used", 0)) for row in rows] == in_use
    assert [int(row.get("process_used", 0)) for row in rows] == in_use  # the last one is 0: no process is listed then


SETTINGS = {
    "segments": {},
    "expandable segments": {"PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True"},
    "workspace of its own": {"TASK_QUEUE_ENABLE": "2"},
}


def live_bytes_at(events: pl.DataFrame, time_ns: int, device: int) -> int:
    """Sum up the driver's blocks that were alive on a device at a time."""
    until = events.filter((pl.col("timestamp_ns") <= time_ns) & (pl.col("device") == device))
    sums = dict(until.group_by("kind").agg(pl.col("size").sum()).iter_rows())
    return int(sums.get(int(EventKind.MALLOC), 0) - sums.get(int(EventKind.FREE), 0))


@pytest.mark.torch
@pytest.mark.parametrize(
    "variables",
    [
        pytest.param(SETTINGS["segments"], id="segments", marks=nightly),
        pytest.param(SETTINGS["expandable segments"], id="expandable segments"),
        pytest.param(SETTINGS["workspace of its own"], id="workspace of its own", marks=nightly),
    ],
)
def test_torch_npu_to_the_byte(observe: Observe, variables: dict[str, str]) -> None:
    """At each step of a program the live blocks of each device are what the device says is in use."""
    seen = observe(["--device=npu"], "driver_bytes_by_step.py", 2, variables=variables, log_alone=True)
    events = events_of(seen.run.capture).filter(pl.col("pool") == int(Pool.HAL))
    assert_sound(events)
    steps = [line.split()[1:4] for line in seen.run.stdout.splitlines() if line.startswith("used ")]
    assert len(steps) == 9 * 2
    used = [int(in_use) for _, _, in_use in steps]
    assert used == [live_bytes_at(events, int(time_ns), int(device)) for time_ns, device, _ in steps]
    assert len(set(used)) > 3, "a program that does not use memory shows nothing"


@pytest.mark.torch
def test_registration_by_torch_npu(observe: Observe) -> None:
    """It looks the runtime's functions up by name, past the table of its own calls."""
    seen = observe(["--device=npu,cpu"], "registered_memory.py")
    pinned = [row for row in seen.of("cpu", event_type="HOST") if "pinned" in row["attributes"]]
    assert [(row["Event"], row["attributes"]["size"]) for row in pinned] == [("MALLOC", "8192"), ("FREE", "8192")]


def test_from_the_middle_of_a_program(cann_environment: dict[str, str], tmp_path: Path) -> None:
    """Imported when the driver has given out memory: what came before is not known, and its end is passed over."""
    line = [sys.executable, str(PROGRAMS / "driver_late.py")]
    variables = environment(**cann_environment)
    finished = subprocess.run(line, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    (folder,) = tmp_path.glob("*/msmemscope_*_ascend")
    events = events_of(Capture(folder))
    assert_sound(events)
    driver = events.filter(pl.col("pool") == int(Pool.HAL))
    sizes = driver.select("kind", "size").rows()
    # Alive at the start, then allocated; of the first block, which is older than the import, there is nothing.
    assert sizes == [(EventKind.MALLOC, 2000), (EventKind.MALLOC, 3000), (EventKind.FREE, 2000)]
    assert shadows(driver, EventKind.MALLOC)["size"].to_list() == [2000]

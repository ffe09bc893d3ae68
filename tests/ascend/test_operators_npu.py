"""Operators on tensors of an NPU: on the device they work on, in the block of the pool that they touch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.ascend import Observation
from tests.support.nightly import nightly

if TYPE_CHECKING:
    from tests.ascend.conftest import Observe

ALL_EVENTS = "--events=access,launch,alloc"
PREFIX = "torch._ops.aten."


def operators_on(observation: Observation, device: int | str) -> list[str]:
    """The operators that began on a device, in order."""
    rows = observation.of(device, event="OP_LAUNCH", event_type="ATEN_START")
    return [row["Name"].removeprefix(PREFIX) for row in rows]


def accesses_of(observation: Observation, device: int | str, operator: str) -> list[dict[str, Any]]:
    """The accesses of an operator."""
    return observation.of(device, event="ACCESS", name=PREFIX + operator)


def test_operators_are_recorded_where_they_work(observe_once: Observe) -> None:
    """Of every NPU by default, those of autograd's own threads and of a current device that is not named included."""
    observation = observe_once([ALL_EVENTS], "operators.py")
    on_first = operators_on(observation, 0)
    assert on_first[:5] == ["ones.default", "slice.Tensor", "add_.Tensor", "_to_copy.default", "ones.default"]
    assert {"matmul.default", "matmul_backward.default"} <= set(on_first)
    assert on_first[-1] == "_to_copy.default"  # to the CPU
    assert operators_on(observation, 1) == ["zeros.default"]
    # Operators between CPU tensors alone were not asked for.
    assert "cpu" not in observation.rows
    threads = {row["Thread Id"] for row in observation.of(0, event="OP_LAUNCH")}
    assert len(threads) == 2
    for device in ("0", "1"):
        starts = observation.of(device, event="OP_LAUNCH", event_type="ATEN_START")
        ends = observation.of(device, event="OP_LAUNCH", event_type="ATEN_END")
        assert len(starts) == len(ends)


def test_an_access_falls_into_the_block_that_holds_it(observe_once: Observe) -> None:
    """Also of a view: its own address and size, the block of its storage."""
    observation = observe_once([ALL_EVENTS], "operators.py")
    report = observation.run.report
    blocks = {row["Ptr"]: row["attributes"] for row in observation.of(0, event="MALLOC", event_type="PTA")}
    block = blocks[f"{int(report['block'], 16):#018x}"]
    (written,) = accesses_of(observation, 0, "ones.default")[:1]
    assert written["Event Type"] == "WRITE"
    assert int(written["Ptr"], 16) == int(report["block"], 16)
    assert written["attributes"] | {"addr": ""} == {
        "allocation_id": block["allocation_id"],
        "addr": "",
        "size": "128",
        "type": "PTA",
        "dtype": "torch.float32",
        "shape": "torch.Size([4, 8])",
    }
    for row in accesses_of(observation, 0, "add_.Tensor"):
        assert int(row["Ptr"], 16) == int(report["view"], 16)
        assert row["attributes"]["allocation_id"] == block["allocation_id"]
        assert row["attributes"]["size"] == "64"
    every = [row for device in observation.rows for row in observation.of(device, event="ACCESS")]
    assert every
    assert all(row["attributes"]["allocation_id"] != "0" for row in every)
    assert {row["attributes"]["type"] for row in every} == {"PTA"}


def test_devices_can_be_chosen(observe_once: Observe) -> None:
    """One NPU, or the CPU alone: operators of the others are not there, those that touch it are."""
    assert set(observe_once([ALL_EVENTS, "--device=npu:1"], "operators.py").rows) == {"1"}


def test_cpu_alone_on_a_machine_with_npus(observe_once: Observe) -> None:
    """Operators of NPU tensors are not taken for operators of the CPU."""
    observation = observe_once([ALL_EVENTS, "--device=cpu"], "operators.py")
    assert set(observation.rows) == {"cpu"}
    names = operators_on(observation, "cpu")
    assert "full.default" in names
    assert not {"matmul.default", "add_.Tensor"} & set(names)
    assert {row["attributes"]["type"] for row in observation.of("cpu", event="ACCESS")} == {"HOST"}


@nightly
def test_both(observe_once: Observe) -> None:
    """CPU tensors have their own dump beside those of the devices."""
    observation = observe_once([ALL_EVENTS, "--device=npu,cpu"], "operators.py")
    assert set(observation.rows) == {"0", "1", "cpu"}
    assert "full.default" in operators_on(observation, "cpu")


def test_device_numbers_are_those_of_the_driver(observe_once: Observe) -> None:
    """The program's device 0 is another one where ASCEND_RT_VISIBLE_DEVICES says so."""
    observation = observe_once([ALL_EVENTS], "operators.py", variables={"ASCEND_RT_VISIBLE_DEVICES": "3,5"})
    assert set(observation.rows) == {"3", "5"}
    assert operators_on(observation, 5) == ["zeros.default"]
    assert {*observation.run.capture.facts["device.name"]} == {"npu:3 Ascend910B1", "npu:5 Ascend910B1"}
    assert all(row["attributes"]["allocation_id"] != "0" for row in observation.of(3, event="ACCESS"))


def test_the_summary_tells_of_npus(observe_once: Observe) -> None:
    """Peaks per device and pool: by operator and source line, the driver's by module."""
    run = observe_once([], "operators.py").run
    flowing = " ".join((run.capture.directory / "report.txt").read_text(encoding="utf-8").split())
    assert "Peak on npu:0 (PTA)" in flowing
    assert "Peak on npu:1 (HAL)" in flowing
    assert "by module" in flowing
    assert "RUNTIME" in flowing
    assert "operators.py(" in flowing
    assert "aten.matmul" in flowing


def test_operators_in_marks_for_the_sanitizer(observe: Observe) -> None:
    """Once torch_npu's sanitizer is on, a mark for it is an operator with what it reads and writes; before, nothing."""
    seen = observe(["--device=npu", "--events=launch,access"], "sanitizer_marks.py")
    line = next(line for line in seen.run.stdout.splitlines() if line.startswith("address "))
    first, second = (int(word, 16) for word in line.split()[1:])
    rows = [row for row in seen.of(0) if row["Name"] in {"my_add", "odd"}]
    words = [(row["Name"], row["Event Type"]) for row in rows]
    assert words == [
        *(("my_add", word) for word in ("ATEN_START", "READ", "READ", "WRITE", "ATEN_END")),
        *(("odd", word) for word in ("ATEN_START", "ATEN_END", "ATEN_START", "ATEN_END")),
    ]
    accesses = [row["attributes"] for row in rows if row["Event"] == "ACCESS"]
    assert [(int(one["addr"], 16), one["size"]) for one in accesses] == [
        (first, "1024"), (second, "512"), (first, "1024"),
    ]  # fmt: skip
    blocks = {row["attributes"]["allocation_id"]: row["attributes"]["addr"] for row in seen.of(0, event="MALLOC")}
    assert [blocks[one["allocation_id"]] for one in accesses] == [one["addr"] for one in accesses]
    assert not seen.of(0, event="MSTX")

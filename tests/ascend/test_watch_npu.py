"""Watched memory of NPUs: an injected overrun is put down to its operator, however the memory was chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from msmemscope.model.events import EventFlag
from tests.support.nightly import nightly
from tests.support.watching import changes, checksums

if TYPE_CHECKING:
    from tests.ascend.conftest import Observe
    from tests.support.ascend import Observation

OPTIONS = {
    "window": ("--watch=torch._ops.aten.neg.out:out0,torch._ops.aten.abs.default",),
    "auto": ("--watch=auto",),
}
ADD, SUB = "torch._ops.aten.add.out", "torch._ops.aten.sub_.Tensor"


def overrun(call: int, size: int = 128) -> dict[str, str]:
    """The environment in which a call of aclnnAdds writes behind its output."""
    return {"VNPU_FAULTS": f"overrun:aclnnAdds:{call}:{size}"}


@pytest.mark.parametrize(
    "how, call, blocking",
    [
        ("address", 2, "1"),
        ("window", 5, ""),
        ("auto", 1, "1"),
        *(
            pytest.param(*case, marks=nightly)
            for case in (
                ("tensor", 3, "0"), ("tensor", 3, "1"), ("tensor", 4, "0"), ("tensor", 4, "1"), ("address", 2, "0"),
                ("window", 5, "0"), ("window", 5, "1"), ("auto", 1, "0"), ("auto", 4, "0"), ("auto", 4, "1"),
            )
        ),
    ],
)  # fmt: skip
def test_an_overrun_is_put_down_to_its_operator(observe: Observe, how: str, call: int, blocking: str) -> None:
    """The operator, the number of its call, and the bytes that were hit."""
    variables = overrun(call) | ({"ASCEND_LAUNCH_BLOCKING": blocking} if blocking else {})
    seen = observe(["--device=npu", *OPTIONS.get(how, ())], "watched_memory.py", how, variables=variables)
    found = [change for change in changes(seen.run.capture) if change.culprit[0] == ADD]
    (change,) = [change for change in found if change.address == int(seen.run.report["victim"])]
    assert change.culprit == (ADD, call)
    assert change.is_unexpected
    assert not change.flags & EventFlag.WRITES_UNKNOWN
    assert (change.device, change.attributes["when"]) == (0, "during")
    assert change.attributes["ranges"] == "0-95"
    assert change.block
    assert ("ASCEND_LAUNCH_BLOCKING is not 1" in seen.run.stderr) is (blocking != "1")
    if how == "auto":
        assert int(change.attributes["neighbour_address"]) == int(seen.run.report["written"])
        assert (change.attributes["written_neighbour"], change.attributes["exact"]) == ("1", "1")
    else:
        assert checksums(seen.run.output)


def test_padding_behind_an_output(observe: Observe) -> None:
    """An overrun that hits nothing but the padding of its own block is found all the same."""
    seen = observe(["--device=npu", "--watch=auto"], "watched_memory.py", "none", variables=overrun(2, 16))
    (change,) = changes(seen.run.capture)
    assert change.culprit == (ADD, 2)
    assert change.attributes["beside"] == "1"
    assert change.attributes["ranges"] == "480-495"
    assert change.address == int(seen.run.report["written"])


@pytest.mark.parametrize("how", [pytest.param("tensor", marks=nightly), "auto"])
def test_a_clean_run(observe: Observe, how: str) -> None:
    """No report: the only change is the operator's own output."""
    seen = observe(["--device=npu", *OPTIONS.get(how, ())], "watched_memory.py", how)
    assert [change.culprit for change in changes(seen.run.capture) if change.is_unexpected] == []


AT_LEVEL_KERNEL = overrun(3) | {"ASCEND_LAUNCH_BLOCKING": "1"}


def test_kernels(observe_once: Observe) -> None:
    """At level kernel, watched memory is read before and after each launch.

    The tool does not know what a kernel may write, and says so. The fault is injected when the launch has returned, so
    the memory changed between two kernels. The result names the kernel that had ended. A copy may have changed the
    memory too, and a copy is no kernel: that is no alarm.
    """
    seen = observe_once(["--device=npu", "--level=kernel"], "watched_memory.py", "tensor", variables=AT_LEVEL_KERNEL)
    rows = checksums(seen.run.output)
    adds = [checksum for name, checksum in rows if name.startswith("Adds_")]
    assert len(adds) == 10
    assert len(rows) % 2 == 0
    assert {name.rpartition("-")[2] for name, _ in rows} == {"test_0_before.bin", "test_0_after.bin"}
    own, change = changes(seen.run.capture)
    assert own.attributes["operator"].startswith("Neg_")
    assert own.attributes["source"] == "kernel"
    assert change.attributes["when"] == "between"
    assert (change.attributes["previous"][:5], change.attributes["previous_call"]) == ("Adds_", "3")
    assert change.attributes["source"] == "kernel"
    assert change.flags & EventFlag.WRITES_UNKNOWN, "what a kernel may write is not known"
    text = " ".join(seen.run.stderr.split())
    assert "ERROR" not in text
    assert "2 changes whose legitimacy is not known" in text
    assert "--level=op,kernel" in text


def test_kernels_within_operators(observe: Observe) -> None:
    """With both levels, changes by kernels are judged by the operators around them."""
    variables = overrun(3)
    seen = observe(["--device=npu", "--level=op,kernel"], "watched_memory.py", "tensor", variables=variables)
    own, change = changes(seen.run.capture)
    assert not own.is_unexpected
    assert change.culprit == (ADD, 3)
    assert change.is_unexpected
    assert not change.flags & EventFlag.WRITES_UNKNOWN
    assert "Tensor `test` (480 bytes on npu:0) changed during aten.add.out (call 3)" in " ".join(
        seen.run.stderr.split()
    )
    assert "judged by the operators" not in seen.run.stderr


def test_a_window_that_a_kernel_should_open(observe: Observe, observe_once: Observe) -> None:
    """The values that a kernel returns are not known. One line says that nothing is watched, and what to do."""
    options = ["--device=npu", "--level=kernel"]
    kernels = observe_once(options, "watched_memory.py", "tensor", variables=AT_LEVEL_KERNEL).run
    (neg,) = {name.split("_1-")[0] for name, _ in checksums(kernels.output) if name.startswith("Neg_")}
    seen = observe([*options, f"--watch={neg},{neg}"], "watched_memory.py", "none")
    reported = " ".join(seen.run.stderr.split())
    assert f"watch: {neg} ran, but what a kernel returns is not known: no output is watched" in reported


def test_a_window_of_an_operator_at_level_kernel(observe: Observe) -> None:
    """Operators are not observed there: the one that was named never ran, and the kernel called like it did."""
    options = ["--device=npu", "--level=kernel", *OPTIONS["window"]]
    reported = " ".join(observe(options, "watched_memory.py", "none").run.stderr.split())
    assert "watch: torch._ops.aten.neg.out never ran: none of its outputs was watched;" in reported
    assert "aten.neg.out never ran: none of its outputs was watched; what did run: Neg_" in reported
    assert "--level=kernel observes no operators" in reported


def test_bytes_at_an_address_are_looked_at_when_the_device_has_finished(observe: Observe) -> None:
    """Work that the device was given before the bytes were watched is no change of them.

    Work on another device is none either.
    """
    seen = observe(["--device=npu"], "watched_addresses.py")
    assert [change for change in changes(seen.run.capture) if change.name in {"first", "second"}] == []
    assert checksums_of(seen, 0) == checksums_of(seen, 1) == {seen.run.report["expected"]}


def checksums_of(seen: Observation, device: int) -> set[str]:
    """The checksums that a device's table has."""
    (table,) = (seen.run.output / "watch_dump").glob(f"watch_dump_data_check_sum_{device}_*.csv")
    return {line.rpartition(",")[2] for line in table.read_text().splitlines()[1:]}

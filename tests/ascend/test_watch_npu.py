"""Watched memory of NPUs: an injected overrun is put down to its operator, however the memory was chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from msmemscope.model.events import EventFlag
from tests.support.watching import changes, checksums

if TYPE_CHECKING:
    from tests.ascend.conftest import Observe

OPTIONS = {
    "window": ("--watch=torch._ops.aten.neg.out:out0,torch._ops.aten.abs.default",),
    "auto": ("--watch=auto",),
}
ADD, SUB = "torch._ops.aten.add.out", "torch._ops.aten.sub_.Tensor"


def overrun(call: int, size: int = 128) -> dict[str, str]:
    """The environment in which a call of aclnnAdds writes behind its output."""
    return {"VNPU_FAULTS": f"overrun:aclnnAdds:{call}:{size}"}


@pytest.mark.parametrize("blocking", ["0", "1"])
@pytest.mark.parametrize(
    "how, call", [("tensor", 3), ("address", 2), ("copied", 4), ("window", 5), ("auto", 1), ("auto", 4)]
)
def test_an_overrun_is_put_down_to_its_operator(observe: Observe, how: str, call: int, blocking: str) -> None:
    """The operator, the number of its call, and the bytes that were hit."""
    variables = overrun(call) | {"ASCEND_LAUNCH_BLOCKING": blocking}
    seen = observe(["--device=npu", *OPTIONS.get(how, ())], "watched_memory.py", how, variables=variables)
    found = [change for change in changes(seen.run.capture) if change.culprit[0] == ADD]
    (change,) = [change for change in found if change.address == int(seen.run.report["victim"])]
    assert change.culprit == (ADD, call)
    assert change.is_unexpected
    assert not change.flags & EventFlag.WRITES_UNKNOWN
    assert (change.device, change.attributes["when"]) == (0, "during")
    assert change.attributes["ranges"] == "0-95"
    assert change.block
    assert ("ASCEND_LAUNCH_BLOCKING is not 1" in seen.run.stderr) is (blocking == "0")
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


@pytest.mark.parametrize("how", ["tensor", "auto"])
def test_a_clean_run(observe: Observe, how: str) -> None:
    """No report: the only change is the operator's own output."""
    seen = observe(["--device=npu", *OPTIONS.get(how, ())], "watched_memory.py", how)
    assert [change.culprit for change in changes(seen.run.capture) if change.is_unexpected] == []


def test_kernels(observe: Observe) -> None:
    """At level kernel, there is a look before and after each launch.

    The fault is injected when the launch has returned: so the memory changed between two kernels, and the one that had
    ended is named.
    """
    variables = overrun(3) | {"ASCEND_LAUNCH_BLOCKING": "1"}
    seen = observe(["--device=npu", "--level=kernel"], "watched_memory.py", "tensor", variables=variables)
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
    assert change.flags & EventFlag.WRITES_UNKNOWN, "what a kernel may write is not known"

"""Parts of NPUs that were not observed are named, with the true reason."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest

import msmemscope
from msmemscope.reports.coverage_report import render_limits, render_missing
from tests.ascend.test_online_analyses_npu import LEAKY

if TYPE_CHECKING:
    from tests.ascend.conftest import CompileC, Observe


def words(text: str) -> str:
    """A text without its line breaks."""
    return " ".join(text.split())


@pytest.mark.parametrize("kind", ["leaks", "peak", "decompose", "operators", "oom", "growth"])
def test_a_device_that_was_not_observed(compile_c: CompileC, observe_c: Observe, kind: str) -> None:
    """The program used another NPU than the one that was chosen."""
    seen = observe_c(["--device=npu:3"], compile_c(LEAKY, "ascendcl", "ascend_hal", "ms_tools_ext"))
    reason = "npu:0 was used, which --device=npu:3 leaves out"
    assert reason in words(seen.run.stderr)
    result: Any = msmemscope.analyze(kind, quiet=True, input_path=seen.run.capture.directory)
    assert reason in result.coverage.missing
    out = io.StringIO()
    render_missing(result.coverage, out)
    assert reason in words(out.getvalue())


def test_one_of_two_devices(compile_c: CompileC, observe_c: Observe) -> None:
    """The answer shows the chosen device, and says that the other one is missing."""
    both = "aclrtSetDevice(0); aclrtMalloc(&other, 64, 0); aclrtSetDevice(1);"
    text = LEAKY.replace("aclrtSetDevice(0);", both)
    program = compile_c(text, "ascendcl", "ascend_hal", "ms_tools_ext")
    seen = observe_c(["--device=npu:1"], program)
    result: Any = msmemscope.analyze("peak", quiet=True, input_path=seen.run.capture.directory)
    assert result.coverage.is_answered
    assert [device.device for device in result.devices] == [1]
    out = io.StringIO()
    render_limits(result.coverage, out)
    assert "Not seen: npu:0 was used, which --device=npu:1 leaves out" in words(out.getvalue())
    assert "npu:0 was used, which --device=npu:1 leaves out" in words(seen.run.stderr)


def test_a_program_with_its_own_device_alone(compile_c: CompileC, observe_c: Observe) -> None:
    """Nothing was left out, so nothing is said."""
    seen = observe_c(["--device=npu:0"], compile_c(LEAKY, "ascendcl", "ascend_hal", "ms_tools_ext"))
    assert "leaves out" not in seen.run.stderr
    assert "unobserved_device" not in seen.run.capture.facts


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--steps=9"], "steps 1 to 6 ended, --steps=9 did not happen"),
        (["--collect-mode=deferred"], "collection waited for msmemscope.start(), which was never called"),
        (["--events="], "--events= selects nothing"),
    ],
)
def test_nothing_recorded_although_cann_was_used(
    compile_c: CompileC, observe_c: Observe, options: list[str], reason: str
) -> None:
    """That the program loaded no library of CANN would be wrong."""
    seen = observe_c(["--device=npu", *options], compile_c(LEAKY, "ascendcl", "ascend_hal", "ms_tools_ext"))
    assert reason in words(seen.run.stderr)
    assert "library of CANN" not in words(seen.run.stderr)


def test_nothing_recorded_without_cann(observe_c: Observe) -> None:
    """Here it is the reason."""
    seen = observe_c(["--device=npu"], "true")
    assert "npu not observed: the program loaded no library of CANN" in words(seen.run.stderr)

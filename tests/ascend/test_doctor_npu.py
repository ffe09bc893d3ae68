"""`doctor` on the virtual NPU, and a run where no CANN is."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tests.support import tool

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import RunUnderTool


def test_every_layer_of_the_virtual_npu_can_be_observed(vnpu_environment: dict[str, str], tmp_path: Path) -> None:
    """Found where, in which version, and observable."""
    run = tool.run([*tool.TOOL, "doctor", f"--output={tmp_path}"], output=tmp_path, variables=vnpu_environment)
    assert run.returncode == 0, run.stdout
    found = dict(line[10:].split(": ", 1) for line in run.stdout.splitlines() if line.startswith("ok "))
    for layer in ("CANN", "driver (HAL)", "runtime (ACL)", "kernels", "mstx", "torch_npu", "DCMI"):
        assert layer in found, run.stdout
    assert found["CANN"].endswith(vnpu_environment["ASCEND_HOME_PATH"])


def test_npu_without_cann(run_under_tool: RunUnderTool) -> None:
    """The program runs as ever; the end of the summary says why nothing was seen and what to do."""
    variables = {"ASCEND_HOME_PATH": "", "ASCEND_TOOLKIT_HOME": ""}
    run = run_under_tool([sys.executable, "-c", "print('fine')"], "--device=npu:1", variables=variables)
    assert (run.returncode, run.stdout) == (0, "fine\n")
    text = " ".join(run.stderr.split())
    assert "npu:1 not observed: no CANN is set up here" in text
    assert text.count("not observed: ") == 1


def test_npu_with_a_cann_that_is_gone(run_under_tool: RunUnderTool, tmp_path: Path) -> None:
    """Another sentence."""
    variables = {"ASCEND_HOME_PATH": str(tmp_path / "gone")}
    run = run_under_tool([sys.executable, "-c", "print('fine')"], "--device=npu", variables=variables)
    assert (run.returncode, run.stdout) == (0, "fine\n")
    assert "names a CANN that is not there" in " ".join(run.stderr.split())

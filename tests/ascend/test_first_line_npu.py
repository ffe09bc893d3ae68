"""The first line of runs that did not observe an NPU, or not for long enough."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support import tool
from tests.support.ascend import PROGRAMS
from tests.support.targets import environment

if TYPE_CHECKING:
    from pathlib import Path

    from tests.ascend.conftest import Observe


def _said(text: str) -> str:
    return " ".join(text[text.index("\nmsmemscope: ") :].split())


def test_leaks_on_two_devices_are_said_with_both(observe: Observe) -> None:
    """Their bytes are added up, so the name of one would be wrong."""
    seen = observe(["--device=npu"], "first_lines.py", "two_devices", variables={"VNPU_DEVICES": "2"}, anew=True)
    assert "msmemscope: leak: 11.4 MiB in 12 blocks on npu:0, npu:1 at " in _said(seen.run.stderr)


def test_two_steps_are_too_few(observe: Observe) -> None:
    """To say that nothing leaks."""
    seen = observe(["--device=npu"], "first_lines.py", "few")
    assert "msmemscope: leaks not judged: 2 steps have ended, at least 3 are needed" in _said(seen.run.stderr)


def test_a_device_that_was_left_out_is_named(observe: Observe) -> None:
    """Before what was found on the others."""
    seen = observe(["--device=cpu"], "first_lines.py", "few")
    assert "msmemscope: npu:0 not observed: --device=cpu leaves it out; " in _said(seen.run.stderr)


def test_a_pool_that_was_there_before_us_is_not_observed(vnpu_environment: dict[str, str], tmp_path: Path) -> None:
    """torch_npu asks once who wants to know of its memory, for its first block."""
    run = tool.run(
        [sys.executable, PROGRAMS / "imported_late.py", tmp_path / "out"],
        output=tmp_path / "out", variables={**vnpu_environment, "VNPU_MEMORY": "1GiB"},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert (
        "msmemscope: npu not observed: torch_npu had set up its memory pool before msmemscope was there (import msmemscope "
        "before the first NPU tensor)"
    ) in _said(run.stderr)


@pytest.mark.usefixtures("tracing")
def test_an_npu_that_was_in_use_before_somebody_attached_is_not_observed(
    vnpu_environment: dict[str, str], tmp_path: Path
) -> None:
    """The first line says so, and the program goes on."""
    program = "import sys, torch, torch_npu\ntensor = torch.ones(9, device='npu')\nprint('ready', flush=True)\nsys.stdin.readline()\nprint(tensor.sum().item())"
    command = [sys.executable, "-c", program]
    variables = environment(**vnpu_environment)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        options = ["--for=0.5s", "--device=npu", f"--output={tmp_path}"]
        run = tool.run([*tool.TOOL, "attach", str(running.pid), *options], output=tmp_path)
        assert running.communicate("\n", timeout=60)[0] == "9.0\n"
    assert "npu not observed: torch_npu had set up its memory pool before" in " ".join(run.stderr.split()), run.stderr

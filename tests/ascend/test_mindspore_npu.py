"""The real MindSpore on the virtual NPU: its losses, its memory pool to the byte, a leak at its line.

Its wheel is large, so `make test-mindspore` runs these; elsewhere they are skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.ascend import PROGRAMS
from tests.support.targets import environment

if TYPE_CHECKING:
    from tests.ascend.conftest import Observe

PROGRAM = "mindspore_training.py"
FOLDER = Path(sys.prefix) / "mindspore"
STEPS = 6
TIMEOUT_S = 500

pytestmark = pytest.mark.skipif(
    not (FOLDER / "mindspore" / "__init__.py").is_file(),
    reason="MindSpore is not installed in this environment (make test-mindspore installs it)",
)


def answer_of(output: str) -> dict[str, Any]:
    """Return what the program printed."""
    (line,) = [line for line in output.splitlines() if line.startswith('{"losses"')]
    answer: dict[str, Any] = json.loads(line)
    return answer


@pytest.mark.slow
@pytest.mark.timeout(2 * TIMEOUT_S)
def test_training_is_recorded_to_the_byte_and_its_leak_is_found(
    observe: Observe, vnpu_environment: dict[str, str]
) -> None:
    """Losses are the CPU's, rows of the pool are what MindSpore says at each step, and the leak has its line."""
    path = os.pathsep.join([str(FOLDER), vnpu_environment["PYTHONPATH"]])
    options = ["--device=npu", "--call-stack=python", "--analysis=leaks"]
    seen = observe(options, PROGRAM, "Ascend", "leak", variables={"PYTHONPATH": path}, timeout_s=TIMEOUT_S)
    answer = answer_of(seen.run.stdout)
    on_cpu = subprocess.run(
        [sys.executable, PROGRAMS / PROGRAM, "CPU"],
        env=environment(PYTHONPATH=str(FOLDER)),
        capture_output=True,
        text=True,
        check=True,
        timeout=TIMEOUT_S,
    )
    losses = answer_of(on_cpu.stdout)["losses"]
    assert answer["losses"] == pytest.approx(losses, rel=1e-6)
    assert losses[-1] < losses[0] / 2

    pool = seen.of(0, event_type="MINDSPORE")
    steps = seen.of(0, event_type="STEP")
    assert len(steps) == len(answer["allocated"]) == STEPS
    signs = {"MALLOC": 1, "FREE": -1}
    for step, allocated in zip(steps, answer["allocated"], strict=True):
        live = sum(signs[row["Event"]] * int(row["attributes"]["size"]) for row in pool if row["ID"] < step["ID"])
        assert live == allocated

    lines = (PROGRAMS / PROGRAM).read_text().splitlines()
    (leak,) = [number for number, line in enumerate(lines, 1) if "# the leak" in line]
    found = seen.run.stderr.replace("\n    ", " ")
    assert "leak: " in found
    assert f"{PROGRAM}({leak})" in found.partition("leak: ")[2].partition("Peak on")[0]

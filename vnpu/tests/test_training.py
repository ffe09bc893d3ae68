"""The example of this repository trains on the virtual NPU with the CPU's losses, in every mode of torch_npu."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from vnpu.tests.programs import NIGHT, REPOSITORY, clean_environment, nightly, run_good

pytestmark = pytest.mark.slow

EXAMPLE = REPOSITORY / "examples" / "train_gpt.py"
STEPS = 50 if NIGHT else 10
SGD = ("--optimizer=sgd", f"--steps={STEPS}")
CLOSE = 1e-5  # of the loss, over all steps

MODES = {
    "task queue 0": {"TASK_QUEUE_ENABLE": "0"},
    "task queue 1": {"TASK_QUEUE_ENABLE": "1"},
    "task queue 2": {"TASK_QUEUE_ENABLE": "2"},
    "blocking": {"ASCEND_LAUNCH_BLOCKING": "1"},
    "expandable segments": {"PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True"},
}
MODES_BY_DAY = ("task queue 2",)
"""Other tests run with queue 1, without a queue, blocking, and with mapped segments."""


def losses_of(printed: str) -> list[float]:
    """The losses that the example printed."""
    return [float(loss) for loss in re.findall(r"^step \d+ loss (\S+)$", printed, re.MULTILINE)]


@pytest.fixture(scope="module")
def expected() -> list[float]:
    """The losses of torch on the CPU."""
    environment = clean_environment() | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    command = [sys.executable, str(EXAMPLE), "--device=cpu", *SGD]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return losses_of(ended.stdout)


@pytest.mark.parametrize("mode", [pytest.param(mode, marks=[] if mode in MODES_BY_DAY else nightly) for mode in MODES])
def test_losses_equal_those_of_the_cpu(expected: list[float], mode: str) -> None:
    losses = losses_of(run_good(EXAMPLE, *SGD, environment=MODES[mode]))
    assert len(losses) == len(expected) == STEPS
    assert losses[-1] < losses[0]
    assert losses == pytest.approx(expected, rel=0, abs=CLOSE)


@nightly
def test_the_example_runs_on_the_npu_by_itself() -> None:
    """No option is needed: where torch finds an NPU, it is used."""
    assert "device npu" in run_good(EXAMPLE, "--steps=2")


@pytest.mark.parametrize("soc", [pytest.param("Ascend910B1", marks=nightly), "Ascend910_9391"])
def test_both_generations_train_with_adamw(soc: str) -> None:
    losses = losses_of(run_good(EXAMPLE, f"--steps={30 if NIGHT else 10}", options=[f"--soc={soc}"]))
    assert losses[-1] < 0.8 * losses[0]

"""compute=none: the memory of jobs that no machine here could hold, on the real framework."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from vnpu.tests.programs import REPOSITORY, run_good, run_program

DRY_RUN = REPOSITORY / "vnpu" / "examples" / "dry_run.py"
WITHOUT_COMPUTE = ["--compute=none"]


def gibibytes(printed: str, name: str) -> float:
    """A figure that the example printed."""
    found = re.search(rf"^{name} +([\d.]+) GiB$", printed, re.MULTILINE)
    assert found, printed
    return float(found[1])


def test_a_step_of_seven_billion_parameters_fits() -> None:
    printed = run_good(DRY_RUN, "--size=7b", options=WITHOUT_COMPUTE)
    parameters = float(re.search(r"parameters +([\d.]+) billion", printed)[1])  # type: ignore[index]
    assert 6.5 < parameters < 7.5
    weights = parameters * 2e9 / (1 << 30)
    assert gibibytes(printed, "after the model") == pytest.approx(weights, rel=0.01)
    # Weights, gradients and the two moments of AdamW, all in bfloat16.
    assert gibibytes(printed, "after the step") == pytest.approx(4 * weights, rel=0.02)
    assert gibibytes(printed, "max_memory_allocated") < 64
    assert gibibytes(printed, "max_memory_reserved") < 64


def test_the_temporaries_of_a_foreach_optimizer_do_not_fit() -> None:
    ended = run_program(DRY_RUN, "--size=7b", "--foreach", options=WITHOUT_COMPUTE)
    assert ended.returncode == 1
    assert "torch.OutOfMemoryError" in ended.stderr
    assert "_foreach_sqrt" in ended.stderr


def test_thirteen_billion_parameters_do_not_fit() -> None:
    ended = run_program(DRY_RUN, "--size=13b", options=WITHOUT_COMPUTE)
    assert ended.returncode == 1
    assert "torch.OutOfMemoryError: NPU out of memory" in ended.stderr
    assert "64.00 GiB total capacity" in ended.stderr
    fitting = run_good(DRY_RUN, "--size=13b", options=[*WITHOUT_COMPUTE, "--memory=128GiB"])
    assert 90 < gibibytes(fitting, "max_memory_allocated") < 128


def test_the_weights_of_a_large_model_need_no_memory_of_the_machine(tmp_path: Path) -> None:
    program = tmp_path / "weights.py"
    program.write_text(
        "import resource, torch\n"
        "layers = [torch.empty(8192, 28672, dtype=torch.bfloat16, device='npu').normal_() for _ in range(300)]\n"
        "print(sum(layer.numel() for layer in layers) / 1e9, torch.npu.memory_allocated() / 2**30)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    parameters, allocated, resident = run_good(program, options=[*WITHOUT_COMPUTE, "--memory=160GiB"]).split()
    assert float(parameters) > 70  # billion
    assert float(allocated) > 130
    assert int(resident) < 1 << 20  # KiB: less than 1 GiB


def test_every_function_of_the_wheel_is_there(tmp_path: Path) -> None:
    """compute=none needs no kernel and no compiler: operators of every kind run, and only allocate."""
    program = tmp_path / "unusual.py"
    program.write_text(
        "import torch\n"
        "x = torch.randn(4, 8, device='npu')\n"
        "print(torch.linalg.qr(x)[0].shape, torch.special.digamma(x).shape, torch.inverse(x[:, :4]).shape)\n"
        "print(x.sort()[0].shape, torch.nn.functional.grid_sample(x.view(1, 1, 4, 8), torch.zeros(1, 5, 5, 2)"
        ".npu()).shape)\n"
    )
    environment = {"PATH": "/nowhere", "CXX": ""}
    assert "torch.Size([1, 1, 5, 5])" in run_good(program, options=WITHOUT_COMPUTE, environment=environment)


def test_indices_that_were_written_can_be_read_back(tmp_path: Path) -> None:
    program = tmp_path / "indices.py"
    program.write_text("import torch; print(torch.tensor([3, 1, 2]).npu().tolist())")
    assert run_good(program, options=WITHOUT_COMPUTE) == "[3, 1, 2]\n"

"""A tool injected through the mstx protocol sees the pools of the real torch_npu, and every driver allocation."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from virtual_npu.compiled_kernels import find_compiler
from vnpu.tests.programs import clean_environment, nightly, run_good, run_program

SOURCE = Path(__file__).parent / "native" / "mstx_tool.cpp"


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tool, under the name that torch_npu looks for."""
    library = tmp_path_factory.mktemp("tool") / "libascend_kernel_hook.so"
    compiler = find_compiler(clean_environment())
    command = [*compiler, "-std=c++17", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", str(SOURCE)]
    subprocess.run([*command, "-o", str(library), "-ldl"], check=True)
    return library


@pytest.mark.parametrize("task_queue", ["0", pytest.param("1", marks=nightly), "2"])
def test_sums_agree_at_every_step(tool: Path, task_queue: str) -> None:
    environment = {"LD_PRELOAD": str(tool), "TASK_QUEUE_ENABLE": task_queue}
    printed = run_good("observed_by_tool.py", environment=environment).split()
    workspaces, driver = int(printed[1]), int(printed[3])
    # Only with the second task queue does torch_npu take workspaces from a pool of their own.
    assert (workspaces > 0) == (task_queue == "2")
    assert driver > 0


def test_without_a_tool_calls_do_nothing() -> None:
    program = "import mstx; mstx.mark('a'); print(mstx.range_start('b'), mstx.get_tool_id()); mstx.range_end(1)"
    assert run_good("-c", program) == "0 0\n"


def test_a_wrong_argument_is_an_error() -> None:
    ended = run_program("-c", "import mstx; mstx.mark(3)")
    assert ended.returncode == 1
    assert "TypeError" in ended.stderr

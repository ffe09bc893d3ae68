"""Errors as on hardware, and faults on demand."""

from __future__ import annotations

from pathlib import Path

import pytest

from vnpu.tests.programs import nightly, run_good, run_program


def program(folder: Path, text: str) -> Path:
    """A program with that text."""
    file = folder / "program.py"
    file.write_text("import torch\n" + text)
    return file


def test_the_chosen_allocation_fails_and_the_next_one_does_not(tmp_path: Path) -> None:
    # Allocations 1 to 3 are the driver modules', 4 is the first segment; a failed one is tried again.
    text = "x = torch.empty(10, device='npu'); print(torch.npu.memory_stats()['num_alloc_retries'])"
    ended = run_program(program(tmp_path, text), options=["--faults=fail-allocation:4"])
    assert ended.returncode == 0
    assert ended.stdout == "1\n"
    assert "injected fault: driver allocation 4" in ended.stderr


def test_a_failing_initialisation_is_an_error(tmp_path: Path) -> None:
    ended = run_program(program(tmp_path, "torch.empty(1, device='npu')"), options=["--faults=fail-allocation:1"])
    assert ended.returncode == 1
    assert "no memory for the initialisation of module RUNTIME" in ended.stderr


def test_a_device_can_have_less_than_it_says(tmp_path: Path) -> None:
    text = (
        "free, total = torch.npu.mem_get_info()\n"
        "print(total >> 30, free >> 30)\n"
        "x = torch.empty(30 << 30, dtype=torch.uint8, device='npu')\n"
        "torch.empty(11 << 30, dtype=torch.uint8, device='npu')\n"
    )
    ended = run_program(program(tmp_path, text), options=["--faults=memory-limit:40GiB"])
    assert ended.stdout.startswith("64 63\n")
    assert ended.returncode == 1
    assert "torch.OutOfMemoryError" in ended.stderr


def test_an_operator_writes_behind_its_output(tmp_path: Path) -> None:
    text = (
        "import ctypes\n"
        "a = torch.ones(120, device='npu')\n"  # 480 bytes; 32 more belong to the block
        "for number in range(3):\n"
        "    b = a + a\n"
        "    torch.npu.synchronize()\n"
        "    behind = ctypes.string_at(b.data_ptr() + 480, 33)\n"
        "    print(b.cpu().unique().tolist(), behind == 32 * b'\\xa5' + b'\\0')\n"
    )
    options = ["--faults=overrun:aclnnAdd:2:32"]
    ended = run_program(program(tmp_path, text), options=options, environment={"TASK_QUEUE_ENABLE": "0"})
    assert ended.returncode == 0, ended.stderr
    # The outputs themselves are right. The third sum lies where the first one was.
    assert ended.stdout.splitlines() == ["[2.0] False", "[2.0] True", "[2.0] False"]
    assert "call 2 of aclnnAdd wrote 32 bytes behind its output" in ended.stderr


def test_a_missing_operator_fails_with_its_name(tmp_path: Path) -> None:
    text = (
        "x = torch.zeros(4, 4, device='npu')\n"
        "try:\n"
        "    import torch_npu\n"
        "    torch_npu.npu_moe_gating_top_k_softmax(x, None, k=2)\n"
        "except RuntimeError as error:\n"
        "    print(str(error))\n"
        "print((x + 1).sum().item())\n"
    )
    ended = run_program(program(tmp_path, text), environment={"ASCEND_LAUNCH_BLOCKING": "1"})
    assert "aclnnMoeGatingTopKSoftmax" in ended.stdout
    assert "no kernel in the virtual NPU" in ended.stdout
    assert "16.0" in ended.stdout  # with blocking launches the process stays usable


# Attempts after each failure: they would wait for a result, or put something on the device.
AFTER_A_FAILURE = """
attempts = {
    "synchronize": lambda: torch.npu.synchronize(),
    "read": lambda: good.tolist(),
    "compute": lambda: (good + 1).tolist(),
    "reduce": lambda: good.sum().item(),
    "make": lambda: torch.ones(2, device="npu").tolist(),
    "copy": lambda: torch.ones(2).to("npu"),
    "synchronize the stream": lambda: torch.npu.current_stream().synchronize(),
    "ask the stream": lambda: torch.npu.current_stream().query(),
}
for name, attempt in 2 * [*attempts.items()]:
    try:
        print("wrong:", name, "gives", attempt())
    except RuntimeError as error:
        print("right")
        last = str(error)
print(last.splitlines()[-1])
"""


@pytest.mark.parametrize("queue", ["0", pytest.param("1", marks=nightly), "2"])
def test_after_a_failed_task_every_call_raises(tmp_path: Path, queue: str) -> None:
    """Only the data shows that an index is out of range, so the failure comes with the kernel, later than the call."""
    text = (
        "good, table = torch.ones(3, device='npu'), torch.zeros(4, 4, device='npu')\n"
        "try:\n"
        "    torch.nn.functional.embedding(torch.tensor([9], device='npu'), table)\n"
        "    print('launched')\n"
        "except RuntimeError as error:\n"
        "    print('raised')\n"
        f"{AFTER_A_FAILURE}"
    )
    ended = run_program(program(tmp_path, text), environment={"TASK_QUEUE_ENABLE": queue})
    *lines, last = ended.stdout.splitlines()
    assert lines == ["raised" if queue == "0" else "launched", *16 * ["right"]], ended.stderr
    assert "aclnnEmbedding: index out of range in self" in last


def test_the_error_of_the_task_queue_names_the_operator(tmp_path: Path) -> None:
    text = (
        "table = torch.zeros(4, 4, device='npu')\n"
        "rows = torch.nn.functional.embedding(torch.tensor([9], device='npu'), table)\n"
        "print('launched')\n"
        "try:\n"
        "    torch.npu.synchronize()\n"
        "except RuntimeError as error:\n"
        "    print(str(error))\n"
    )
    ended = run_program(program(tmp_path, text), environment={"TASK_QUEUE_ENABLE": "1"})
    assert ended.stdout.startswith("launched\n")
    assert "aclnnEmbedding" in ended.stdout
    assert "index out of range" in ended.stderr


def test_the_older_interface_has_no_arguments_to_check_at_the_call(tmp_path: Path) -> None:
    text = (
        "good = torch.ones(3, device='npu')\n"
        "torch.nn.LSTMCell(3, 4).to('npu')(torch.ones(2, 5, device='npu'))\n"
        f"{AFTER_A_FAILURE}"
    )
    ended = run_program(program(tmp_path, text))
    *lines, last = ended.stdout.splitlines()
    assert lines == 16 * ["right"], ended.stderr
    assert "DynamicRNNV2: mat1 and mat2 shapes cannot be multiplied" in last


def test_a_wrong_argument_raises_at_each_call_and_is_forgotten(tmp_path: Path) -> None:
    text = (
        "for _ in range(3):\n"
        "    try:\n"
        "        torch.flip(torch.ones(2, 3, device='npu'), (1, 1))\n"
        "    except RuntimeError as error:\n"
        "        print(str(error).splitlines()[-1])\n"
        "    print((torch.ones(2, device='npu') + 1).tolist())\n"
    )
    lines = run_good(program(tmp_path, text)).splitlines()
    assert lines == 3 * ["aclnnFlip: dim 1 appears multiple times in the list of dims", "[2.0, 2.0]"]


def test_a_fraction_of_the_memory(tmp_path: Path) -> None:
    """torch_npu asks for the size of the memory before it has set a device."""
    text = (
        "x = torch.ones(4, device='npu')\n"
        "print(x.sum().item())\n"
        "try:\n"
        "    torch.empty(40 << 30, dtype=torch.uint8, device='npu')\n"
        "except torch.OutOfMemoryError:\n"
        "    print('half of 64 GiB')\n"
        "print(torch.empty(30 << 30, dtype=torch.uint8, device='npu').numel() >> 30)\n"
    )
    settings = {"PYTORCH_NPU_ALLOC_CONF": "per_process_memory_fraction:0.5"}
    assert run_good(program(tmp_path, text), environment=settings) == "4.0\nhalf of 64 GiB\n30\n"


def test_bounds_of_whole_numbers(tmp_path: Path) -> None:
    """torch_npu keeps the data type, so a bound that is no whole number has no result."""
    text = (
        "x = torch.arange(5, device='npu')\n"
        "print(torch.clamp(x, 1.0, 3.0).tolist(), torch.clamp(x, max=2.0).tolist())\n"
        "try:\n"
        "    print(torch.clamp(x, max=1.5).tolist())\n"
        "except RuntimeError as error:\n"
        "    print(str(error).splitlines()[-1])\n"
    )
    assert run_good(program(tmp_path, text)).splitlines() == [
        "[1, 1, 2, 3, 3] [0, 1, 2, 2, 2]",
        "aclnnClamp: result type Float can't be cast to the desired output type Long",
    ]


def test_a_wrong_device_is_an_error(tmp_path: Path) -> None:
    text = "print(torch.npu.device_count())\ntorch.npu.set_device(3)\n"
    ended = run_program(program(tmp_path, text), options=["--devices=2"])
    assert ended.stdout == "2\n"
    assert ended.returncode == 1
    assert "device 3 does not exist" in ended.stderr


def test_overhead_of_modules_is_visible_and_can_be_left_out(tmp_path: Path) -> None:
    text = "torch.npu.init(); free, total = torch.npu.mem_get_info(); print(total - free)"
    assert run_good(program(tmp_path, text), options=["--overhead="]) == "0\n"
    assert run_good(program(tmp_path, text), options=["--overhead=HCCL=1GiB,APP=1"]) == f"{(1 << 30) + 1}\n"

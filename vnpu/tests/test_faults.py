"""Errors as on hardware, and faults on demand."""

from __future__ import annotations

from pathlib import Path

from vnpu.tests.programs import run_good, run_program


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


def test_a_failing_operator_poisons_the_task_queue(tmp_path: Path) -> None:
    """The failure comes with the kernel, later than the call; the next synchronisation reports it."""
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

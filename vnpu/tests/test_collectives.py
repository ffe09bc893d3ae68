"""The emulated collectives: torch.distributed with the backend hccl, and the library's own interface."""

from __future__ import annotations

import ast
import functools
import re

import pytest

from vnpu.tests.programs import TARGET_PROGRAMS, nightly, run_good
from vnpu.tests.ranks import EndedRank, assert_good, run_ranks

pytest.importorskip("torch")

pytestmark = pytest.mark.slow

# The number of ranks, the chip, and the place where torch_npu makes its calls. TASK_QUEUE_ENABLE is 0 for the calling
# thread, 1 (the default) for a thread of its own, and 2 if that thread also prepares them. The larger chip has
# collectives with sizes for each rank.
SET_UPS = {
    "two ranks, A3": (2, ["--soc=Ascend910_9391"], {}),
    "three ranks, A3, task queue 2": (3, ["--soc=Ascend910_9391"], {"TASK_QUEUE_ENABLE": "2"}),
    "two ranks, no task queue": (2, [], {"TASK_QUEUE_ENABLE": "0"}),
}
BY_DAY = "two ranks, A3"
SET_UPS_BY_DAY_AND_NIGHT = [pytest.param(set_up, marks=[] if set_up == BY_DAY else nightly) for set_up in SET_UPS]


def checks_of(program: str) -> list[str]:
    """The names of a target program's checks, without running it."""
    for statement in ast.walk(ast.parse((TARGET_PROGRAMS / program).read_text())):
        if isinstance(statement, ast.AnnAssign) and getattr(statement.target, "id", "") == "CHECKS":
            assert isinstance(statement.value, ast.DictComp)
            names = statement.value.generators[0].iter
            assert isinstance(names, ast.Tuple)
            return [name.id for name in names.elts if isinstance(name, ast.Name)]
    raise AssertionError(program)


@functools.cache
def outcomes(set_up: str) -> tuple[EndedRank, ...]:
    """All checks of collectives.py, run once for each set-up."""
    count, options, environment = SET_UPS[set_up]
    return tuple(run_ranks("collectives.py", count=count, options=options, environment=environment))


@pytest.mark.torch
@pytest.mark.parametrize("check", checks_of("collectives.py"))
@pytest.mark.parametrize("set_up", SET_UPS_BY_DAY_AND_NIGHT)
def test_collective(set_up: str, check: str) -> None:
    for number, rank in enumerate(outcomes(set_up)):
        printed = {line["check"]: line["error"] for line in rank.lines()}
        assert check in printed, f"rank {number} did not come to this check; it ended with {rank.status}\n{rank.stderr}"
        assert printed[check] is None, f"rank {number}: {printed[check]}"


@pytest.mark.torch
@pytest.mark.parametrize("set_up", SET_UPS_BY_DAY_AND_NIGHT)
def test_ranks_end_well(set_up: str) -> None:
    assert_good(list(outcomes(set_up)))


@pytest.mark.torch
@pytest.mark.parametrize("way", ["ddp", "fsdp"])
def test_parallel_training_equals_training_by_one_process(way: str) -> None:
    assert_good(run_ranks("parallel_training.py", way))


def trouble(kind: str, **environment: str) -> list[str]:
    """The error of each rank in a situation of collective_failures.py."""
    options = ["--memory=1GiB"] if kind == "memory" else []
    ranks = run_ranks("collective_failures.py", kind, options=options, environment=environment)
    assert ranks[0].status == 0, ranks[0].stderr
    return [rank.stdout for rank in ranks]


def seconds(printed: str) -> float:
    """How long an error took to come."""
    found = re.search(r"after ([\d.]+) s", printed)
    assert found, printed
    return float(found[1])


@pytest.mark.torch
def test_the_death_of_a_peer_is_an_error_at_once() -> None:
    survivor, victim = trouble("death")
    assert "EI0002: " in survivor
    assert "HcclAllReduce: the process of rank 1 has ended" in survivor
    assert seconds(survivor) < 20
    assert victim == ""


@pytest.mark.torch
def test_a_peer_that_does_not_come_is_an_error_after_the_timeout() -> None:
    waiting, _ = trouble("absence", HCCL_EXEC_TIMEOUT="2")
    assert "HcclAllReduce: rank 1 did not come within 2 s (HCCL_EXEC_TIMEOUT)" in waiting
    assert 1.5 < seconds(waiting) < 20


@pytest.mark.torch
def test_different_calls_are_an_error_on_all_ranks() -> None:
    # Launched at once: through the task queue an error comes at some later call, and which one that is depends on timing.
    for printed in trouble("mismatch", ASCEND_LAUNCH_BLOCKING="1"):
        assert "HcclAllReduce of 4 float32, sum" in printed
        assert "HcclBroadcast of 4 float32, root 0" in printed


@pytest.mark.torch
def test_no_memory_for_a_communicator_is_out_of_memory() -> None:
    other, full = trouble("memory")
    assert full.startswith("OutOfMemoryError"), full
    assert "no memory for two buffers of 209715200 bytes (HCCL_BUFFSIZE)" in full
    assert other.startswith("RuntimeError"), other
    assert "rank 1 gave up" in other


@pytest.mark.torch
def test_the_device_shows_the_memory_of_communicators() -> None:
    assert_good(run_ranks("communicator_memory.py", environment={"HCCL_BUFFSIZE": "64"}))


@pytest.mark.torch
def test_without_compute_ranks_meet_and_large_data_stays_where_it_is() -> None:
    assert_good(run_ranks("collectives_without_compute.py", options=["--compute=none"]))


def test_interface_of_the_library() -> None:
    """Called without a framework, by threads of one process."""
    from virtual_npu.libraries import cann_folder

    printed = run_good("collective_interface.py", str(cann_folder() / "lib64"))
    assert printed.split()[-1] == "meetings"

"""Hooks that come with `analysis="decompose"`."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

import pytest

from msmemscope.capture.framework_hooks import cleanup_framework_hooks, init_framework_hooks
from msmemscope.capture.frameworks.automatic import disable_automatic_hooks, enable_automatic_hooks
from msmemscope.capture.sleep_modes import leave_sleep_modes, observe_sleep_modes
from tests.support.frameworks import framework_process, labels_in_force, listening

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.frameworks import FrameworkProcess

STATE = "torch.distributed.fsdp._fully_shard._fsdp_state"
ALLOCATOR = "vllm_ascend.device_allocator.camem"
RUNNER = "vllm_ascend.worker.model_runner_v1"


@pytest.fixture
def torch_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[FrameworkProcess]:
    """A process that can import a fake torch 2.9.1."""
    with framework_process("torch_2_9", monkeypatch) as process:
        yield process


@pytest.fixture
def vllm_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[FrameworkProcess]:
    """A process that can import a fake vllm_ascend 0.11, whose version only its installation knows."""
    installed = {"vllm-ascend": "0.11.0"}
    monkeypatch.setattr("importlib.metadata.version", lambda name: installed[name])
    with framework_process("vllm_ascend_0_11", monkeypatch) as process:
        yield process


def is_hooked(module: str, class_name: str, function: str) -> bool:
    """Whether a method has a wrapper."""
    return hasattr(getattr(getattr(importlib.import_module(module), class_name), function), "__wrapped__")


@pytest.mark.parametrize("is_imported", [False, True], ids=["before the import", "after the import"])
def test_labels_of_the_version_that_is_imported(torch_process: FrameworkProcess, is_imported: bool) -> None:  # noqa: FBT001
    """All components, the functions of this version, and nothing after disabling."""
    if is_imported:
        importlib.import_module(STATE)
    enable_automatic_hooks()
    assert ("torch" in sys.modules) is is_imported
    state = importlib.import_module(STATE).FSDPState
    collectives: Any = importlib.import_module("torch.distributed.fsdp._fully_shard._fsdp_collectives")
    seen: list[list[str]] = []
    with listening(lambda _name: seen.append(labels_in_force())):
        object.__new__(state)._pre_forward(None, (), {})
        collectives.foreach_reduce([], [])
    assert seen == [["fsdp2", "activation"], ["fsdp2", "model@gradient"]]
    assert is_hooked("torch.distributed.fsdp.fully_sharded_data_parallel", "FullyShardedDataParallel", "forward")
    assert torch_process.facts_of("unobserved.framework_hooks") == []
    disable_automatic_hooks()
    assert not is_hooked(STATE, "FSDPState", "_pre_forward")


def test_a_version_that_only_the_installation_knows(vllm_process: FrameworkProcess) -> None:
    """The decompose hooks only: no snapshots."""
    enable_automatic_hooks()
    runner = importlib.import_module(RUNNER).NPUModelRunner
    runner().profile_run()
    assert is_hooked(RUNNER, "NPUModelRunner", "profile_run")
    assert not is_hooked(RUNNER, "NPUModelRunner", "initialize_kv_cache")
    assert vllm_process.snapshots == []


def test_a_version_without_labels_is_noted(torch_process: FrameworkProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, and nothing is hooked."""
    torch = importlib.import_module("torch")
    monkeypatch.setattr(torch, "__version__", "2.2.0")
    for _ in range(2):
        enable_automatic_hooks()
        disable_automatic_hooks()
    assert torch_process.facts_of("unobserved.framework_hooks") == ["pytorch 2.2.0 has no labels of its own"]
    assert not is_hooked(STATE, "FSDPState", "_pre_forward")


def test_an_unknown_version_is_noted(vllm_process: FrameworkProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """The import of the program goes on."""

    def fail(name: str) -> str:
        raise LookupError(name)

    monkeypatch.setattr("importlib.metadata.version", fail)
    enable_automatic_hooks()
    importlib.import_module(RUNNER)
    noted = vllm_process.facts_of("unobserved.framework_hooks")
    assert noted == ["vllm_ascend: its version is not known (LookupError: vllm-ascend)"]


def test_enabling_and_disabling_many_times(torch_process: FrameworkProcess) -> None:
    """Hooks go on and off with collection; the function is the same object each time it is off."""
    original = importlib.import_module(STATE).FSDPState._pre_forward
    for _ in range(3):
        enable_automatic_hooks()
        enable_automatic_hooks()
        assert is_hooked(STATE, "FSDPState", "_pre_forward")
        disable_automatic_hooks()
        disable_automatic_hooks()
        assert importlib.import_module(STATE).FSDPState._pre_forward is original


@pytest.mark.parametrize("is_first", [True, False], ids=["before", "after"])
def test_the_programs_own_call_for_labels_counts_alone(torch_process: FrameworkProcess, is_first: bool) -> None:  # noqa: FBT001
    """Whenever it comes, no automatic hooks are there; disabling leaves the program's own."""
    if is_first:
        init_framework_hooks("pytorch", "2.9.1", "fsdp2", "decompose")
        enable_automatic_hooks()
    else:
        enable_automatic_hooks()
        init_framework_hooks("pytorch", "2.9.1", "fsdp2", "decompose")
    fsdp1 = ("torch.distributed.fsdp.fully_sharded_data_parallel", "FullyShardedDataParallel", "forward")
    assert not is_hooked(*fsdp1)
    disable_automatic_hooks()
    assert is_hooked(STATE, "FSDPState", "_pre_forward")
    enable_automatic_hooks()
    assert not is_hooked(*fsdp1)


def test_the_programs_call_for_snapshots_goes_beside_labels(vllm_process: FrameworkProcess) -> None:
    """Snapshots are no labels: the automatic ones stay, and only they end with collection."""
    enable_automatic_hooks()
    init_framework_hooks("vllm_ascend", "0.11.0", "worker", "snapshot")
    runner = importlib.import_module(RUNNER).NPUModelRunner()
    seen: list[list[str]] = []
    with listening(lambda _name: seen.append(labels_in_force())):
        runner.profile_run()
        disable_automatic_hooks()
        runner.profile_run()
    assert seen == [["vllm", "profile"], []]
    assert len(vllm_process.snapshots) == 4


def test_cleanup_takes_everything(torch_process: FrameworkProcess) -> None:
    """The automatic hooks too, until collection is enabled again."""
    enable_automatic_hooks()
    importlib.import_module(STATE)
    cleanup_framework_hooks()
    assert not is_hooked(STATE, "FSDPState", "_pre_forward")
    enable_automatic_hooks()
    assert is_hooked(STATE, "FSDPState", "_pre_forward")


@pytest.mark.parametrize("is_imported", [False, True], ids=["before the import", "after the import"])
def test_sleep_modes_are_observed_with_every_collection(vllm_process: FrameworkProcess, is_imported: bool) -> None:  # noqa: FBT001
    """A range around each call, and no labels, which nobody asked for; nothing after the end of collection."""
    if is_imported:
        importlib.import_module(ALLOCATOR)
    observe_sleep_modes()
    allocator = importlib.import_module(ALLOCATOR).CaMemAllocator()
    worker = importlib.import_module("vllm_ascend.worker.worker_v1").NPUWorker()
    with listening(lambda name: allocator.sleep() if name == "sleep" and len(vllm_process.ranges) == 1 else None):
        worker.sleep(level=2)
        allocator.wake_up(tags=["weights"])
    assert vllm_process.ranges == ["sleep", "sleep", 2, 1, "wake_up", 5]
    assert not is_hooked(RUNNER, "NPUModelRunner", "profile_run")
    leave_sleep_modes()
    allocator.sleep()
    assert len(vllm_process.ranges) == 6
    assert not is_hooked(ALLOCATOR, "CaMemAllocator", "sleep")


def test_sleep_modes_stay_where_the_program_chooses_its_labels(vllm_process: FrameworkProcess) -> None:
    """Labels are the program's then, ranges come all the same."""
    observe_sleep_modes()
    init_framework_hooks("vllm_ascend", "0.11.0", "worker", "decompose")
    importlib.import_module(ALLOCATOR).CaMemAllocator().sleep()
    assert vllm_process.ranges == ["sleep", 1]

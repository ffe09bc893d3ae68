"""Where a process stands in a job: environments of launchers, and stand-ins for what frameworks keep of it."""

from __future__ import annotations

import os
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from msmemscope.capture.framework_roles import role_of_frameworks
from msmemscope.capture.launcher_environment import place_in_environment
from msmemscope.capture.parallel_axes import coordinates_of_frameworks
from msmemscope.model.place import Place

_HOST = os.uname().nodename

_TORCHRUN = {
    "RANK": "5",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "8",
    "LOCAL_WORLD_SIZE": "4",
    "GROUP_RANK": "1",
    "TORCHELASTIC_RESTART_COUNT": "2",
    "ROLE_NAME": "default",
}
_SLURM = {
    "SLURM_PROCID": "9",
    "SLURM_LOCALID": "1",
    "SLURM_STEP_NUM_TASKS": "16",
    "SLURM_STEP_TASKS_PER_NODE": "4(x4)",
    "SLURMD_NODENAME": "node7",
    "SLURM_RESTART_COUNT": "1",
}
_OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "PMIX_RANK": "3",
}
_VERL = {"RANK": "2", "WORLD_SIZE": "4", "RAY_LOCAL_RANK": "0", "RAY_LOCAL_WORLD_SIZE": "2", "WG_BACKEND": "ray"}


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({}, Place()),
        (_TORCHRUN, Place(5, 1, 8, 4, _HOST, 2)),
        ({**_TORCHRUN, "ROLE_NAME": "trainer"}, Place(5, 1, 8, 4, _HOST, 2, "trainer")),
        (_SLURM, Place(9, 1, 16, 4, "node7", 1)),
        # One torchrun per host under srun: Slurm's numbers count the hosts.
        ({**_SLURM, **_TORCHRUN}, Place(5, 1, 8, 4, "node7", 2)),
        ({**_SLURM, "SLURM_STEP_TASKS_PER_NODE": "4,3"}, Place(9, 1, 16, None, "node7", 1)),
        (_OPEN_MPI, Place(3, 1, 4, 2, _HOST)),
        (
            {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"},
            Place(1, 1, 2, 2, _HOST),
        ),
        ({"PMIX_RANK": "1"}, Place(1, node=_HOST)),
        (_VERL, Place(2, 0, 4, 2, _HOST)),
        # A batch script that has started no step.
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "16"}, Place(0, node=_HOST)),
        ({"RANK": "-1", "WORLD_SIZE": "many"}, Place()),
        ({"RANK": "\u0661"}, Place()),
    ],
)
def test_the_place_in_an_environment_is_that_of_one_launcher(environment: dict[str, str], place: Place) -> None:
    """Numbers of different launchers are not mixed, and what is no number is not known."""
    assert place_in_environment(environment) == place


class _Group:
    """A process group as far as its own member sees it."""

    def __init__(self, description: str, position: int = 0, size: int = 1) -> None:
        self.group_desc = description
        self._position, self._size = position, size

    def rank(self) -> int:
        return self._position

    def size(self) -> int:
        return self._size


def _module(monkeypatch: pytest.MonkeyPatch, name: str, **content: Any) -> None:
    module = ModuleType(name)
    module.__dict__.update(content)
    monkeypatch.setitem(sys.modules, name, module)


@pytest.fixture(autouse=True)
def _no_frameworks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch.distributed.distributed_c10d", raising=False)


def _found(failures: list[str]) -> dict[str, tuple[int, int]]:
    return {axis: (one.position, one.size) for axis, one in coordinates_of_frameworks(failures.append).items()}


def _torch_groups(monkeypatch: pytest.MonkeyPatch, rank: int, groups: dict[object, dict[int, int]]) -> None:
    _module(
        monkeypatch,
        "torch.distributed.distributed_c10d",
        _world=SimpleNamespace(pg_group_ranks=groups),
        get_rank=lambda: rank,
    )


def test_groups_of_a_mesh_are_axes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The place of the own rank among those of a group; groups of others, and those without a known name, do not count."""
    groups: dict[object, dict[int, int]] = {
        _Group("default_pg"): {number: number for number in range(8)},
        -100: {4: 0, 5: 1},
        _Group("mesh_dp_replicate"): {1: 0, 5: 1},
        _Group("mesh_dp_shard"): {5: 0, 7: 1},
        _Group("mesh_tp"): {4: 0, 5: 1},
        _Group("PIPELINE_MODEL_PARALLEL_GROUP"): {5: 0},
        _Group("mesh_ep"): {0: 0, 1: 1},
    }
    _torch_groups(monkeypatch, 5, groups)
    failures: list[str] = []
    assert _found(failures) == {"data": (2, 4), "tensor": (1, 2), "pipeline": (0, 1)}
    assert failures == []


def _unset() -> int:
    message = "expert model parallel group is not initialized"
    raise AssertionError(message)


def test_a_frameworks_own_word_holds_against_names_of_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Megatron knows its axes exactly; an axis that it has not set up is not there."""
    _torch_groups(monkeypatch, 3, {_Group("TENSOR_MODEL_PARALLEL_GROUP"): {3: 0}, _Group("mesh_cp"): {3: 1, 2: 0}})
    _module(
        monkeypatch,
        "megatron.core.parallel_state",
        get_tensor_model_parallel_rank=lambda: 1,
        get_tensor_model_parallel_world_size=lambda: 2,
        get_pipeline_model_parallel_rank=lambda: 3,
        get_pipeline_model_parallel_world_size=lambda: 4,
        get_expert_model_parallel_rank=_unset,
        get_expert_model_parallel_world_size=_unset,
    )
    assert _found([]) == {"tensor": (1, 2), "pipeline": (3, 4), "context": (1, 2)}


def test_deepspeed_is_read_without_making_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own functions would make a group where there is none, which waits for all other processes."""

    def clones_the_world() -> int:
        pytest.fail("a process group was made")

    grid = SimpleNamespace(
        get_data_parallel_rank=lambda: 0,
        get_data_parallel_world_size=lambda: 2,
        get_pipe_parallel_rank=lambda: 1,
        get_pipe_parallel_world_size=lambda: 2,
        get_model_parallel_rank=lambda: 1,
        get_model_parallel_world_size=lambda: 2,
    )
    experts = {"ep_size_4": _Group("experts", 3, 4)}
    groups = {"mpu": grid, "_EXPERT_PARALLEL_GROUP": experts, "_get_data_parallel_rank": clones_the_world}
    _module(monkeypatch, "deepspeed.utils.groups", **groups)
    assert _found([]) == {"data": (0, 2), "tensor": (1, 2), "pipeline": (1, 2), "expert": (3, 4)}
    _module(monkeypatch, "deepspeed.utils.groups", **{**groups, "mpu": None, "_EXPERT_PARALLEL_GROUP": {}})
    assert _found([]) == {}


def test_vllm_groups_are_axes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups that are not set up are None, and are no axes."""
    tensor, data = SimpleNamespace(rank_in_group=3, world_size=8), SimpleNamespace(rank_in_group=0, world_size=2)
    _module(monkeypatch, "vllm.distributed.parallel_state", _TP=tensor, _DP=data, _PP=None)
    assert _found([]) == {"data": (0, 2), "tensor": (3, 8)}


def test_a_framework_that_is_different_is_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are read all the same."""
    _module(monkeypatch, "vllm.distributed.parallel_state", _TP=object())
    _torch_groups(monkeypatch, 0, {_Group("mesh_tp"): {0: 0, 1: 1}})
    failures: list[str] = []
    assert _found(failures) == {"tensor": (0, 2)}
    (failure,) = failures
    assert failure.startswith("vllm.distributed.parallel_state: AttributeError")


def _ray_actor(monkeypatch: pytest.MonkeyPatch, actor: object) -> str:
    _module(monkeypatch, "ray._private.worker", global_worker=SimpleNamespace(actors={b"1": actor}))
    return role_of_frameworks(pytest.fail)


def test_roles_are_those_of_verl_ray_and_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers of verl that share a process are named together; other actors by their class."""
    assert role_of_frameworks(pytest.fail) == ""
    shared = SimpleNamespace(worker_dict={"actor_rollout": object(), "ref": object()})
    assert _ray_actor(monkeypatch, shared) == "actor_rollout+ref"
    assert _ray_actor(monkeypatch, SimpleNamespace(fused_worker_dict={}, role="critic")) == "critic"
    assert _ray_actor(monkeypatch, _Group("x")) == "_Group"
    monkeypatch.delitem(sys.modules, "ray._private.worker")
    transfer = SimpleNamespace(kv_transfer_config=SimpleNamespace(kv_role="kv_producer"))
    _module(
        monkeypatch,
        "vllm.distributed.kv_transfer.kv_transfer_state",
        _KV_CONNECTOR_AGENT=SimpleNamespace(_vllm_config=transfer),
    )
    assert role_of_frameworks(pytest.fail) == "kv_producer"

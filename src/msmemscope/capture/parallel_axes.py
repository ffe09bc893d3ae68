"""The coordinates of this process along the axes of parallelism, as the frameworks that it has loaded know them.

Nothing is imported here, and nothing is asked that creates or waits for anything: only what is already there is read.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from msmemscope.model.place import AXES

TYPE_CHECKING = False  # typing itself is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Coordinate(NamedTuple):
    """A position along an axis, from 0, and how many there are."""

    position: int
    size: int


_AXIS_OF_GROUP = {
    **dict.fromkeys(("dp", "data", "ddp", "fsdp", "data_parallel"), "data"),
    **dict.fromkeys(("tp", "tensor", "tensor_parallel", "tensor_model_parallel"), "tensor"),
    **dict.fromkeys(("pp", "pipe", "pipeline", "pipeline_parallel", "pipeline_model_parallel"), "pipeline"),
    # Sequence parallelism of Ulysses divides the same as context parallelism does.
    **dict.fromkeys(("cp", "context", "context_parallel", "sp", "ulysses"), "context"),
    **dict.fromkeys(("ep", "expert", "expert_parallel", "expert_model_parallel"), "expert"),
}
"""The axis of each name of a DeviceMesh's dimension or of Megatron's process groups.

Names are in small letters, without `mesh_` and `_group`.
"""

_REPLICATED = ("dp_replicate", "replicate")
_SHARDED = ("dp_shard", "shard", "dp_shard_cp")
"""The two dimensions of hybrid sharding, which together are the data axis."""

_FUNCTIONS_OF_AXES = {
    "data": ("data_parallel",),
    "tensor": ("tensor_model_parallel", "model_parallel", "slice_parallel"),
    "pipeline": ("pipeline_model_parallel", "pipe_parallel"),
    "context": ("context_parallel", "sequence_parallel"),
    "expert": ("expert_model_parallel",),
}
"""X of the functions `get_X_rank` and `get_X_world_size`: of Megatron's and MindSpeed's parallel_state, and of what DeepSpeed
calls mpu, its own grid or Megatron's. Their `get_data_parallel_rank` creates nothing, unlike that of deepspeed.utils.groups."""

_VLLM_GROUPS = {"data": "_DP", "tensor": "_TP", "pipeline": "_PP", "context": "_PCP", "expert": "_EP"}


def coordinates_of_frameworks(on_failure: Callable[[str], None]) -> dict[str, Coordinate]:
    """Return the coordinates that are known now. If several know an axis, the framework's own word holds.

    Args:
        on_failure: Gets what went wrong with one of the frameworks, which is then left out.
    """
    found: dict[str, Coordinate] = {}
    for module_name, read in _READERS.items():
        module = sys.modules.get(module_name)
        if module is None:
            continue
        try:
            for axis, coordinate in read(module):
                if type(coordinate.position) is int and type(coordinate.size) is int:
                    found.setdefault(axis, coordinate)
        except Exception as error:  # noqa: BLE001 - a version that is different, or in the middle of its import
            on_failure(f"{module_name}: {type(error).__name__}: {error}")
    return {axis: found[axis] for axis in AXES if axis in found}


def _of_functions(owner: Any) -> Iterator[tuple[str, Coordinate]]:
    for axis, names in _FUNCTIONS_OF_AXES.items():
        for name in names:
            rank, size = (getattr(owner, f"get_{name}_{what}", None) for what in ("rank", "world_size"))
            if rank is None or size is None:
                continue
            try:
                yield axis, Coordinate(rank(), size())
                break
            except (AssertionError, AttributeError, TypeError, ValueError, RuntimeError):
                continue  # how they say that this axis is not set up


def _of_deepspeed(groups: Any) -> Iterator[tuple[str, Coordinate]]:
    if getattr(groups, "mpu", None) is not None:
        yield from _of_functions(groups.mpu)
    for group in getattr(groups, "_EXPERT_PARALLEL_GROUP", {}).values():
        yield "expert", Coordinate(group.rank(), group.size())


def _of_vllm(parallel_state: Any) -> Iterator[tuple[str, Coordinate]]:
    for axis, name in _VLLM_GROUPS.items():
        group = getattr(parallel_state, name, None)
        if group is not None:
            yield axis, Coordinate(group.rank_in_group, group.world_size)


def _of_process_groups(distributed: Any) -> Iterator[tuple[str, Coordinate]]:
    """By the descriptions of groups: DeviceMesh calls those of a dimension `mesh_tp`, Megatron calls them likewise."""
    # Filled for every group of this process, in the order in which they were made; what this process is not in is a number.
    ranks_of_groups = distributed._world.pg_group_ranks  # noqa: SLF001 - there is no public list of groups
    if not ranks_of_groups:
        return
    rank = distributed.get_rank()
    named: dict[str, Coordinate] = {}
    for group, ranks in list(ranks_of_groups.items()):
        description = getattr(group, "group_desc", None)
        if isinstance(description, str) and rank in ranks:
            name = description.lower().removeprefix("mesh_").removesuffix("_group")
            named.setdefault(name, Coordinate(ranks[rank], len(ranks)))
    for name, coordinate in named.items():
        if name in _AXIS_OF_GROUP:
            yield _AXIS_OF_GROUP[name], coordinate
    replicated = next((named[name] for name in _REPLICATED if name in named), None)
    sharded = next((named[name] for name in _SHARDED if name in named), None)
    if sharded is not None:
        outer = replicated or Coordinate(0, 1)
        yield "data", Coordinate(outer.position * sharded.size + sharded.position, outer.size * sharded.size)


_READERS: dict[str, Callable[[Any], Iterator[tuple[str, Coordinate]]]] = {
    "megatron.core.parallel_state": _of_functions,
    "vllm.distributed.parallel_state": _of_vllm,
    "deepspeed.utils.groups": _of_deepspeed,
    "torch.distributed.distributed_c10d": _of_process_groups,
}
"""By the module that knows, the most exact first. MindSpeed changes Megatron's, and has none of its own."""

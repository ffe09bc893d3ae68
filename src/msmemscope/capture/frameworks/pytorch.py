"""FSDP of PyTorch, the older kind (a module that wraps others) and the newer one (`fully_shard`)."""

from __future__ import annotations

from typing import Final

from msmemscope.capture.frameworks.targets import Framework, HookSet, HookType, functions
from msmemscope.model.labels import LabelLevel

_FSDP = "torch.distributed.fsdp"
_RUNTIME = f"{_FSDP}._runtime_utils"
_FLAT = f"{_FSDP}._flat_param"
_STATE = f"{_FSDP}._fully_shard._fsdp_state"
_GROUP = f"{_FSDP}._fully_shard._fsdp_param_group"
_PARAMETER = f"{_FSDP}._fully_shard._fsdp_param"
_COLLECTIVES = f"{_FSDP}._fully_shard._fsdp_collectives"

_FSDP1 = ("fsdp1", LabelLevel.COMPONENT)
_FSDP2 = ("fsdp2", LabelLevel.COMPONENT)
_ACTIVATION = ("activation", LabelLevel.PROCESS)
_BACKWARD = ("backward", LabelLevel.PROCESS)
_SHARDED_WEIGHT = ("sharded_weight", LabelLevel.DETAIL_1)
_ALL_GATHER = ("all_gather", LabelLevel.DETAIL_1)
_ALL_GATHER_OUTPUT = ("all_gather_output", LabelLevel.DETAIL_1)
_GRADIENT = ("gradient", LabelLevel.DETAIL_1)

_FSDP1_TARGETS = (
    *functions(
        f"{_FSDP}.fully_sharded_data_parallel", "FullyShardedDataParallel", "forward", labels=(_FSDP1, _ACTIVATION)
    ),
    *functions(_RUNTIME, "", "_pre_backward_hook _post_backward_hook", labels=(_FSDP1, _BACKWARD)),
    *functions(_FLAT, "FlatParamHandle", "_init_flat_param_and_metadata", labels=(_FSDP1, _SHARDED_WEIGHT)),
    *functions(_FLAT, "FlatParamHandle", "_alloc_padded_unsharded_flat_param", labels=(_FSDP1, _ALL_GATHER)),
    *functions(_RUNTIME, "", "_reduce_grad", labels=(_FSDP1, _GRADIENT)),
)

_FSDP2_TARGETS = (
    *functions(_STATE, "FSDPState", "_pre_forward _post_forward", labels=(_FSDP2, _ACTIVATION)),
    *functions(_STATE, "FSDPState", "_pre_backward", labels=(_FSDP2, _BACKWARD)),
    *functions(_GROUP, "FSDPParamGroup", "post_backward", labels=(_FSDP2, _BACKWARD)),
    *functions(_PARAMETER, "FSDPParam", "_init_sharded_param", labels=(_FSDP2, _SHARDED_WEIGHT)),
    # Made once; later their storage is given back and allocated again.
    *functions(
        _PARAMETER,
        "FSDPParam",
        "init_all_gather_outputs alloc_all_gather_outputs",
        labels=(_FSDP2, _ALL_GATHER_OUTPUT),
    ),
)

# The parameter group imports these by name, so each of the two modules has a name of its own for them.
_FSDP2_COLLECTIVES = tuple(
    target
    for module in (_COLLECTIVES, _GROUP)
    for target in (
        *functions(module, "", "foreach_all_gather", labels=(_FSDP2, _ALL_GATHER_OUTPUT)),
        *functions(module, "", "foreach_reduce", labels=(_FSDP2, _GRADIENT)),
    )
)

# From 2.10 on what is communicated is allocated by objects that a program can replace.
_FSDP2_ALLOCATORS = (
    *functions(_COLLECTIVES, "DefaultAllGather", "allocate", labels=(_FSDP2, _ALL_GATHER_OUTPUT)),
    *functions(_COLLECTIVES, "DefaultReduceScatter", "allocate", labels=(_FSDP2, _GRADIENT)),
)

PYTORCH: Final = Framework(
    name="pytorch",
    package="torch",
    distribution="torch",
    hook_sets=(
        HookSet("pytorch", "2.6+", "fsdp1", HookType.DECOMPOSE, _FSDP1_TARGETS),
        HookSet("pytorch", "2.6-2.9", "fsdp2", HookType.DECOMPOSE, (*_FSDP2_TARGETS, *_FSDP2_COLLECTIVES)),
        HookSet("pytorch", "2.10+", "fsdp2", HookType.DECOMPOSE, (*_FSDP2_TARGETS, *_FSDP2_ALLOCATORS)),
    ),
)

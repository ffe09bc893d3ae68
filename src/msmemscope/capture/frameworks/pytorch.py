"""PyTorch: FSDP, the older kind (a module that wraps others) and the newer one (`fully_shard`); DDP; functions of autograd."""

from __future__ import annotations

from typing import Final

from msmemscope.capture.frameworks.targets import Callback, Framework, HookSet, HookType, functions
from msmemscope.model.labels import MODEL_GRADIENT, MODEL_WEIGHT, OPS_ATEN, LabelLevel

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
_WEIGHT = (MODEL_WEIGHT, LabelLevel.DETAIL_1)
_GRADIENT = (MODEL_GRADIENT, LabelLevel.DETAIL_1)
_SHARDED_WEIGHT = ("sharded_weight", LabelLevel.DETAIL_2)
_ALL_GATHER = ("all_gather", LabelLevel.DETAIL_2)
_ALL_GATHER_OUTPUT = ("all_gather_output", LabelLevel.DETAIL_2)

_FSDP1_TARGETS = (
    *functions(
        f"{_FSDP}.fully_sharded_data_parallel", "FullyShardedDataParallel", "forward", labels=(_FSDP1, _ACTIVATION)
    ),
    *functions(_RUNTIME, "", "_pre_backward_hook _post_backward_hook", labels=(_FSDP1, _BACKWARD)),
    *functions(_FLAT, "FlatParamHandle", "_init_flat_param_and_metadata", labels=(_FSDP1, _WEIGHT, _SHARDED_WEIGHT)),
    *functions(_FLAT, "FlatParamHandle", "_alloc_padded_unsharded_flat_param", labels=(_FSDP1, _WEIGHT, _ALL_GATHER)),
    *functions(_RUNTIME, "", "_reduce_grad", labels=(_FSDP1, _GRADIENT)),
)

_FSDP2_TARGETS = (
    *functions(_STATE, "FSDPState", "_pre_forward _post_forward", labels=(_FSDP2, _ACTIVATION)),
    *functions(_STATE, "FSDPState", "_pre_backward", labels=(_FSDP2, _BACKWARD)),
    *functions(
        _GROUP, "FSDPParamGroup", "post_backward", labels=(_FSDP2, _BACKWARD), callback=Callback.SHARDED_GRADIENTS
    ),
    *functions(_PARAMETER, "FSDPParam", "_init_sharded_param", labels=(_FSDP2, _WEIGHT, _SHARDED_WEIGHT)),
    # Made once; later their storage is given back and allocated again.
    *functions(
        _PARAMETER,
        "FSDPParam",
        "init_all_gather_outputs alloc_all_gather_outputs",
        labels=(_FSDP2, _WEIGHT, _ALL_GATHER_OUTPUT),
    ),
)

# The parameter group imports these by name, so each of the two modules has a name of its own for them.
_FSDP2_COLLECTIVES = tuple(
    target
    for module in (_COLLECTIVES, _GROUP)
    for target in (
        *functions(module, "", "foreach_all_gather", labels=(_FSDP2, _WEIGHT, _ALL_GATHER_OUTPUT)),
        *functions(module, "", "foreach_reduce", labels=(_FSDP2, _GRADIENT)),
    )
)

# From 2.10 on what is communicated is allocated by objects that a program can replace.
_FSDP2_ALLOCATORS = (
    *functions(_COLLECTIVES, "DefaultAllGather", "allocate", labels=(_FSDP2, _WEIGHT, _ALL_GATHER_OUTPUT)),
    *functions(_COLLECTIVES, "DefaultReduceScatter", "allocate", labels=(_FSDP2, _GRADIENT)),
)

# Buckets are made with the reducer, and anew once it knows in which order gradients come.
_DDP_TARGETS = (
    *functions("torch.nn.parallel.distributed", "DistributedDataParallel", "_ddp_init_helper", labels=(_GRADIENT,)),
    *functions("torch._C._distributed_c10d", "Reducer", "_rebuild_buckets", labels=(_GRADIENT,)),
)

_AUTOGRAD_TARGETS = (
    *functions("torch.autograd.function", "FunctionCtx", "save_for_backward", callback=Callback.SAVED),
    # The first gradients of a backward pass are made before it runs, and the pass reads them. Without a label they
    # would look like saved tensors.
    *functions("torch.autograd", "", "_make_grads", labels=((OPS_ATEN, LabelLevel.DETAIL_1),)),
)
# Compiled code saves some tensors beside what it saves like others.
_COMPILED_TARGETS = functions(
    "torch._functorch._aot_autograd.runtime_wrappers",
    "_AutogradSavedState",
    "save_from_forward",
    callback=Callback.SAVED_BY_COMPILED,
)
_CHECKPOINT_TARGETS = functions(
    "torch.utils.checkpoint", "_CheckpointFrame", "save_inputs", callback=Callback.SAVED_BY_CHECKPOINT
)

PYTORCH: Final = Framework(
    name="pytorch",
    package="torch",
    distribution="torch",
    hook_sets=(
        HookSet("pytorch", "2.6+", "fsdp1", HookType.DECOMPOSE, _FSDP1_TARGETS),
        HookSet("pytorch", "2.6-2.9", "fsdp2", HookType.DECOMPOSE, (*_FSDP2_TARGETS, *_FSDP2_COLLECTIVES)),
        HookSet("pytorch", "2.10+", "fsdp2", HookType.DECOMPOSE, (*_FSDP2_TARGETS, *_FSDP2_ALLOCATORS)),
        HookSet("pytorch", "2.3+", "ddp", HookType.DECOMPOSE, _DDP_TARGETS),
        HookSet("pytorch", "2.3+", "autograd", HookType.DECOMPOSE, _AUTOGRAD_TARGETS),
        HookSet("pytorch", "2.13+", "compile", HookType.DECOMPOSE, _COMPILED_TARGETS),
        HookSet("pytorch", "2.13+", "checkpoint", HookType.DECOMPOSE, _CHECKPOINT_TARGETS),
    ),
)

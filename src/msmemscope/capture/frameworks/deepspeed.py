"""DeepSpeed: ZeRO, which keeps gradients in buffers of its own, and in stage 3 gathers weights that lie in parts.

The names hold in the published package 0.19.8. Parts of parameters (`ds_tensor`) are known from modules.
"""

from __future__ import annotations

from typing import Final

from msmemscope.capture.frameworks.targets import Callback, Framework, HookSet, HookType, functions
from msmemscope.model.labels import MODEL_GRADIENT, MODEL_WEIGHT, LabelLevel

_ZERO = "deepspeed.runtime.zero"
_STAGES_1_AND_2 = (f"{_ZERO}.stage_1_and_2", "DeepSpeedZeroOptimizer")
_STAGE_3 = (f"{_ZERO}.stage3", "DeepSpeedZeroOptimizer_Stage3")

_COMPONENT = ("zero", LabelLevel.COMPONENT)
_GRADIENT = (_COMPONENT, (MODEL_GRADIENT, LabelLevel.DETAIL_1))
_ALL_GATHER = (_COMPONENT, (MODEL_WEIGHT, LabelLevel.DETAIL_1), ("all_gather", LabelLevel.DETAIL_2))

_TARGETS = (
    *functions(*_STAGES_1_AND_2, "setup_buckets _build_compact_grad_partition_buffer", labels=_GRADIENT),
    *functions(*_STAGES_1_AND_2, "independent_gradient_partition_epilogue", callback=Callback.ZERO_GRADIENTS),
    *functions(
        *_STAGES_1_AND_2, "get_gradient_for_reduction _fill_param_grad_accum_attribute", callback=Callback.ZERO_GRADIENT
    ),
    *functions(*_STAGE_3, "_setup_for_real_optimizer", callback=Callback.ZERO_GRADIENTS),
    *functions(
        f"{_ZERO}.partitioned_param_coordinator",
        "PartitionedParameterCoordinator",
        "_PartitionedParameterCoordinator__all_gather_params",
        labels=_ALL_GATHER,
    ),
    # The received parts are put together where somebody waits for them.
    *(
        target
        for kind in ("AllGatherHandle", "AllGatherCoalescedHandle")
        for target in functions(f"{_ZERO}.partition_parameters", kind, "wait", labels=_ALL_GATHER)
    ),
    # Where a program asks for whole parameters (`GatheredParameters`).
    *functions(f"{_ZERO}.partition_parameters", "Init", "_all_gather", labels=_ALL_GATHER),
)

DEEPSPEED: Final = Framework(
    name="deepspeed",
    package="deepspeed",
    distribution="deepspeed",
    hook_sets=(HookSet("deepspeed", "0.19+", "zero", HookType.DECOMPOSE, _TARGETS),),
)

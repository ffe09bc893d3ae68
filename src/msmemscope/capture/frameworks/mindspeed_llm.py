"""MindSpeed LLM: training on Megatron, whose modules it changes.

Several classes are Megatron's own. The files of MindSpeed LLM only have functions that replace parts of them. So these
targets are looked for in both.
"""

from __future__ import annotations

from typing import Final

from msmemscope.capture.frameworks.targets import Framework, HookSet, HookType, Target, functions


def _snapshots(modules: str | tuple[str, ...], class_name: str, names: str) -> tuple[Target, ...]:
    return functions(modules, class_name, names, is_snapshot=True)


def _layers(module: str, class_name: str) -> tuple[Target, ...]:
    modules = (f"mindspeed_llm.core.transformer.{module}", f"megatron.core.transformer.{module}")
    return _snapshots(modules, class_name, "forward")


_OPTIMIZERS = (
    "MegatronOptimizer",
    "MixedPrecisionOptimizer",
    "Float16OptimizerWithFloat16Params",
    "FP32Optimizer",
    "ChainedOptimizer",
)

_TRAINING = (
    *_snapshots("mindspeed_llm.training.training", "", "train train_step"),
    *_snapshots("megatron.training.training", "", "setup_model_and_optimizer get_model"),
    *_snapshots("megatron.core.optimizer", "", "get_megatron_optimizer"),
    *_snapshots("mindspeed_llm.core.models.gpt.gpt_model", "GPTModel", "forward compute_language_model_loss"),
    *_layers("transformer_block", "TransformerBlock"),
    *_layers("transformer_layer", "TransformerLayer"),
    *_layers("attention", "SelfAttention"),
    *_layers("mlp", "MLP"),
    *_layers("moe.moe_layer", "MoELayer"),
    *_layers("moe.router", "TopKRouter"),
    *_snapshots("megatron.core.pipeline_parallel.schedules", "", "backward_step"),
    *_snapshots("mindspeed_llm.core.pipeline_parallel.dualpipe.gpt_model", "", "gpt_model_backward"),
    *_snapshots("megatron.core.tensor_parallel.cross_entropy", "", "vocab_parallel_cross_entropy"),
    *(
        target
        for optimizer in _OPTIMIZERS
        for target in _snapshots("megatron.core.optimizer.optimizer", optimizer, "step")
    ),
    *_snapshots("megatron.core.optimizer.distrib_optimizer", "DistributedOptimizer", "step_with_ready_grads"),
)

MINDSPEED_LLM: Final = Framework(
    name="mindspeed_llm",
    package="mindspeed_llm",
    distribution="mindspeed-llm",
    hook_sets=(HookSet("mindspeed_llm", "0.12.1", "training", HookType.SNAPSHOT, _TRAINING),),
)

"""Megatron-core in four processes: tensors cut in two, layers in two stages of a pipeline."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.nn import functional

import msmemscope
from tests.owner_truths import DEVICE
from tests.owner_truths.truth import moment

from .parallel import SavedBeside, join, leave

STEPS = 3
MICRO_BATCHES = 2
ROWS = 2
LENGTH = 16
VOCABULARY = 64
WIDTH = 32


def _model(configuration: Any, *, is_first: bool, is_last: bool) -> Any:
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec

    return GPTModel(
        config=configuration,
        transformer_layer_spec=get_gpt_layer_local_spec(normalization="RMSNorm"),
        vocab_size=VOCABULARY,
        max_sequence_length=LENGTH,
        pre_process=is_first,
        post_process=is_last,
        share_embeddings_and_output_weights=False,
    )


_type = torch.Tensor.type


def _type_of_cuda(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """The type of a tensor, by the name that Megatron-core compares it with."""
    result = _type(self, *args, **kwargs)
    return result.replace("torch.npu.", "torch.cuda.") if isinstance(result, str) else result


def gpt() -> None:
    """A GPT whose gradients are added up in buffers, with an optimizer in 32 bits for weights in 16."""
    if DEVICE == "npu":
        from torch_npu.contrib import transfer_to_npu  # noqa: F401 - Megatron-core asks for devices of CUDA

        torch.Tensor.type = _type_of_cuda
    device = join()
    from megatron.core import parallel_state, tensor_parallel
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
    from megatron.core.pipeline_parallel import get_forward_backward_func
    from megatron.core.transformer.transformer_config import TransformerConfig

    parallel_state.initialize_model_parallel(tensor_model_parallel_size=2, pipeline_model_parallel_size=2)
    tensor_parallel.model_parallel_cuda_manual_seed(1)
    configuration = TransformerConfig(
        num_layers=4,
        hidden_size=WIDTH,
        num_attention_heads=4,
        tensor_model_parallel_size=2,
        pipeline_model_parallel_size=2,
        pipeline_dtype=torch.bfloat16,
        params_dtype=torch.bfloat16,
        bf16=True,
        normalization="RMSNorm",
        add_bias_linear=False,
        gradient_accumulation_fusion=False,
        masked_softmax_fusion=False,
        bias_activation_fusion=False,
        bias_dropout_fusion=False,
        persist_layer_norm=False,
        use_cpu_initialization=True,
        finalize_model_grads_func=finalize_model_grads,
    )
    is_first, is_last = parallel_state.is_pipeline_first_stage(), parallel_state.is_pipeline_last_stage()
    inner = _model(configuration, is_first=is_first, is_last=is_last).to(device).bfloat16()
    model = DistributedDataParallel(
        configuration, DistributedDataParallelConfig(grad_reduce_in_fp32=True, bucket_size=4096), inner
    )
    chosen = OptimizerConfig(optimizer="adam", lr=1e-3, bf16=True, params_dtype=torch.bfloat16, clip_grad=1.0)
    optimizer = get_megatron_optimizer(chosen, [model])
    parts = optimizer.chained_optimizers
    buffers = [*model.buffers, *model.expert_parallel_buffers] if isinstance(model.buffers, list) else []
    saved = SavedBeside(list)

    def say(name: str) -> None:
        masters = [each for part in parts for group in part.fp32_from_float16_groups for each in group]
        weights = [*inner.parameters(), *inner.buffers(), *masters]
        gradients = [each.grad_data for each in buffers] + [each.grad for each in (*inner.parameters(), *masters)]
        gradients += [each.main_grad for each in inner.parameters()]
        states = [each for part in parts for held in part.optimizer.state.values() for each in held.values()]
        moment(name, weight=weights, gradient=gradients, optimizer_state=states, activation=saved)

    def forward(texts: Any, stage: Any) -> Any:
        tokens = next(texts)
        positions = torch.arange(LENGTH, device=device).expand(ROWS, LENGTH)
        mask = torch.ones(1, 1, LENGTH, LENGTH, dtype=torch.bool, device=device).triu(1)
        with saved:
            result = stage(tokens, positions, mask)
        say("forward")
        return result, partial(_loss, tokens)

    for step in range(STEPS):
        saved = SavedBeside(list)
        texts = [torch.randint(0, VOCABULARY, (ROWS, LENGTH)).to(device) for _ in range(MICRO_BATCHES)]
        model.zero_grad_buffer()
        optimizer.zero_grad()
        say(f"zeroed {step}")
        get_forward_backward_func()(
            forward_step_func=forward,
            data_iterator=iter(texts),
            model=[model],
            num_microbatches=MICRO_BATCHES,
            seq_length=LENGTH,
            micro_batch_size=ROWS,
            forward_only=False,
        )
        say(f"gradients {step}")
        optimizer.step()
        say(f"step {step}")
        msmemscope.step()
    parallel_state.destroy_model_parallel()
    leave()


def _loss(tokens: torch.Tensor, scores: torch.Tensor) -> tuple[torch.Tensor, dict[str, Any]]:
    """The mean over the part of the vocabulary that this process has: enough of a loss."""
    loss = functional.softplus(scores.float()).mean() + 0 * tokens.float().mean()
    return loss, {}

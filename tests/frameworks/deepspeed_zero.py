"""ZeRO of DeepSpeed in two processes: bfloat16, with weights in 32 bits beside them."""

from __future__ import annotations

from typing import Any

import torch

import msmemscope
from tests.owner_truths.truth import moment, states_of

from .parallel import SavedBeside, batch, join, leave
from .trainers import small_model

STEPS = 3


def _train(stage: int, **options: Any) -> None:
    import deepspeed

    device = join()
    deepspeed.init_distributed(torch.distributed.get_backend())
    model = small_model().to(device)
    base = torch.optim.AdamW(model.parameters(), lr=1e-3)
    configuration = {
        "train_micro_batch_size_per_gpu": 4,
        "bf16": {"enabled": True},
        "gradient_clipping": 1.0,
        "zero_allow_untested_optimizer": True,
        "zero_optimization": {"stage": stage, "reduce_bucket_size": 8192, "allgather_bucket_size": 8192, **options},
    }
    engine, optimizer, _, _ = deepspeed.initialize(model=model, optimizer=base, config=configuration)
    weights, gradients = (_of_stage_3, _gradients_of_stage_3) if stage == 3 else (_of_stage_1, _gradients_of_stage_1)
    saved = SavedBeside(lambda: weights(engine.module, optimizer))

    def say(name: str) -> None:
        moment(
            name,
            weight=weights(engine.module, optimizer),
            gradient=[*gradients(engine.module, optimizer)],
            optimizer_state=states_of(optimizer.optimizer),
            activation=saved,
        )

    optimizer.optimizer.register_step_pre_hook(lambda *_: say("before the update"))
    engine.module.model.layers[0].register_forward_hook(
        lambda *told: told[2].register_hook(lambda _: say("backward")) and None
    )
    for step in range(STEPS):
        texts = batch(device)
        saved = SavedBeside(lambda: weights(engine.module, optimizer))
        with saved:
            loss = engine(input_ids=texts, labels=texts, use_cache=False).loss
        say(f"forward {step}")
        engine.backward(loss)
        say(f"gradients {step}")
        engine.step()
        say(f"step {step}")
        msmemscope.step()
    leave()


def _of_stage_1(module: torch.nn.Module, optimizer: Any) -> list[torch.Tensor]:
    """All tensors of the model as flat buffers, and this process's part of them in 32 bits."""
    flat = [*optimizer.bit16_groups_flat, *optimizer.single_partition_of_fp32_groups]
    return [*module.parameters(), *module.buffers(), *flat]


def _gradients_of_stage_1(module: torch.nn.Module, optimizer: Any) -> list[Any]:
    found = [getattr(each, name, None) for each in module.parameters() for name in ("grad", "grad_accum")]
    found += [each.grad for each in optimizer.single_partition_of_fp32_groups]
    for part in optimizer.averaged_gradients.values():
        found += [*(part or ()), getattr(part, "flat_partition", None)]
    found += [buffer for bucket in optimizer.ipg_buckets.values() for buffer in bucket.buffer]
    return [*found, optimizer.grads_in_partition]


def _of_stage_3(module: torch.nn.Module, optimizer: Any) -> list[torch.Tensor]:
    """Parts of parameters, whole ones while they are gathered, and this process's part in 32 bits."""
    parts = [each.ds_tensor for each in module.parameters()]
    flat = [*optimizer.fp16_partitioned_groups_flat, *optimizer.fp32_partitioned_groups_flat]
    return [*module.parameters(), *module.buffers(), *parts, *flat]


def _gradients_of_stage_3(module: torch.nn.Module, optimizer: Any) -> list[Any]:
    found = [each.grad for each in (*module.parameters(), *optimizer.fp32_partitioned_groups_flat)]
    for part in optimizer.averaged_gradients.values():
        found += part or ()
    found += [bucket.buffer for bucket in optimizer.ipg_buckets.values()]
    return [*found, optimizer.grad_partitions_flat_buffer]


def zero_1() -> None:
    """Each process has a part of the optimizer's state."""
    _train(1)


def zero_2() -> None:
    """And of the gradients."""
    _train(2)


def zero_3() -> None:
    """And of the weights."""
    _train(3, stage3_param_persistence_threshold=0, stage3_prefetch_bucket_size=4096)

"""verl: the worker that trains a policy, with its engine of `fully_shard`, as its trainers call it in each process."""

from __future__ import annotations

import functools
import tempfile
from typing import Any

import torch

import msmemscope
from tests.owner_truths.truth import Saved, moment, states_of, storages

from .parallel import SavedBeside, beside_shards, leave, local
from .trainers import LENGTH, ROWS, VOCABULARY, small_model

STEPS = 3
ROWS_AT_ONCE = 2


class SavedAndRead(SavedBeside):
    """The tensors that autograd saves and reads.

    Of the nested tensors here, `unbind` of the logits reads offsets, and `values` reads only shapes.
    """

    def note(self, *tensors: Any) -> None:
        """Take in what is read."""
        for each in tensors:
            if not each.is_nested:
                super().note(each)
            elif each.dim() > 2:  # logits
                super().note(each.offsets())


def _texts() -> Any:
    """Random texts, as verl hands them to its workers: without padding."""
    from verl.utils import tensordict_utils

    def nested(*texts: torch.Tensor) -> torch.Tensor:
        return torch.nested.as_nested_tensor(list(texts), layout=torch.jagged)

    return tensordict_utils.get_tensordict(
        {
            "input_ids": nested(*torch.randint(3, VOCABULARY, (ROWS, LENGTH))),
            "position_ids": nested(*torch.arange(LENGTH).repeat(ROWS, 1)),
            "loss_mask": nested(*torch.ones(ROWS, LENGTH)),
        },
        non_tensor_dict={"temperature": 1.0, "global_batch_size": 2 * ROWS},
    )


def _worker(*, offload: bool) -> Any:
    import verl

    # Before the classes are imported, as a program of its own would do it in a process of Ray.
    for component in ("TaskRunner", "worker"):
        msmemscope.init_framework_hooks("verl", verl.__version__, component, "snapshot")

    from verl.models.transformers import monkey_patch
    from verl.trainer.config import CheckpointConfig
    from verl.trainer.main_ppo_v0 import BaseTaskRunner
    from verl.workers.config import FSDPEngineConfig, FSDPOptimizerConfig, HFModelConfig, TrainingWorkerConfig
    from verl.workers.engine_workers import TrainingWorker
    from verl.workers.utils.losses import sft_loss

    BaseTaskRunner().add_critic_worker(None)
    # verl 0.9 asks trl for a class that it has no longer.
    monkey_patch.is_trl_available = lambda: False
    folder = tempfile.mkdtemp()
    small_model().save_pretrained(folder)
    configuration = TrainingWorkerConfig(
        model_type="language_model",
        model_config=HFModelConfig(
            path=folder,
            load_tokenizer=False,
            override_config={"attn_implementation": "eager"},
            use_remove_padding=False,
            enable_gradient_checkpointing=False,
        ),
        engine_config=FSDPEngineConfig(
            strategy="fsdp2",
            param_offload=offload,
            optimizer_offload=offload,
            use_torch_compile=False,
            use_dynamic_bsz=False,
            micro_batch_size_per_gpu=ROWS_AT_ONCE,
            infer_micro_batch_size_per_gpu=ROWS_AT_ONCE,
            max_token_len_per_gpu=ROWS * LENGTH,
            infer_max_token_len_per_gpu=ROWS * LENGTH,
        ),
        optimizer_config=FSDPOptimizerConfig(lr=1e-3, total_training_steps=STEPS),
        checkpoint_config=CheckpointConfig(),
    )
    worker = TrainingWorker(config=configuration)
    worker.set_loss_fn(functools.partial(sft_loss, config=None))
    worker.reset()
    return worker


def _train(*, offload: bool) -> None:
    worker = _worker(offload=offload)
    engine = worker.engine
    more = beside_shards(engine.module)
    saved = Saved()

    def say(name: str) -> None:
        parameters = list(engine.module.parameters())
        found = more()
        moment(
            name,
            weight=[*local([*parameters, *engine.module.buffers()]), *found["weight"]],
            gradient=[*local(each.grad for each in parameters if each.grad is not None), *found["gradient"]],
            optimizer_state=local(states_of(engine.optimizer)),
            activation=list(saved),
        )

    forward, update = engine.forward_step, engine.optimizer_step

    def forward_step(*words: Any, **named: Any) -> Any:
        nonlocal saved
        saved = SavedAndRead(lambda: more()["weight"])
        with saved:
            result = forward(*words, **named)
        say(f"forward {step}")
        return result

    def optimizer_step() -> Any:
        say(f"gradients {step}")
        norm = update()
        say(f"updated {step}")
        return norm

    engine.forward_step, engine.optimizer_step = forward_step, optimizer_step
    for step in range(STEPS):
        worker.train_batch(_texts())
        say(f"trained {step}")
        worker.infer_batch(_texts())
        say(f"step {step}")
        msmemscope.step()
    on_device = bool(storages(engine.module.parameters()))
    assert on_device != offload
    leave()


def worker() -> None:
    """Micro-batches, an update, and log probabilities of a policy."""
    _train(offload=False)


def offloading_worker() -> None:
    """The same, and between calls nothing of the model and its optimizer stays on the device."""
    _train(offload=True)

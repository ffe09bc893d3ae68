"""Trainings with transformers, peft and accelerate, and generation of text."""

from __future__ import annotations

import gc
import tempfile
from typing import TYPE_CHECKING, Any

import torch
import transformers

import msmemscope
from msmemscope.integrations.transformers import MsmemscopeCallback
from tests.owner_truths import DEVICE
from tests.owner_truths.truth import Noted, Saved, moment, parts_of, weights_of

if TYPE_CHECKING:
    from collections.abc import Callable

VOCABULARY = 96
ROWS = 4
LENGTH = 24
STEPS = 3


def small_model() -> Any:
    """A Llama of two layers, with random weights."""
    configuration = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=48,
        intermediate_size=80,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    return transformers.LlamaForCausalLM(configuration)


def samples(count: int) -> list[dict[str, torch.Tensor]]:
    """Random texts."""
    texts = torch.randint(3, VOCABULARY, (count, LENGTH))
    return [{"input_ids": text, "labels": text} for text in texts]


def in_backward(parameter: torch.Tensor, say: Callable[[], None]) -> None:
    """Say what there is as soon as a parameter has its gradient."""
    parameter.register_post_accumulate_grad_hook(lambda _: say())


def random_states_of_checkpoints() -> list[torch.Tensor]:
    """The states of random number generators that checkpoints keep beside their inputs, to compute the same again."""
    frames = [each for each in gc.get_objects() if type(each).__name__ == "_CheckpointFrame"]
    functions = [frame.recompute_fn for frame in frames]
    cells = [each.__closure__[each.__code__.co_freevars.index("fwd_cpu_state")] for each in functions]
    return [cell.cell_contents for cell in cells]


class Teller:
    """Says what a training has at each of its moments."""

    def __init__(self, model: torch.nn.Module) -> None:
        """Of a model; the optimizer is told when it is there."""
        self.model = model
        self.optimizer: Any = None
        self.saved = Saved()
        self.inputs = Noted()
        self.step = 0

    def say(self, name: str) -> None:
        """Say it."""
        known = parts_of(self.model, self.optimizer)
        kept = [*self.inputs, *random_states_of_checkpoints(), *self.saved]
        moment(f"{name} {self.step}", **known, activation=kept)


class Told(transformers.Trainer):
    """A trainer whose forward passes are told."""

    teller: Teller

    def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        """As it is."""
        self.teller.saved = Saved()
        with self.teller.saved:
            result = super().compute_loss(*args, **kwargs)
        self.teller.say("forward")
        return result


class Moments(transformers.TrainerCallback):
    """The moments of a trainer."""

    def __init__(self, teller: Teller) -> None:
        """That are told to one."""
        self.teller = teller

    def on_pre_optimizer_step(self, *_args: Any, optimizer: Any = None, **_kwargs: Any) -> None:
        """All gradients are there."""
        self.teller.optimizer = optimizer
        self.teller.say("gradients")

    def on_optimizer_step(self, *_args: Any, **_kwargs: Any) -> None:
        """The state too."""
        self.teller.say("updated")

    def on_step_end(self, *_args: Any, **_kwargs: Any) -> None:
        """Gradients are gone."""
        self.teller.say("step")
        self.teller.step += 1


def train(model: Any, teller: Teller, **arguments: Any) -> None:
    """Train with the trainer of transformers."""
    with tempfile.TemporaryDirectory() as folder:
        chosen = transformers.TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=ROWS,
            max_steps=STEPS,
            use_cpu=DEVICE == "cpu",
            optim="adamw_torch",
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            dataloader_pin_memory=False,
            **arguments,
        )
        trainer = Told(
            model, chosen, train_dataset=samples(ROWS * STEPS), callbacks=[Moments(teller), MsmemscopeCallback()]
        )
        trainer.teller = teller
        trainer.train()


def transformers_trainer() -> None:
    """The trainer, as programs use it."""
    model = small_model()
    teller = Teller(model)
    in_backward(model.model.layers[0].mlp.up_proj.weight, lambda: teller.say("backward"))
    train(model, teller)


def transformers_checkpointing() -> None:
    """The same with each layer run again in the backward pass: inputs of the layers are what is kept."""
    model = small_model()
    teller = Teller(model)

    def note(_module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        teller.inputs.note(*args, *kwargs.values(), *(kwargs.get("position_embeddings") or ()))

    for layer in model.model.layers:
        layer.register_forward_pre_hook(note, with_kwargs=True)
    train(model, teller, gradient_checkpointing=True)


def peft_lora() -> None:
    """Adapters of low rank on a frozen base."""
    import peft

    chosen = peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "up_proj"], task_type="CAUSAL_LM")
    model = peft.get_peft_model(small_model(), chosen)
    teller = Teller(model)
    adapters = [each for name, each in model.named_parameters() if "layers.0.mlp.up_proj.lora_A" in name]
    in_backward(adapters[0], lambda: teller.say("backward"))
    train(model, teller)


def accelerate_accumulation() -> None:
    """A loop of the program's own: two batches to a step, gradients clipped."""
    import accelerate

    accelerator = accelerate.Accelerator(cpu=DEVICE == "cpu", gradient_accumulation_steps=2)
    model = small_model()
    loader = torch.utils.data.DataLoader(samples(2 * ROWS * STEPS), batch_size=ROWS)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    teller = Teller(model)
    teller.optimizer = optimizer.optimizer
    for batch in loader:
        with accelerator.accumulate(model):
            teller.saved = Saved()
            with teller.saved:
                loss = model(**batch, use_cache=False).loss
            teller.say("forward")
            accelerator.backward(loss)
            teller.say("gradients")
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            teller.say("updated")
            optimizer.zero_grad()
            if accelerator.sync_gradients:
                teller.say("step")
                teller.step += 1
                msmemscope.step()


def transformers_generate() -> None:
    """A cache of keys and values holds ever more while texts grow."""
    model = small_model().to(DEVICE).eval()
    cache = transformers.DynamicCache(config=model.config)

    class Say(transformers.LogitsProcessor):
        def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            held = [tensor for layer in cache.layers for tensor in (layer.keys, layer.values)]
            moment(f"length {input_ids.shape[1]}", weight=weights_of(model), kv_cache=held)
            return scores

    prompt = torch.randint(3, VOCABULARY, (ROWS, LENGTH)).to(DEVICE)
    model.generate(
        prompt, max_new_tokens=5, do_sample=False, past_key_values=cache, logits_processor=[Say()], eos_token_id=None
    )

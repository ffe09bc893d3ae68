"""Fine-tuning and reinforcement learning with trl: SFT, and GRPO with a reward of the program's own."""

from __future__ import annotations

import tempfile
from typing import Any

import transformers

from msmemscope.integrations.transformers import MsmemscopeCallback
from tests.owner_truths import DEVICE
from tests.owner_truths.truth import Saved

from .trainers import ROWS, STEPS, Moments, Teller, small_model

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def _tokenizer() -> Any:
    """One number for each word."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    numbers = {word: number for number, word in enumerate(("<pad>", "<begin>", "<end>", *WORDS))}
    words = Tokenizer(models.WordLevel(numbers, unk_token="<pad>"))  # noqa: S106 - no password
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    names = {"pad_token": "<pad>", "bos_token": "<begin>", "eos_token": "<end>"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words, **names)


def _told(trainer_class: Any) -> Any:
    """The class, with forward passes that are told."""

    class Told(trainer_class):
        teller: Teller

        def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
            self.teller.saved = Saved()
            with self.teller.saved:
                result = super().compute_loss(*args, **kwargs)
            self.teller.say("forward")
            return result

    return Told


def _arguments(folder: str, **more: Any) -> dict[str, Any]:
    return {
        "output_dir": folder,
        "per_device_train_batch_size": ROWS,
        "max_steps": STEPS,
        "use_cpu": DEVICE == "cpu",
        "optim": "adamw_torch",
        "report_to": [],
        "save_strategy": "no",
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
        "gradient_checkpointing": False,
        "bf16": False,
        **more,
    }


def sft() -> None:
    """Texts that are learnt."""
    import datasets
    import trl

    model = small_model()
    teller = Teller(model)
    texts = [" ".join(WORDS[(row + place) % 10] for place in range(12)) for row in range(ROWS * STEPS)]
    with tempfile.TemporaryDirectory() as folder:
        trainer = _told(trl.SFTTrainer)(
            model,
            trl.SFTConfig(**_arguments(folder)),
            train_dataset=datasets.Dataset.from_dict({"text": texts}),
            processing_class=_tokenizer(),
            callbacks=[Moments(teller), MsmemscopeCallback()],
        )
        trainer.teller = teller
        trainer.train()


def grpo() -> None:
    """Texts that the model writes itself, and is rewarded for."""
    import datasets
    import trl

    model = small_model()
    teller = Teller(model)

    def reward(completions: list[str], **_more: Any) -> list[float]:
        return [float(len(set(text.split()))) for text in completions]

    with tempfile.TemporaryDirectory() as folder:
        trainer = _told(trl.GRPOTrainer)(
            model,
            reward,
            trl.GRPOConfig(**_arguments(folder, num_generations=2, max_completion_length=8)),
            train_dataset=datasets.Dataset.from_dict({"prompt": [f"{word} one" for word in WORDS]}),
            processing_class=_tokenizer(),
            callbacks=[Moments(teller), MsmemscopeCallback()],
        )
        trainer.teller = teller
        trainer.train()

"""Trains a small GPT-2 with the Trainer of Hugging Face transformers, with an evaluation after each epoch."""

from __future__ import annotations

import argparse
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

WIDTH, LAYERS, HEADS, CONTEXT, VOCABULARY, BATCH = 256, 4, 4, 128, 1024, 8


def main() -> None:
    """Train for two epochs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40, help="optimizer steps of both epochs together")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=VOCABULARY, n_positions=CONTEXT, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS)
    )
    texts = torch.randint(VOCABULARY, (arguments.steps * BATCH // 2, CONTEXT))
    data = [{"input_ids": text, "labels": text} for text in texts]
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            folder,
            num_train_epochs=2,
            per_device_train_batch_size=BATCH,
            eval_strategy="epoch",
            save_strategy="no",
            use_cpu=True,
            report_to=[],
        )
        Trainer(model, settings, train_dataset=data, eval_dataset=data[: 4 * BATCH]).train()


if __name__ == "__main__":
    main()

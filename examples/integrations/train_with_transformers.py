"""Train with the Trainer of Hugging Face transformers, and collect the memory events of its second and third step.

python train_with_transformers.py

Needs transformers and accelerate. The model is a stand-in that trains in seconds on a CPU.
"""

from __future__ import annotations

import argparse
import tempfile

import torch
from torch import nn
from transformers import Trainer, TrainingArguments

from msmemscope.integrations.transformers import MsmemscopeCallback


class Model(nn.Module):
    """A layer that returns its loss, as models of transformers do."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 1)

    def forward(self, values: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        """Map (batch, 64) values to (batch, 1) predictions."""
        predictions = self.layer(values)
        return {"loss": nn.functional.mse_loss(predictions, labels), "logits": predictions}


def main() -> None:
    """Train for two epochs of four optimizer steps each."""
    parser = argparse.ArgumentParser(description="Train with transformers under msmemscope.")
    parser.add_argument("--output", default="memscopeDumpResults", help="where msmemscope writes its results")
    parser.add_argument("--steps", default="2,3", help="optimizer steps to collect")
    arguments = parser.parse_args()

    data = [{"values": torch.randn(64), "labels": torch.randn(1)} for _ in range(16)]
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            folder,
            num_train_epochs=2,
            per_device_train_batch_size=2,
            gradient_accumulation_steps=2,
            eval_strategy="epoch",
            save_strategy="no",
            report_to=[],
        )
        callback = MsmemscopeCallback(steps=arguments.steps, output=arguments.output)
        trainer = Trainer(Model(), settings, train_dataset=data, eval_dataset=data[:4], callbacks=[callback])
        trainer.train()
    print(f"optimizer_steps={trainer.state.global_step}")


if __name__ == "__main__":
    main()

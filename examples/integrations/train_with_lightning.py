"""Train with the Trainer of Lightning, and collect the memory events of its second and third step.

python train_with_lightning.py

Needs lightning (or pytorch-lightning, with its name in the imports).
"""

from __future__ import annotations

import argparse
from typing import Any

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader

from msmemscope.integrations.lightning import MsmemscopeCallback


class Module(lightning.LightningModule):
    """A layer and its optimizer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 1)

    def training_step(self, batch: torch.Tensor, batch_index: int) -> torch.Tensor:  # noqa: ARG002
        """The loss of a batch."""
        loss: torch.Tensor = self.layer(batch).square().mean()
        return loss

    def validation_step(self, batch: torch.Tensor, batch_index: int) -> None:  # noqa: ARG002
        """Look at a batch that is not trained on."""
        self.layer(batch)

    def configure_optimizers(self) -> Any:
        """Plain gradient descent."""
        return torch.optim.SGD(self.parameters(), lr=0.01)


def main() -> None:
    """Train for two epochs of three optimizer steps each."""
    parser = argparse.ArgumentParser(description="Train with Lightning under msmemscope.")
    parser.add_argument("--output", default="memscopeDumpResults", help="where msmemscope writes its results")
    parser.add_argument("--steps", default="2,3", help="optimizer steps to collect")
    arguments = parser.parse_args()

    data = DataLoader(torch.randn(8, 64), batch_size=1)
    trainer = lightning.Trainer(
        max_epochs=2,
        accumulate_grad_batches=3,
        callbacks=[MsmemscopeCallback(steps=arguments.steps, output=arguments.output)],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Module(), data, data)
    print(f"optimizer_steps={trainer.global_step}")


if __name__ == "__main__":
    main()

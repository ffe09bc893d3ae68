"""A Trainer of transformers whose subclass keeps each loss with its graph; nothing in here knows of the tool.

Usage: trainer_that_keeps_losses.py FOLDER
"""

import sys

import torch
import transformers


class Regression(torch.nn.Module):
    """A small model that works out its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = torch.nn.Linear(8, 64)
        self.last = torch.nn.Linear(64, 1)

    def forward(self, values: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        """Returns what trainers expect."""
        guess = self.last(torch.tanh(self.hidden(values)))
        return {"loss": torch.nn.functional.mse_loss(guess.squeeze(-1), labels), "logits": guess}


class LossTrainer(transformers.Trainer):
    """Keeps the losses, for a plot."""

    def __init__(self, *arguments: object, **keywords: object) -> None:
        super().__init__(*arguments, **keywords)
        self.history: list[torch.Tensor] = []

    def compute_loss(
        self, model: torch.nn.Module, inputs: dict[str, torch.Tensor], **_keywords: object
    ) -> torch.Tensor:
        """As usual, but nothing of it is ever let go."""
        loss = model(**inputs)["loss"]
        self.history.append(loss * inputs["values"].abs().mean())  # LEAK
        return loss


def main() -> None:
    """Train."""
    data = [{"values": torch.ones(8) * number, "labels": torch.tensor(float(number))} for number in range(96)]
    arguments = transformers.TrainingArguments(
        sys.argv[1],
        per_device_train_batch_size=4,
        num_train_epochs=1,
        report_to=[],
        logging_strategy="no",
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
    )
    LossTrainer(model=Regression(), args=arguments, train_dataset=data).train()


main()

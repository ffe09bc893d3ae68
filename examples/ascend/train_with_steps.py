"""Train on an NPU with the steps marked for tools, as the package mstx beside CANN does it.

msmemscope --device=npu python train_with_steps.py

It runs unchanged on hardware and on the virtual NPU (`vnpu run -- msmemscope --device=npu python train_with_steps.py`).
Three things are wrong with it, as they are with real programs:

- the losses of all steps are kept with their graphs, so memory grows with every step;
- a buffer is allocated at the beginning that nobody uses before the end;
- the table of the vocabulary is copied to the device twice.
"""

from __future__ import annotations

import argparse

import mstx
import torch
from torch import nn
from torch.nn import functional

VOCABULARY = 512
WIDTH = 128
CONTEXT = 32
BATCH = 16


class Model(nn.Module):
    """An embedding, two layers, and a score for each word of the vocabulary."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )
        self.scores = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Map (batch, context) words to (batch, context, vocabulary) scores."""
        x = self.words(words)
        return self.scores(x + self.layers(x))


def main() -> None:
    """Train, with a mark for each phase and a range for each step."""
    parser = argparse.ArgumentParser(description="Train a small model on an NPU.")
    parser.add_argument("--steps", type=int, default=8, help="optimizer steps")
    parser.add_argument("--no-leak", action="store_true", help="do not keep the losses")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    mstx.mark("set-up")
    evaluation_buffer = torch.zeros(4 << 20, dtype=torch.float32, device="npu")  # 16 MiB, idle until the end
    table = torch.arange(VOCABULARY).npu()
    unused_copy = table.clone()  # noqa: F841  # see above
    model = Model().npu()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    history = []
    generator = torch.Generator().manual_seed(1)
    mstx.mark("training")
    for step in range(1, arguments.steps + 1):
        number = mstx.range_start("step start", None)
        words = torch.randint(VOCABULARY, (BATCH, CONTEXT + 1), generator=generator).npu()
        loss = functional.cross_entropy(model(words[:, :-1]).flatten(0, 1), table[words[:, 1:]].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if not arguments.no_leak:
            # Meant for a curve. Without .item() each entry keeps its graph, and with it all activations of the step.
            history.append(functional.cross_entropy(model(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten()))
        print(f"step {step} loss {loss.item()!r}")
        mstx.range_end(number)

    mstx.mark("evaluation")
    with torch.no_grad():
        evaluation_buffer[: BATCH * CONTEXT * VOCABULARY] = model(words[:, :-1]).flatten()
    print(f"largest score {evaluation_buffer.max().item():.4f}")


if __name__ == "__main__":
    main()

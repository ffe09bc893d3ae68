"""Trains a small GPT on the CPU beside a tensor of 64 MiB that it does not use, and prints the time of a step.

The size of the model is fixed, about 360 operators a step, so that what is added to a step tells what one look costs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import torch
from torch import nn
from torch.nn import functional

WIDTH, LAYERS, HEADS, CONTEXT, VOCABULARY, BATCH = 128, 4, 4, 64, 64, 16
WATCHED_BYTES = 64 << 20
WARM_UP = 1


class Block(nn.Module):
    """Causal self-attention, then a feed-forward network."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention = nn.LayerNorm(WIDTH)
        self.attention = nn.Linear(WIDTH, 3 * WIDTH)
        self.projection = nn.Linear(WIDTH, WIDTH)
        self.network = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, context, width) to the same shape."""
        heads = self.attention(self.before_attention(x)).view(BATCH, CONTEXT, 3, HEADS, WIDTH // HEADS)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projection(mixed.transpose(1, 2).reshape(BATCH, CONTEXT, WIDTH))
        return x + self.network(x)


def main() -> None:
    """Measure, and print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--watch", action="store_true", help="watch the tensor of 64 MiB")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Embedding(VOCABULARY, WIDTH),
        *(Block() for _ in range(LAYERS)),
        nn.LayerNorm(WIDTH),
        nn.Linear(WIDTH, VOCABULARY),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    codes = torch.randint(VOCABULARY, (BATCH, CONTEXT + 1))
    beside = torch.randint(256, (WATCHED_BYTES,), dtype=torch.uint8)
    if arguments.watch:
        import msmemscope

        msmemscope.watcher.watch(beside, name="beside", dump_nums=0)

    def step() -> float:
        begin = time.perf_counter()
        loss = functional.cross_entropy(model(codes[:, :-1]).flatten(0, 1), codes[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return (time.perf_counter() - begin) * 1e3

    for _ in range(WARM_UP):
        step()
    print(json.dumps({"value": statistics.median(step() for _ in range(arguments.steps))}))


if __name__ == "__main__":
    main()

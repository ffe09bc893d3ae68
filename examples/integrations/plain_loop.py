"""The same for a loop of one's own, with no framework around it: four lines.

python plain_loop.py
"""

from __future__ import annotations

import argparse

import torch
from torch import nn

import msmemscope


def main() -> None:
    """Train for four optimizer steps, with the gradients of two batches in each."""
    parser = argparse.ArgumentParser(description="Train in a plain loop under msmemscope.")
    parser.add_argument("--output", default="memscopeDumpResults", help="where msmemscope writes its results")
    arguments = parser.parse_args()

    model = nn.Linear(64, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    batches = [torch.randn(2, 64) for _ in range(8)]

    msmemscope.config(steps=[2, 3], call_stack="python", output=arguments.output)
    with msmemscope.collect():
        for number, batch in enumerate(batches, start=1):
            with msmemscope.RecordFunction("forward"):
                loss = model(batch).square().mean()
            loss.backward()
            if number % 2 == 0:
                optimizer.step()
                optimizer.zero_grad()
                msmemscope.step()
    print(f"optimizer_steps={len(batches) // 2}")


if __name__ == "__main__":
    main()

"""A job of several ranks; each rank trains and keeps a tensor per step at the same line.

Arguments: how many ranks, how many steps.
"""

from __future__ import annotations

import os
import sys

import torch

import msmemscope

kept: list[torch.Tensor] = []


def train(steps: int) -> None:
    """Take the steps of one rank."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Linear(256, 256)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        loss = model(torch.ones(64, 256)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        kept.append(torch.zeros(512, 256))
        msmemscope.step()


def main() -> int:
    """Start the ranks as a launcher of jobs does, but forked: they need no import of torch each."""
    ranks, steps = int(sys.argv[1]), int(sys.argv[2])
    children = []
    for rank in range(ranks):
        child = os.fork()
        if child == 0:
            os.environ["RANK"] = str(rank)
            train(steps)
            os._exit(0)
        children.append(child)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


if __name__ == "__main__":
    raise SystemExit(main())

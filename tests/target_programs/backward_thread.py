"""A custom autograd function, behind a module, allocates in its backward, which another thread may run."""

from __future__ import annotations

import threading
from typing import Any

import torch

FORWARD_BYTES = 1_000_064
BACKWARD_BYTES = 1_000_128
ROUNDS = 4


class Scratch(torch.autograd.Function):
    """Doubles its input, with a scratch tensor of a known size in each direction."""

    @staticmethod
    def forward(_context: Any, x: torch.Tensor) -> torch.Tensor:
        """Double."""
        torch.empty(FORWARD_BYTES, dtype=torch.uint8).zero_()
        return x * 2

    @staticmethod
    def backward(_context: Any, gradient: torch.Tensor) -> torch.Tensor:
        """Double the gradient."""
        torch.empty(BACKWARD_BYTES, dtype=torch.uint8).zero_()
        return gradient * 2


def train(rounds: int) -> None:
    """Run forward and backward."""
    layer = torch.nn.Linear(16, 16)
    for _ in range(rounds):
        x = torch.ones(16, requires_grad=True)
        Scratch.apply(layer(x)).sum().backward()


def main() -> None:
    """Train in the main thread and in another one, and say what was allocated."""
    train(ROUNDS)
    other = threading.Thread(target=train, args=(ROUNDS,))
    other.start()
    other.join()
    print(f"forward_size={FORWARD_BYTES} backward_size={BACKWARD_BYTES} rounds={2 * ROUNDS}")


if __name__ == "__main__":
    main()

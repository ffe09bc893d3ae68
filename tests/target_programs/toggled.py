"""Trains while another thread begins and stops collection again and again, at any moment of an operator.

Usage: toggled.py [OUTPUT]: without it nobody collects. Prints a digest of all losses, and the dispatch mode that is left.
"""

from __future__ import annotations

import hashlib
import sys
import threading
import time
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

import msmemscope

STEPS = 600


class Square(torch.autograd.Function):
    """Runs Python code in the middle of a backward pass."""

    @staticmethod
    def forward(context: Any, value: torch.Tensor) -> torch.Tensor:  # type: ignore[override] # the signature is ours
        """Remember the value."""
        context.save_for_backward(value)
        return value * value

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override] # likewise
        """Take a while."""
        (value,) = context.saved_tensors
        sum(number for number in range(200))
        return 2 * value * gradient


class Mode(TorchDispatchMode):
    """A mode of the program."""

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        """Change nothing."""
        assert types is not None
        return function(*arguments, **(keywords or {}))


def toggle(ended: threading.Event) -> None:
    """Begin and stop, until the training has ended."""
    msmemscope.config(output=sys.argv[1], events="alloc,free,launch,access")
    while not ended.is_set():
        msmemscope.start()
        time.sleep(0.02)
        msmemscope.stop()
        time.sleep(0.01)


def main() -> None:
    """Train."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    ended = threading.Event()
    toggling = threading.Thread(target=toggle, args=(ended,))
    if sys.argv[1:]:
        toggling.start()
    model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 32))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    for step in range(STEPS):
        values = torch.randn(8, 32)
        if step % 50 == 7:
            with Mode():
                loss = Square.apply(model(values)).sum()
        else:
            loss = Square.apply(model(values)).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    ended.set()
    if sys.argv[1:]:
        toggling.join()
    time.sleep(0.3)
    print(f"losses={hashlib.sha256(repr(losses).encode()).hexdigest()} mode={_get_current_dispatch_mode()}")


main()

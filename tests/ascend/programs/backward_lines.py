"""Allocates in the thread of torch's backward engine, each function another number of rows; what of it remains is printed."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

import torch
import torch_npu  # noqa: F401 - the device
from torch.utils.checkpoint import checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Function = Callable[[torch.Tensor], None]

COLUMNS = 64


class Doubled(torch.autograd.Function):
    """Has a backward function in Python."""

    @staticmethod
    def forward(context: Any, values: torch.Tensor) -> torch.Tensor:
        """Keep nothing."""
        assert context is not None
        return values * 2

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        """Allocate twice."""
        assert context is not None
        return gradient.repeat(1, 1) * 2  # IN FUNCTION


def squared(values: torch.Tensor) -> torch.Tensor:
    """A function with a Python number in its backward pass."""
    return (values * 3).square()


def plain(values: torch.Tensor) -> None:
    """One pass."""
    squared(values).sum().backward()  # PLAIN


def failing(values: torch.Tensor) -> None:
    """A pass that ends with an exception."""
    doubled = squared(values)
    doubled.register_hook(lambda gradient: 1 // gradient.ndim // 0)
    try:
        doubled.sum().backward()
    except ZeroDivisionError:
        return


def of_grad(values: torch.Tensor) -> None:
    """One without `backward`."""
    torch.autograd.grad(squared(values).sum(), values)  # GRAD


def with_function(values: torch.Tensor) -> None:
    """One that runs Python."""
    Doubled.apply(values).sum().backward()  # FUNCTION


def reentrant(values: torch.Tensor) -> None:
    """One that calls another."""
    checkpoint(squared, values, use_reentrant=True).sum().backward()  # REENTRANT


def at_once(functions: Sequence[Function], rows: int) -> None:
    """A thread for each."""
    threads = [threading.Thread(target=run, args=(function, rows)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def run(function: Function, rows: int) -> None:
    """Three passes."""
    values = torch.ones(rows, COLUMNS, device="npu").requires_grad_()
    for _ in range(3):
        function(values)
    print(function.__name__, rows, None if values.grad is None else values.grad.sum().item(), file=sys.stderr)


run(failing, 8)
for number, function in enumerate((plain, of_grad, with_function, reentrant), start=1):
    run(function, 16 * number)
at_once([plain, plain, plain], 128)
at_once([plain, with_function, plain, of_grad], 256)
torch.npu.synchronize()
print(torch.npu.memory_allocated(), flush=True)

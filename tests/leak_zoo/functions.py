"""Tensors kept by functions: closures, hooks, caches, tracebacks, generators."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch

import msmemscope

from . import DEVICE, STEPS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def closure() -> None:
    """Callbacks that hold what they were made with."""
    callbacks: list[Callable[[], torch.Tensor]] = []
    for _ in range(STEPS):
        value = torch.zeros(256, device=DEVICE)  # LEAK

        def callback(value: torch.Tensor = value) -> torch.Tensor:
            return value.sum()

        callbacks.append(callback)
        msmemscope.step()


def partial() -> None:
    """The same with functools."""
    callbacks: list[Any] = []
    for _ in range(STEPS):
        callbacks.append(functools.partial(torch.add, torch.zeros(256, device=DEVICE)))  # LEAK
        msmemscope.step()


def forward_hook() -> None:
    """A hook for debugging that keeps every output."""
    outputs = []
    model = torch.nn.Linear(32, 16).to(DEVICE)
    model.register_forward_hook(lambda _module, _inputs, output: outputs.append(output.detach()))
    data = torch.ones(8, 32, device=DEVICE)
    for _ in range(STEPS):
        model(data)  # LEAK
        msmemscope.step()


def forward_hook_of_the_last() -> None:
    """A hook that keeps the last output only."""
    outputs: dict[str, torch.Tensor] = {}
    model = torch.nn.Linear(32, 16).to(DEVICE)
    model.register_forward_hook(lambda _module, _inputs, output: outputs.update(last=output.detach()))
    data = torch.ones(8, 32, device=DEVICE)
    for _ in range(STEPS):
        model(data)
        msmemscope.step()


def hook_per_step() -> None:
    """A hook that is registered again in each step, each holding a tensor of its own."""
    model = torch.nn.Linear(32, 16).to(DEVICE)
    data = torch.ones(8, 32, device=DEVICE)
    for _ in range(STEPS):
        scale = torch.full((16,), 2.0, device=DEVICE)  # LEAK
        model.register_forward_hook(lambda _module, _inputs, output, scale=scale: output * scale)
        with torch.no_grad():
            model(data)
        msmemscope.step()


def _fail(value: torch.Tensor) -> None:
    message = f"no such shape: {tuple(value.shape)}"
    raise ValueError(message)


def exception_tracebacks() -> None:
    """Errors that are kept for a report; their tracebacks hold the tensors of the frames."""
    errors = []

    def attempt() -> None:
        work = torch.zeros(256, device=DEVICE)  # LEAK
        _fail(work)

    for _ in range(STEPS):
        try:
            attempt()
        except ValueError as error:
            errors.append(error)
        msmemscope.step()


def exceptions_as_text() -> None:
    """Errors that are kept as text."""
    errors = []

    def attempt() -> None:
        work = torch.zeros(256, device=DEVICE)
        _fail(work)

    for _ in range(STEPS):
        try:
            attempt()
        except ValueError as error:
            errors.append(str(error))
        msmemscope.step()


def unbounded_cache() -> None:
    """A cache without a bound, asked for something new in each step."""

    @functools.cache
    def mask(length: int) -> torch.Tensor:
        return torch.ones(length, length, device=DEVICE)  # LEAK

    for step in range(STEPS):
        mask(10 + step).sum()
        msmemscope.step()


def bounded_cache() -> None:
    """The same with a bound."""

    @functools.lru_cache(maxsize=4)
    def mask(length: int) -> torch.Tensor:
        return torch.ones(length, length, device=DEVICE)

    for step in range(2 * STEPS):
        mask(10 + step).sum()
        msmemscope.step()


def suspended_generators() -> None:
    """Generators that were started and never finished hold their local variables."""
    running = []

    def batches() -> Iterator[int]:
        work = torch.zeros(256, device=DEVICE)  # LEAK
        yield int(work.numel())
        yield 0

    for _ in range(STEPS):
        generator = batches()
        next(generator)
        running.append(generator)
        msmemscope.step()


def finished_generators() -> None:
    """The same, finished."""
    finished = []

    def batches() -> Iterator[int]:
        work = torch.zeros(256, device=DEVICE)
        yield int(work.numel())

    for _ in range(STEPS):
        generator = batches()
        list(generator)
        finished.append(generator)
        msmemscope.step()

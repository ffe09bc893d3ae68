"""Tests with the marks of msmemscope's pytest plugin: pytest test_memory.py."""

from __future__ import annotations

import functools

import pytest
import torch
from torch import nn


@functools.cache
def positions(length: int) -> torch.Tensor:
    """A table that is kept for all models, on purpose."""
    return torch.arange(length, dtype=torch.float32)


def train_one_step() -> None:
    """Train a small model."""
    model = nn.Linear(1024, 1024)
    (model(torch.randn(8, 1024)) + positions(1024)).sum().backward()


@pytest.mark.limit_device_memory("12 MiB")
def test_one_step_fits() -> None:
    """Weights and gradients are 4 MiB each, activations very little."""
    train_one_step()


@pytest.mark.no_device_leaks(ignore="*: positions")
def test_one_step_leaves_nothing() -> None:
    """Apart from the table."""
    train_one_step()

"""Graphs of autograd that are kept, and those that are not."""

from __future__ import annotations

from typing import Any

import torch

import msmemscope

from . import DEVICE, STEPS


def _weight() -> torch.Tensor:
    return torch.ones(32, 32, device=DEVICE, requires_grad=True)


def loss_accumulation() -> None:
    """The sum of losses holds the graph of each of them: inputs and intermediate results."""
    weight = _weight()
    total = torch.zeros((), device=DEVICE)
    for _ in range(STEPS):
        data = torch.ones(16, 32, device=DEVICE)  # LEAK
        product = data @ weight  # LEAK
        total = total + product.square().mean()
        msmemscope.step()


def loss_accumulation_of_numbers() -> None:
    """The sum of the losses' values."""
    weight = _weight()
    total = 0.0
    for _ in range(STEPS):
        loss = (torch.ones(16, 32, device=DEVICE) @ weight).square().mean()
        loss.backward()
        weight.grad = None
        total += loss.item()
        msmemscope.step()


def loss_history() -> None:
    """Losses with their graphs, before any backward."""
    weight = _weight()
    history = []
    for _ in range(STEPS):
        data = torch.ones(16, 32, device=DEVICE)  # LEAK
        history.append((data @ weight).square().sum())  # LEAK
        msmemscope.step()


def loss_history_detached() -> None:
    """Losses without their graphs: four bytes in each step, and they never go away."""
    weight = _weight()
    history = []
    for _ in range(STEPS):
        loss = (torch.ones(16, 32, device=DEVICE) @ weight).square().mean()  # LEAK
        loss.backward()
        weight.grad = None
        history.append(loss.detach())
        msmemscope.step()


def gradient_accumulation() -> None:
    """Gradients are added up over three steps and then dropped."""
    weight = _weight()
    for step in range(2 * STEPS):
        loss = (torch.ones(16, 32, device=DEVICE) @ weight).square().mean()
        loss.backward()
        if step % 3 == 2:
            weight.grad = None
        msmemscope.step()


def gradients_of_gradients() -> None:
    """Gradients made with create_graph are kept, and with them what they were made from."""
    weight = _weight()
    kept = []
    for _ in range(STEPS):
        loss = weight.exp().sum()  # LEAK
        (gradient,) = torch.autograd.grad(loss, weight, create_graph=True)  # LEAK
        kept.append(gradient)
        msmemscope.step()


def retained_graph() -> None:
    """retain_graph keeps a graph only as long as the loss lives."""
    weight = _weight()
    for _ in range(STEPS):
        loss = weight.exp().sum()
        loss.backward(retain_graph=True)
        loss.backward()
        weight.grad = None
        msmemscope.step()


def state_across_steps() -> None:
    """A hidden state that is passed from step to step with its graph."""
    weight = _weight()
    state = torch.zeros(8, 32, device=DEVICE)
    for _ in range(STEPS):
        state = torch.tanh(state @ weight)  # LEAK
        msmemscope.step()


def state_across_steps_detached() -> None:
    """The same, cut off from the steps before."""
    weight = _weight()
    state = torch.zeros(8, 32, device=DEVICE)
    for _ in range(STEPS):
        state = torch.tanh(state.detach() @ weight)
        msmemscope.step()


def results_in_context() -> None:
    """The graph of each result holds the result, where no garbage collector looks (pytorch issue 25340)."""

    class _Attention(torch.autograd.Function):
        """Keeps its results in attributes of its context, which save_for_backward() would do without a cycle."""

        @staticmethod
        def forward(context: Any, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            scores = value.exp()  # LEAK
            total = scores + value  # LEAK
            context.scores, context.total = scores, total
            return scores, total

        @staticmethod
        def backward(context: Any, of_scores: torch.Tensor, of_total: torch.Tensor) -> torch.Tensor:
            return of_scores * context.scores + of_total

    weight = _weight()
    for _ in range(STEPS):
        scores, total = _Attention.apply(weight)
        (scores + total).sum().backward()
        weight.grad = None
        msmemscope.step()


def gradient_with_graph() -> None:
    """A leaf and its gradient hold each other after backward(create_graph=True) (pytorch issue 7343)."""
    weight = _weight()
    for _ in range(STEPS):
        data = torch.ones(16, 32, device=DEVICE)  # LEAK
        data.requires_grad_()
        loss = (data @ weight).square().sum()  # LEAK
        loss.backward(create_graph=True)  # LEAK
        weight.grad = None
        msmemscope.step()


def history_of_leaves() -> None:
    """A sum with a graph over the leaves of all steps."""
    history = torch.zeros((), device=DEVICE)
    for _ in range(STEPS):
        positions = torch.ones(16, 32, device=DEVICE)  # LEAK
        history = history + positions.requires_grad_().sum()
        msmemscope.step()

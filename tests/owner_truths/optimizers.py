"""Optimizers that are not torch's, and what a program keeps beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

import msmemscope

from . import DEVICE
from .training import Network, _batch
from .truth import Saved, gradients_of, moment, parts_of, weights_of

if TYPE_CHECKING:
    from collections.abc import Iterable

STEPS = 4


class Preconditioner:
    """Statistics of one parameter."""

    def __init__(self, parameter: torch.Tensor) -> None:
        """Begin with ones."""
        self.rows = torch.ones(parameter.shape[0], 4, device=parameter.device)


class Attributes(torch.optim.Optimizer):
    """Keeps what it knows in attributes, not in `state`."""

    def __init__(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Without momentum so far."""
        super().__init__(parameters, {"lr": 1e-3})
        self.parameters = [each for group in self.param_groups for each in group["params"]]
        self.momentum: dict[torch.nn.Parameter, torch.Tensor] = {}
        self.squares = [torch.zeros_like(each) for each in self.parameters]
        self.preconditioners = [Preconditioner(each) for each in self.parameters]

    def held(self) -> list[torch.Tensor]:
        """All of it."""
        return [*self.momentum.values(), *self.squares, *(each.rows for each in self.preconditioners)]

    @torch.no_grad()
    def step(self, _closure: Any = None) -> None:
        """Adam, about."""
        for parameter, square in zip(self.parameters, self.squares, strict=True):
            gradient = parameter.grad
            momentum = self.momentum.setdefault(parameter, torch.zeros_like(parameter))
            momentum.lerp_(gradient, 0.1)
            square.addcmul_(gradient, gradient)
            parameter.addcdiv_(momentum, square.sqrt().add_(1e-6), value=-1e-3)


def attributes() -> None:
    """Momentum in a dictionary, squares in a list, more in objects."""
    model = Network().to(DEVICE)
    optimizer = Attributes(model.parameters())
    for step in range(STEPS):
        loss = model(_batch()).square().mean()
        loss.backward()
        optimizer.step()
        known = parts_of(model)
        moment(f"step {step}", **known | {"optimizer_state": optimizer.held()}, program=[loss])
        optimizer.zero_grad()
        msmemscope.step()


class Masters(torch.optim.Optimizer):
    """Steps on copies in higher precision; takes the gradients away."""

    def __init__(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Copy the parameters."""
        super().__init__(parameters, {"lr": 1e-2})
        self.parameters = [each for group in self.param_groups for each in group["params"]]
        self.masters = [each.detach().float().clone() for each in self.parameters]
        self.inner = torch.optim.SGD(self.masters, lr=1e-2, momentum=0.9)

    def step(self, _closure: Any = None) -> None:
        """Step on the copies."""
        step_on_copies(self.parameters, self.masters, self.inner)


def step_on_copies(parameters: list[torch.nn.Parameter], copies: list[torch.Tensor], inner: Any) -> None:
    """Take gradients in the precision of the copies, and bring the result back."""
    for parameter, copy in zip(parameters, copies, strict=True):
        copy.grad = parameter.grad.float()
        parameter.grad = None
    inner.step()
    for parameter, copy in zip(parameters, copies, strict=True):
        parameter.data.copy_(copy)
        copy.grad = None


class Wrapper:
    """The same, and not an optimizer of torch's kind."""

    def __init__(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Copy the parameters."""
        self.parameters = list(parameters)
        self.masters = [each.detach().float().clone() for each in self.parameters]
        self.inner = torch.optim.SGD(self.masters, lr=1e-2, momentum=0.9)

    def step(self) -> None:
        """Step on the copies."""
        step_on_copies(self.parameters, self.masters, self.inner)


def _masters(kind: type[Any]) -> None:
    model = Network().to(DEVICE).bfloat16()
    optimizer = kind(model.parameters())
    for step in range(STEPS):
        data = _batch().bfloat16()
        with Saved() as saved:
            loss = model(data).float().square().mean()
        loss.backward()
        known = parts_of(model, optimizer.inner)
        known["weight"] += optimizer.masters
        moment(f"backward {step}", **known, activation=saved, program=[loss, data])
        optimizer.step()
        msmemscope.step()


def masters() -> None:
    """An optimizer whose step takes the gradients."""
    _masters(Masters)


def wrapped_masters() -> None:
    """Around an optimizer of torch, which never sees the gradients of the model."""
    _masters(Wrapper)


class OwnOptimizer:
    """Not of torch's kind at all."""

    def __init__(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """With momentum."""
        self.parameters = list(parameters)
        self.momentum = [torch.zeros_like(each) for each in self.parameters]

    @torch.no_grad()
    def step(self) -> None:
        """Step."""
        for parameter, momentum in zip(self.parameters, self.momentum, strict=True):
            momentum.mul_(0.9).add_(parameter.grad)
            parameter.sub_(momentum, alpha=1e-3)

    def zero_grad(self) -> None:
        """Let go of the gradients."""
        for parameter in self.parameters:
            parameter.grad = None


def own() -> None:
    """A class of the program, with `step` and `zero_grad`."""
    model = Network().to(DEVICE)
    optimizer = OwnOptimizer(model.parameters())
    for step in range(STEPS):
        loss = model(_batch()).square().mean()
        loss.backward()
        optimizer.step()
        known = parts_of(model)
        moment(f"step {step}", **known | {"optimizer_state": optimizer.momentum}, program=[loss])
        optimizer.zero_grad()
        msmemscope.step()


def _train_step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, name: str, kept: list[torch.Tensor]) -> None:
    data = _batch()
    with Saved() as saved:
        loss = model(data).square().mean()
    moment(f"forward {name}", **parts_of(model, optimizer), activation=saved, program=kept)
    loss.backward()
    optimizer.step()
    moment(f"step {name}", **parts_of(model, optimizer), activation=saved, program=kept)
    optimizer.zero_grad()


def unmarked() -> None:
    """Nothing says where steps end: a replay buffer, an average, a history that grows."""
    model = Network().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    replay = torch.zeros(512, 96, device=DEVICE)
    average = [each.detach().clone() for each in model.parameters()]
    history: list[torch.Tensor] = []
    mean = torch.zeros(48, 96, device=DEVICE)
    for step in range(STEPS):
        _train_step(model, optimizer, str(step), [replay, *average, *history, mean])
        mean = 0.9 * mean + replay[step * 48 : step * 48 + 48]  # another block in each step
        replay[step * 48 : step * 48 + 48] = torch.randn(48, 96).to(DEVICE)
        with torch.no_grad():
            for each, value in zip(average, model.parameters(), strict=True):
                each.lerp_(value, 0.1)
            if step < STEPS - 2:  # what comes with the last one is not seen to outlive anything
                history.append(next(model.parameters()).detach().clone())


def two_backwards() -> None:
    """A trunk and two heads, one backward pass for each with a forward pass between them."""
    trunk, one, other = Network(1).to(DEVICE), Network(1).to(DEVICE), Network(1).to(DEVICE)
    trunk.head = torch.nn.Linear(96, 96).to(DEVICE)
    parts = torch.nn.ModuleList([trunk, one, other])
    optimizer = torch.optim.SGD(parts.parameters(), lr=1e-3)
    for step in range(STEPS):
        data = _batch()
        with Saved() as saved:
            shared = trunk(data)
            one(shared).square().mean().backward(retain_graph=True)
            loss = other(shared).square().mean()
        moment(f"forward {step}", **parts_of(parts), activation=saved, program=[loss, data])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        msmemscope.step()


def adversaries() -> None:
    """A generator whose result two networks' steps read."""
    generator, judge = Network(1).to(DEVICE), Network(1).to(DEVICE)
    generator.head = torch.nn.Linear(96, 96).to(DEVICE)
    of_generator = torch.optim.Adam(generator.parameters(), lr=1e-3)
    of_judge = torch.optim.Adam(judge.parameters(), lr=1e-3)
    for step in range(STEPS):
        with Saved() as saved:
            made = generator(_batch())
            loss = judge(made.detach()).mean() - judge(_batch()).mean()
        of_judge.zero_grad()
        loss.backward()
        of_judge.step()
        with saved:
            loss = judge(made).mean()
        both: dict[str, Any] = {
            "weight": weights_of(generator, judge),
            "gradient": [*gradients_of(generator), *gradients_of(judge)],
            "optimizer_state": [
                value for each in (of_generator, of_judge) for state in each.state.values() for value in state.values()
            ],
        }
        moment(f"forward {step}", **both, activation=saved, program=[loss])
        of_generator.zero_grad()
        loss.backward()
        of_generator.step()
        msmemscope.step()

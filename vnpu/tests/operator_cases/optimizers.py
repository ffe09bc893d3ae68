"""Steps of optimizers, clipping of gradients, scaling of losses: real torch.optim on a few parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .case import OperatorCase

FLOAT32 = ("float32",)
STEPS = 3


def parameters_and_gradients(generator: Any) -> tuple[torch.Tensor, ...]:
    """Three parameters, then a gradient for each."""
    shapes = ((4, 3), (5,), (2, 3, 2))
    drawn = [torch.randn(shape, generator=generator) for _ in range(2) for shape in shapes]
    return tuple(drawn)


def trained(optimizer: Callable[..., Any], **settings: Any) -> Callable[..., list[torch.Tensor]]:
    """A call that makes some steps and returns the parameters and the state of the optimizer."""

    def call(*tensors: torch.Tensor) -> list[torch.Tensor]:
        half = len(tensors) // 2
        parameters = [torch.nn.Parameter(tensor.detach().clone()) for tensor in tensors[:half]]
        steps = optimizer(parameters, **settings)
        for number in range(STEPS):
            for parameter, gradient in zip(parameters, tensors[half:], strict=True):
                parameter.grad = gradient.detach() * (number + 1)
            steps.step()
            steps.zero_grad()
        state = [
            value
            for parameter in parameters
            for value in steps.state[parameter].values()
            if isinstance(value, torch.Tensor)
        ]
        return [*(parameter.detach() for parameter in parameters), *state]

    return call


def steps_of(name: str, optimizer: Callable[..., Any], **settings: Any) -> list[OperatorCase]:
    """Steps with and without the functions on lists."""
    return [
        OperatorCase(
            f"{name}, {'lists' if foreach else 'single tensors'}",
            trained(optimizer, foreach=foreach, **settings),
            parameters_and_gradients,
            backward=False,
        )
        for foreach in (False, True)
    ]


def fused(name: str, optimizer: Callable[..., Any], **settings: Any) -> OperatorCase:
    """Steps of the fused kind. Where the first moment is zero before, rounding decides; hence float32 only."""
    return OperatorCase(
        f"{name}, fused",
        trained(optimizer, fused=True, **settings),
        parameters_and_gradients,
        types=FLOAT32,
        backward=False,
    )


def clipped(kind: float, limit: float, *, foreach: bool) -> Callable[..., list[torch.Tensor]]:
    """Gradients clipped by their norm, and the norm."""

    def call(*tensors: torch.Tensor) -> list[torch.Tensor]:
        parameters = [torch.nn.Parameter(tensor.detach().clone()) for tensor in tensors]
        for parameter in parameters:
            parameter.grad = parameter.detach() * 3
        norm = torch.nn.utils.clip_grad_norm_(parameters, limit, norm_type=kind, foreach=foreach)
        return [norm, *(parameter.grad for parameter in parameters)]

    return call


def clipped_by_value(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """Gradients clipped element by element."""
    parameters = [torch.nn.Parameter(tensor.detach().clone()) for tensor in tensors]
    for parameter in parameters:
        parameter.grad = parameter.detach() * 3
    torch.nn.utils.clip_grad_value_(parameters, 0.5)
    return [parameter.grad for parameter in parameters]


def unscaled(*, overflow: bool) -> Callable[..., list[torch.Tensor]]:
    """Gradients divided by the loss scale, and whether one of them is not finite."""

    def call(*tensors: torch.Tensor) -> list[torch.Tensor]:
        gradients = [tensor.detach() * 1024 for tensor in tensors]
        if overflow:
            gradients[1][2] = float("inf")
        device = gradients[0].device
        found = torch.zeros((), device=device) if device.type == "cpu" else torch.zeros(1, device=device)
        inverse = torch.full_like(found, 1 / 1024)
        torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, inverse)
        return [found.reshape(()), *gradients]

    return call


def scale_updated(found: float, tracker: int) -> Callable[..., list[torch.Tensor]]:
    """The loss scale and its tracker after a step."""

    def call(value: torch.Tensor) -> list[torch.Tensor]:
        scale = torch.full((1,), 1024.0, device=value.device)
        steps = torch.full((1,), tracker, dtype=torch.int32, device=value.device)
        found_infinity = torch.full((1,), found, device=value.device)
        torch._amp_update_scale_(scale, steps, found_infinity, 2.0, 0.5, 3)
        return [scale, steps]

    return call


def with_scaler(*, overflow: bool) -> Callable[..., list[torch.Tensor]]:
    """Steps under a GradScaler. The second step may overflow, and the last result is the scale."""

    def call(weight: torch.Tensor) -> list[torch.Tensor]:
        parameter = torch.nn.Parameter(weight.detach().clone())
        optimizer = torch.optim.SGD([parameter], lr=0.1, momentum=0.9)
        scaler = torch.amp.GradScaler(weight.device.type, init_scale=256.0, growth_interval=2)
        for number in range(4):
            factor = float("inf") if overflow and number == 1 else 1.0
            with torch.enable_grad():
                loss = (parameter * weight.detach() * factor).sum() + parameter.square().sum()
                scaled = scaler.scale(loss)
            scaled.backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        return [parameter.detach(), torch.tensor(scaler.get_scale())]

    return call


def one_parameter(generator: Any) -> tuple[torch.Tensor]:
    """One tensor of shape (4, 3)."""
    return (torch.randn(4, 3, generator=generator),)


CASES = [
    *steps_of("SGD", torch.optim.SGD, lr=0.1),
    *steps_of("SGD with momentum", torch.optim.SGD, lr=0.1, momentum=0.9, weight_decay=0.01),
    *steps_of("SGD after Nesterov", torch.optim.SGD, lr=0.1, momentum=0.9, nesterov=True),
    *steps_of("SGD that maximizes", torch.optim.SGD, lr=0.1, momentum=0.5, dampening=0.1, maximize=True),
    *steps_of("Adam", torch.optim.Adam, lr=0.01),
    *steps_of("Adam with weight decay", torch.optim.Adam, lr=0.01, weight_decay=0.1),
    *steps_of("Adam with amsgrad", torch.optim.Adam, lr=0.01, amsgrad=True),
    *steps_of("AdamW", torch.optim.AdamW, lr=0.01, weight_decay=0.1),
    *steps_of("AdamW that maximizes", torch.optim.AdamW, lr=0.01, maximize=True, amsgrad=True),
    *steps_of("Adagrad", torch.optim.Adagrad, lr=0.1),
    *steps_of("Adadelta", torch.optim.Adadelta, lr=1.0),
    *steps_of("Adamax", torch.optim.Adamax, lr=0.01),
    *steps_of("NAdam", torch.optim.NAdam, lr=0.01),
    *steps_of("RAdam", torch.optim.RAdam, lr=0.01),
    *steps_of("RMSprop", torch.optim.RMSprop, lr=0.01, momentum=0.9, centered=True),
    *steps_of("Rprop", torch.optim.Rprop, lr=0.01),
    *steps_of("ASGD", torch.optim.ASGD, lr=0.01),
    fused("SGD with momentum", torch.optim.SGD, lr=0.1, momentum=0.9, weight_decay=0.01),
    fused("SGD after Nesterov", torch.optim.SGD, lr=0.1, momentum=0.9, nesterov=True),
    fused("Adam", torch.optim.Adam, lr=0.01),
    fused("AdamW", torch.optim.AdamW, lr=0.01, weight_decay=0.1),
    fused("AdamW with amsgrad", torch.optim.AdamW, lr=0.01, amsgrad=True, maximize=True),
    *(
        OperatorCase(
            f"clip by norm of order {kind:g}, {'lists' if foreach else 'single tensors'}",
            clipped(kind, 1.0, foreach=foreach),
            parameters_and_gradients,
            backward=False,
        )
        for foreach in (False, True)
        for kind in (1.0, 2.0)
    ),
    OperatorCase(
        "clip by norm below the limit", clipped(2.0, 1e3, foreach=True), parameters_and_gradients, backward=False
    ),
    OperatorCase("clip by value", clipped_by_value, parameters_and_gradients, backward=False),
    OperatorCase("unscale", unscaled(overflow=False), parameters_and_gradients, backward=False),
    OperatorCase("unscale with an overflow", unscaled(overflow=True), parameters_and_gradients, backward=False),
    OperatorCase("scale after a step", scale_updated(0.0, 0), one_parameter, types=FLOAT32, backward=False),
    OperatorCase("scale after enough steps", scale_updated(0.0, 2), one_parameter, types=FLOAT32, backward=False),
    OperatorCase("scale after an overflow", scale_updated(1.0, 2), one_parameter, types=FLOAT32, backward=False),
    OperatorCase("scaled training", with_scaler(overflow=False), one_parameter, types=FLOAT32, backward=False),
    OperatorCase(
        "scaled training with an overflow", with_scaler(overflow=True), one_parameter, types=FLOAT32, backward=False
    ),
]

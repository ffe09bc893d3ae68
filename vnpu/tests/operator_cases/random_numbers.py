"""Random numbers and dropout: distributions are checked, not numbers; the same seed gives the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .case import OperatorCase

COUNT = 4096
SEED = 1234


def one(generator: Any) -> tuple[torch.Tensor]:
    """A tensor that gives device and data type."""
    return (torch.ones(COUNT),)


def drawn(
    name: str,
    draw: Callable[[torch.Tensor], torch.Tensor],
    check: Callable[[torch.Tensor], None],
    types: tuple[str, ...] = ("float32", "bfloat16"),
) -> OperatorCase:
    """Numbers drawn three times: twice with one seed, then once more without setting it."""

    def call(a: torch.Tensor) -> list[torch.Tensor]:
        results = []
        for number in range(3):
            if number < 2:
                torch.npu.manual_seed(SEED)
            results.append(draw(a).clone())
        return results

    def check_all(first: torch.Tensor, again: torch.Tensor, later: torch.Tensor) -> None:
        assert torch.equal(first, again), "the same seed gives other numbers"
        assert not torch.equal(first, later), "the generator does not advance"
        for result in (first, later):
            check(result)

    return OperatorCase(name, call, one, types=types, backward=False, check=check_all)


def distribution(mean: float, deviation: float, low: float, high: float) -> Callable[[torch.Tensor], None]:
    """Checks mean, standard deviation and range; the tolerance is five standard errors and bfloat16's precision."""

    def check(result: torch.Tensor) -> None:
        values = result.double()
        tolerance = 5 * deviation / COUNT**0.5 + 0.005 * (abs(mean) + deviation)
        assert abs(values.mean().item() - mean) < tolerance
        assert abs(values.std().item() - deviation) < 2 * tolerance
        assert low <= values.min().item() <= values.max().item() <= high

    return check


def check_permutation(result: torch.Tensor) -> None:
    """Every number below COUNT, once."""
    assert torch.equal(result.sort().values, torch.arange(COUNT))


def check_sample_without_replacement(result: torch.Tensor) -> None:
    """Five of twenty, twice."""
    assert result.shape == (2, 5)
    assert all(row.unique().numel() == 5 for row in result)
    assert result.min() >= 0
    assert result.max() < 20


def check_sample(result: torch.Tensor) -> None:
    """Samples with the weights 1, 0, 3."""
    shares = torch.bincount(result, minlength=3) / COUNT
    torch.testing.assert_close(shares, torch.tensor([0.25, 0.0, 0.75]), rtol=0, atol=0.05)


def check_bits(result: torch.Tensor) -> None:
    """Of the bits of the mask, a quarter is zero."""
    bits = (result.unsqueeze(1) >> torch.arange(8, dtype=torch.uint8)) & 1
    torch.testing.assert_close(bits[: COUNT // 8].double().mean().item(), 0.75, rtol=0, atol=0.05)


def weighted(a: torch.Tensor) -> torch.Tensor:
    """Samples with replacement."""
    return torch.multinomial(torch.tensor([1.0, 0.0, 3.0], device=a.device, dtype=a.dtype), COUNT, replacement=True)


def dropout_and_gradient(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Dropout of ones and the gradient through it."""
    source = a.detach().requires_grad_(True)
    with torch.enable_grad():
        result = torch.nn.functional.dropout(source, 0.25)
        (gradient,) = torch.autograd.grad(result, source, torch.full_like(result, 3))
    return result.detach(), gradient


def check_gradient(result: torch.Tensor, gradient: torch.Tensor) -> None:
    """Check that kept values are scaled, forward and backward."""
    assert 0.70 < (result != 0).double().mean().item() < 0.80
    torch.testing.assert_close(result[result != 0], torch.full_like(result[result != 0], 4 / 3), rtol=1e-2, atol=0)
    torch.testing.assert_close(gradient, 3 * result, rtol=1e-2, atol=0)


def generated(a: torch.Tensor) -> list[torch.Tensor]:
    """Numbers of a generator of one's own, which may be saved and restored."""
    generator = torch.Generator(device=a.device).manual_seed(SEED)
    first = torch.rand(COUNT, device=a.device, generator=generator)
    state = generator.get_state()
    second = torch.rand(COUNT, device=a.device, generator=generator)
    generator.set_state(state)
    return [first, second, torch.rand(COUNT, device=a.device, generator=generator)]


def check_generated(first: torch.Tensor, second: torch.Tensor, again: torch.Tensor) -> None:
    """The restored state gives the numbers that followed it."""
    assert torch.equal(second, again)
    assert not torch.equal(first, second)


def adjacent_seeds(a: torch.Tensor) -> list[torch.Tensor]:
    """The first numbers of seeds that differ by one."""
    results = []
    for seed in range(4):
        torch.npu.manual_seed(seed)
        results.append(torch.randn(COUNT, device=a.device))
    return results


def check_unrelated(*results: torch.Tensor) -> None:
    """No two of the results are correlated."""
    correlations = torch.corrcoef(torch.stack(results).double()) - torch.eye(len(results), dtype=torch.float64)
    assert correlations.abs().max() < 0.1


HALF_RANGE = 3**-0.5 / 2  # the standard deviation of a uniform distribution of width 1

CASES = [
    drawn(
        "normal",
        lambda a: torch.randn(COUNT, device=a.device, dtype=a.dtype),
        distribution(0, 1, -6, 6),
    ),
    drawn("normal alike", torch.randn_like, distribution(0, 1, -6, 6)),
    drawn("normal in place", lambda a: a.clone().normal_(2, 0.5), distribution(2, 0.5, -1, 5)),
    drawn(
        "normal in place through a view",
        lambda a: a.clone().view(64, -1).t().normal_(2, 0.5),
        distribution(2, 0.5, -1, 5),
    ),
    drawn("normal of a mean tensor", lambda a: torch.normal(a * 2, 0.5), distribution(2, 0.5, -1, 5)),
    drawn("normal of a deviation tensor", lambda a: torch.normal(2.0, a * 0.5), distribution(2, 0.5, -1, 5)),
    drawn("normal of two tensors", lambda a: torch.normal(a * 2, a * 0.5), distribution(2, 0.5, -1, 5)),
    drawn(
        "normal of two numbers",
        lambda a: torch.normal(2.0, 0.5, (COUNT,), device=a.device),
        distribution(2, 0.5, -1, 5),
        types=("float32",),
    ),
    drawn("truncated normal", lambda a: torch.nn.init.trunc_normal_(a.clone(), std=0.5), distribution(0, 0.5, -2, 2)),
    drawn(
        "uniform",
        lambda a: torch.rand(COUNT, device=a.device, dtype=a.dtype),
        distribution(0.5, HALF_RANGE, 0, 1),
    ),
    drawn("uniform alike", torch.rand_like, distribution(0.5, HALF_RANGE, 0, 1)),
    drawn("uniform in place", lambda a: a.clone().uniform_(-2, 2), distribution(0, 4 * HALF_RANGE, -2, 2)),
    drawn("exponential", lambda a: a.clone().exponential_(2.0), distribution(0.5, 0.5, 0, 20), types=("float32",)),
    drawn(
        "exponential by the function of torch_npu",
        lambda a: torch.ops.npu.npu_sim_exponential_(a.clone(), 2.0),
        distribution(0.5, 0.5, 0, 20),
        types=("float32",),
    ),
    drawn(
        "whole numbers",
        lambda a: torch.randint(-5, 5, (COUNT,), device=a.device),
        distribution(-0.5, 10 * HALF_RANGE, -5, 4),
        types=("float32",),
    ),
    drawn("whole numbers alike", lambda a: torch.randint_like(a, 0, 10), distribution(4.5, 10 * HALF_RANGE, 0, 9)),
    drawn(
        "bytes in place",
        lambda a: torch.empty(COUNT, dtype=torch.uint8, device=a.device).random_(),
        distribution(127, 255 * HALF_RANGE, 0, 255),
        types=("float32",),
    ),
    drawn(
        "whole numbers in place",
        lambda a: torch.empty(COUNT, dtype=torch.int64, device=a.device).random_(10, 20),
        distribution(14.5, 10 * HALF_RANGE, 10, 19),
        types=("float32",),
    ),
    drawn("bernoulli of a tensor", lambda a: torch.bernoulli(a * 0.25), distribution(0.25, 0.433, 0, 1)),
    drawn("bernoulli of a number", lambda a: torch.bernoulli(a, 0.25), distribution(0.25, 0.433, 0, 1)),
    drawn("bernoulli in place", lambda a: a.clone().bernoulli_(0.25), distribution(0.25, 0.433, 0, 1)),
    drawn(
        "bernoulli of bools",
        lambda a: torch.empty(COUNT, dtype=torch.bool, device=a.device).bernoulli_(a.float() * 0.25),
        distribution(0.25, 0.433, 0, 1),
    ),
    drawn("permutation", lambda a: torch.randperm(COUNT, device=a.device), check_permutation, types=("float32",)),
    drawn("samples with replacement", weighted, check_sample, types=("float32",)),
    drawn(
        "samples without replacement",
        lambda a: torch.multinomial(a[:40].view(2, 20), 5),
        check_sample_without_replacement,
    ),
    drawn("dropout", lambda a: torch.nn.functional.dropout(a, 0.5), distribution(1, 1, 0, 2)),
    drawn(
        "dropout of another probability", lambda a: torch.nn.functional.dropout(a, 0.2), distribution(1, 0.5, 0, 1.26)
    ),
    drawn(
        "dropout of channels",
        lambda a: torch.nn.functional.dropout2d(a.view(1, 1024, 2, 2), 0.5),
        lambda result: distribution(1, 1, 0, 2)(result[:, :, 0, 0].repeat(1, 4)),
        types=("float32",),
    ),
    drawn(
        "dropout mask of bits",
        lambda a: torch.ops.npu.npu_dropout_gen_mask([COUNT], 0.25, device=a.device, dtype=torch.uint8),
        check_bits,
        types=("float32",),
    ),
    OperatorCase("dropout and its gradient", dropout_and_gradient, one, backward=False, check=check_gradient),
    OperatorCase("dropout outside training", lambda a: torch.nn.functional.dropout(a, 0.5, training=False), one),
    OperatorCase("a generator of one's own", generated, one, types=("float32",), backward=False, check=check_generated),
    OperatorCase("adjacent seeds", adjacent_seeds, one, types=("float32",), backward=False, check=check_unrelated),
]

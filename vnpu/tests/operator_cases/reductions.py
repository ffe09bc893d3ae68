"""Reductions over some or all dimensions, and running ones."""

from __future__ import annotations

import warnings
from typing import Any

import torch

from .case import OperatorCase, distinct, fixed, integers, normal, whole

FLOAT32 = ("float32",)


def with_nan(generator: Any) -> tuple[Any, ...]:
    """Inputs: a matrix with one element that is not a number."""
    (matrix,) = distinct(3, 5)(generator)
    matrix[1, 2] = float("nan")
    return (matrix,)


def older_aminmax(x: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The older forms of aminmax, which warn that there is a newer one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [torch._aminmax(x), torch._aminmax(x, 1, True)]


SUMS = [
    OperatorCase("sum", torch.sum, normal((3, 4))),
    OperatorCase("sum over a dimension", lambda x: x.sum(1), normal((2, 3, 4))),
    OperatorCase("sum over two dimensions", lambda x: x.sum((0, 2)), normal((2, 3, 4))),
    OperatorCase("sum keeping dimensions", lambda x: x.sum((-1, 0), keepdim=True), normal((2, 3, 4))),
    OperatorCase("sum in another type", lambda x: x.sum(0, dtype=torch.float32), normal((3, 4))),
    OperatorCase("sum of a transposed tensor", lambda x: x.t().sum(0), normal((3, 4))),
    OperatorCase("sum of an expanded tensor", lambda x: x.expand(5, 3, 4).sum(0), normal((3, 4))),
    OperatorCase("sum of one number", torch.sum, normal(())),
    OperatorCase("sum of an empty tensor", torch.sum, normal((0, 4))),
    OperatorCase("sum over an empty dimension", lambda x: x.sum(0), normal((0, 4))),
    OperatorCase(
        "sum to the shape of a bias",
        lambda x, b: x + b,
        normal((2, 3, 4), (3, 1)),
    ),
    whole("sum of integers", lambda x: x.sum(1), integers(3, 4)),
    whole("sum of truth values", lambda x: (x > 0).sum(), integers(3, 4)),
    OperatorCase("nansum", torch.nansum, with_nan),
    OperatorCase("nansum over a dimension", lambda x: x.nansum(1, keepdim=True), with_nan),
    OperatorCase("prod", torch.prod, normal((2, 3)), relative=5e-2),
    OperatorCase("prod over a dimension", lambda x: x.prod(1, keepdim=True), normal((2, 3)), relative=5e-2),
    whole("prod of integers", lambda x: (x.prod(), x.prod(0)), integers(2, 3)),
    OperatorCase("logsumexp", lambda x: torch.logsumexp(x, 1), normal((3, 4))),
    OperatorCase(
        "logsumexp over two dimensions", lambda x: torch.logsumexp(x, (0, 2), keepdim=True), normal((2, 3, 4))
    ),
    OperatorCase("trapezoid", torch.trapezoid, normal((3, 4))),
    whole("number of nonzero elements", torch.count_nonzero, integers(3, 4, low=-1, high=2)),
    whole(
        "number of nonzero elements of each row",
        lambda x: torch.count_nonzero(x, dim=1),
        integers(3, 4, low=-1, high=2),
    ),
]

MOMENTS = [
    OperatorCase("mean", torch.mean, normal((3, 4))),
    OperatorCase("mean over a dimension", lambda x: x.mean(-1, keepdim=True), normal((2, 3, 4))),
    OperatorCase("mean over two dimensions", lambda x: x.mean((0, 2)), normal((2, 3, 4))),
    OperatorCase("mean in another type", lambda x: x.mean(0, dtype=torch.float32), normal((3, 4))),
    whole("mean of integers", lambda x: x.mean(dtype=torch.float32), integers(3, 4)),
    OperatorCase("nanmean", lambda x: x.nanmean(1), with_nan),
    OperatorCase("std", torch.std, normal((3, 4))),
    OperatorCase("std over a dimension", lambda x: x.std(1, unbiased=False, keepdim=True), normal((3, 4))),
    OperatorCase("std with correction", lambda x: x.std((0, 2), correction=2), normal((2, 3, 4))),
    OperatorCase("std and mean", lambda x: torch.std_mean(x, 1), normal((3, 4))),
    OperatorCase("var", torch.var, normal((3, 4))),
    OperatorCase("var over a dimension", lambda x: x.var(1, keepdim=True), normal((3, 4))),
    OperatorCase("var with correction", lambda x: x.var((0, 2), correction=0), normal((2, 3, 4))),
    OperatorCase("var and mean", lambda x: torch.var_mean(x, (0, 1), keepdim=True), normal((2, 3, 4))),
]

NORMS = [
    OperatorCase("infinity norm", lambda x: torch.linalg.vector_norm(x, float("inf")), distinct(3, 4)),
    OperatorCase(
        "negative infinity norm of rows",
        lambda x: torch.linalg.vector_norm(x, -float("inf"), dim=1, keepdim=True),
        distinct(3, 4),
    ),
    OperatorCase("infinity norms of a list", lambda *x: torch._foreach_norm(x, float("inf")), normal((3, 4), (5,))),
    OperatorCase("norm", torch.norm, normal((3, 4))),
    OperatorCase("norm of exponent 1", lambda x: x.norm(p=1, dim=1), normal((3, 4))),
    OperatorCase("norm in another type", lambda x: torch.norm(x, 2, dim=1, dtype=torch.float32), normal((3, 4))),
    OperatorCase("vector norm", torch.linalg.vector_norm, normal((3, 4))),
    OperatorCase("vector norm of exponent 3", lambda x: torch.linalg.vector_norm(x, 3, dim=(0, 2)), normal((2, 3, 4))),
    OperatorCase(
        "vector norm of exponent 0", lambda x: torch.linalg.vector_norm(x, 0, dim=1), normal((3, 4)), backward=False
    ),
    OperatorCase(
        "vector norm in another type",
        lambda x: torch.linalg.vector_norm(x, dim=1, keepdim=True, dtype=torch.float32),
        normal((3, 4)),
    ),
    OperatorCase("norm of a matrix", torch.linalg.matrix_norm, normal((3, 4))),
    OperatorCase("normalize", lambda x: torch.nn.functional.normalize(x, dim=1), normal((3, 4))),
    OperatorCase(
        "cosine similarity",
        torch.nn.functional.cosine_similarity,
        normal((3, 4), (3, 4)),
    ),
    OperatorCase("renorm", lambda x: torch.renorm(x, 2, 0, 1.5), normal((3, 4))),
    OperatorCase("renorm in place", lambda x: x.clone().renorm_(2, 1, 1.5), normal((3, 4)), backward=False),
    OperatorCase(
        "distance",
        lambda x, y: torch.dist(x, y, 2),
        normal((3, 4), (3, 4)),
    ),
]

EXTREMES = [
    OperatorCase("max", torch.max, distinct(3, 4)),
    OperatorCase("min", torch.min, distinct(3, 4)),
    OperatorCase("max over a dimension", lambda x: tuple(torch.max(x, 1)), distinct(3, 4)),
    OperatorCase("min over a dimension", lambda x: tuple(torch.min(x, 0, keepdim=True)), distinct(3, 4)),
    OperatorCase("max of a transposed tensor", lambda x: tuple(x.t().max(1)), distinct(3, 4)),
    OperatorCase("max with nan", lambda x: tuple(x.max(1)), with_nan, backward=False),
    whole("extremes of integers", lambda x: (x.max(), x.min(), x.amax(0), x.amin(1, keepdim=True)), integers(3, 4)),
    OperatorCase("amax", lambda x: torch.amax(x, (0, 2)), distinct(2, 3, 4)),
    OperatorCase("amax of all", torch.amax, distinct(2, 3)),
    OperatorCase("amin", lambda x: torch.amin(x, -1, keepdim=True), distinct(2, 3, 4)),
    OperatorCase("amax shares the gradient of ties", lambda x: torch.amax(x, 1), fixed(torch.ones(2, 3))),
    OperatorCase("aminmax", lambda x: tuple(torch.aminmax(x)), distinct(3, 4)),
    OperatorCase("aminmax over a dimension", lambda x: tuple(torch.aminmax(x, dim=1, keepdim=True)), distinct(3, 4)),
    OperatorCase("the older aminmax", older_aminmax, distinct(3, 4), backward=False),
    OperatorCase("argmax", torch.argmax, distinct(3, 4), backward=False),
    OperatorCase("argmax over a dimension", lambda x: x.argmax(1, keepdim=True), distinct(3, 4), backward=False),
    OperatorCase("argmin", torch.argmin, distinct(3, 4), backward=False),
    OperatorCase("argmin over a dimension", lambda x: x.argmin(-2), distinct(2, 3, 4), backward=False),
]

TRUTH = [
    whole("all", lambda x: (x > -5).all(), integers(3, 4)),
    whole("all over a dimension", lambda x: (x > 0).all(1, keepdim=True), integers(3, 4)),
    whole("all over two dimensions", lambda x: (x > -4).all((0, 2)), integers(2, 3, 4)),
    whole("any", lambda x: (x > 4).any(), integers(3, 4)),
    whole("any over a dimension", lambda x: (x > 2).any(0), integers(3, 4)),
    whole("any over two dimensions", lambda x: (x > 4).any((0, 2), keepdim=True), integers(2, 3, 4)),
    whole("any and all of nothing", lambda x: ((x > 0).any(), (x > 0).all()), integers(0, 4)),
    OperatorCase("any and all of numbers", lambda x: (x.any(), x.all(1)), normal((3, 4)), backward=False),
]

ORDER = [
    OperatorCase("median", torch.median, distinct(3, 5)),
    OperatorCase("median over a dimension", lambda x: tuple(torch.median(x, 1, keepdim=True)), distinct(3, 5)),
    OperatorCase("nanmedian", torch.nanmedian, with_nan, backward=False),
    OperatorCase("nanmedian over a dimension", lambda x: tuple(torch.nanmedian(x, 1)), with_nan, backward=False),
    OperatorCase("kthvalue", lambda x: tuple(torch.kthvalue(x, 2)), distinct(3, 5)),
    OperatorCase("kthvalue keeping the dimension", lambda x: tuple(x.kthvalue(3, 0, True)), distinct(4, 3)),
    whole("mode", lambda x: torch.mode(x, 1).values, integers(3, 7, low=0, high=3)),
    OperatorCase("quantile", lambda x: torch.quantile(x, 0.3, dim=1), distinct(3, 5), types=FLOAT32),
]

COUNTS = [
    OperatorCase(
        "histc", lambda x: torch.histc(x, bins=4, min=-2, max=2), normal((3, 8)), types=FLOAT32, backward=False
    ),
    OperatorCase(
        "histc between the extremes", lambda x: torch.histc(x, bins=3), distinct(12), types=FLOAT32, backward=False
    ),
    whole("bincount", torch.bincount, integers(9, low=0)),
    whole("bincount with a minimum length", lambda x: torch.bincount(x, minlength=10), integers(9, low=0)),
    OperatorCase(
        "bincount with weights",
        torch.bincount,
        lambda generator: (*integers(9, low=0)(generator), *normal((9,))(generator)),
        types=FLOAT32,
        backward=False,
    ),
]

RUNNING = [
    OperatorCase("cumsum", lambda x: x.cumsum(1), normal((3, 4))),
    OperatorCase("cumsum along the first dimension", lambda x: x.cumsum(0), normal((3, 4))),
    OperatorCase("cumsum in another type", lambda x: x.cumsum(-1, dtype=torch.float32), normal((3, 4))),
    OperatorCase("cumsum in place", lambda x: x.clone().cumsum_(0), normal((3, 4))),
    whole("cumsum of integers", lambda x: x.cumsum(0), integers(3, 4)),
    whole("cumsum of truth values", lambda x: (x > 0).cumsum(0), integers(3, 4)),
    OperatorCase("cumprod", lambda x: x.cumprod(1), normal((3, 4)), types=FLOAT32),
    OperatorCase("cumprod forward", lambda x: x.cumprod(0), normal((3, 4)), backward=False),
    OperatorCase("cummax", lambda x: tuple(x.cummax(1)), distinct(3, 4)),
    OperatorCase("cummin", lambda x: tuple(x.cummin(0)), distinct(3, 4)),
    OperatorCase("logcumsumexp", lambda x: x.logcumsumexp(1), normal((3, 4)), backward=False),
]

CASES = [*SUMS, *MOMENTS, *NORMS, *EXTREMES, *TRUTH, *ORDER, *COUNTS, *RUNNING]

"""Sorting, and what rests on an order."""

from __future__ import annotations

from typing import Any

import torch

from .case import OperatorCase, distinct, fixed, integers, whole, with_values


def boundaries_and_values(_generator: Any) -> tuple[Any, ...]:
    """An ascending sequence, and values below, in, on and above it."""
    return torch.tensor([1.0, 3.0, 5.0, 7.0]), torch.tensor([[0.0, 1.0, 2.0], [5.0, 7.0, 9.0]])


CASES = [
    OperatorCase("sort", lambda x: tuple(torch.sort(x)), distinct(3, 5)),
    OperatorCase("sort along the first dimension", lambda x: tuple(torch.sort(x, 0, descending=True)), distinct(3, 5)),
    OperatorCase("sort of a transposed tensor", lambda x: tuple(x.t().sort(0)), distinct(3, 5)),
    OperatorCase("sort of one number", lambda x: tuple(torch.sort(x)), fixed(torch.tensor(2.0))),
    OperatorCase("sort of an empty tensor", lambda x: tuple(torch.sort(x)), distinct(0, 4), backward=False),
    whole("stable sort", lambda x: tuple(torch.sort(x, stable=True)), integers(3, 8, low=0, high=4)),
    whole(
        "stable descending sort",
        lambda x: tuple(torch.sort(x, stable=True, dim=0, descending=True)),
        integers(8, 3, low=0, high=4),
    ),
    OperatorCase("argsort", torch.argsort, distinct(3, 5), backward=False),
    whole("stable argsort", lambda x: torch.argsort(x, stable=True), integers(3, 8, low=0, high=4)),
    OperatorCase("msort", torch.msort, distinct(3, 5)),
    OperatorCase("topk", lambda x: tuple(torch.topk(x, 3)), distinct(3, 5)),
    OperatorCase("topk of the smallest", lambda x: tuple(torch.topk(x, 2, 0, largest=False)), distinct(3, 5)),
    OperatorCase("topk of all", lambda x: tuple(torch.topk(x, 5)), distinct(3, 5)),
    whole("unique", torch.unique, integers(3, 5, low=0, high=4)),
    whole(
        "unique with inverse and counts",
        lambda x: torch.unique(x, return_inverse=True, return_counts=True),
        integers(3, 5, low=0, high=4),
    ),
    whole(
        "unique rows",
        lambda x: torch.unique(x, dim=0, return_inverse=True, return_counts=True),
        integers(6, 2, low=0, high=2),
    ),
    whole("unique of truth values", lambda x: torch.unique(x > 1), integers(3, 5, low=0, high=4)),
    whole("unique of nothing", torch.unique, integers(0, low=0, high=4)),
    whole(
        "unique of numbers",
        lambda x: torch.unique(x, return_counts=True),
        fixed(torch.tensor([2.0, 1.0, 2.0, -3.0])),
    ),
    whole(
        "the older unique", lambda x: torch._unique(x, sorted=True, return_inverse=True), integers(3, 5, low=0, high=4)
    ),
    whole(
        "unique in a row",
        lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True),
        integers(12, low=0, high=2),
    ),
    whole(
        "unique rows in a row",
        lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True, dim=0),
        integers(8, 1, low=0, high=2),
    ),
    whole("searchsorted", torch.searchsorted, boundaries_and_values),
    whole(
        "searchsorted from the right",
        lambda s, v: torch.searchsorted(s, v, right=True, out_int32=True),
        boundaries_and_values,
    ),
    whole("searchsorted on a side", lambda s, v: torch.searchsorted(s, v, side="right"), boundaries_and_values),
    whole("searchsorted of a number", lambda s, _: torch.searchsorted(s, 3.5), boundaries_and_values),
    whole(
        "searchsorted with a sorter",
        lambda s, v: torch.searchsorted(s, v, sorter=torch.argsort(s)),
        fixed(torch.tensor([5.0, 1.0, 7.0, 3.0]), torch.tensor([2.0, 6.0])),
    ),
    whole("bucketize", lambda s, v: torch.bucketize(v, s), boundaries_and_values),
    whole(
        "bucketize from the right",
        lambda s, v: torch.bucketize(v, s, right=True, out_int32=True),
        boundaries_and_values,
    ),
    whole("isin", torch.isin, with_values(integers(3, 5, low=0, high=4), torch.tensor([1, 3]))),
]

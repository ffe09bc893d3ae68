"""Embedding tables and bags."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from .case import OperatorCase


def table(generator: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """A table of 9 rows, and indices of shape (2, 4). Some indices occur twice."""
    return torch.randn(9, 6, generator=generator), torch.tensor([[1, 3, 3, 0], [8, 0, 5, 3]])


def bags(generator: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A table, indices in one row, and where the three bags begin; the second one is empty."""
    return torch.randn(9, 6, generator=generator), torch.tensor([1, 3, 3, 0, 8, 5]), torch.tensor([0, 4, 4])


def weighted_bags(generator: Any) -> tuple[torch.Tensor, ...]:
    """The same and a weight for each index."""
    return (*bags(generator), torch.rand(6, generator=generator))


def renormalised(weight: torch.Tensor, indices: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """An embedding that first bounds the norm of the rows that it uses; the table changes."""
    changed = weight.detach().clone()
    return functional.embedding(indices, changed, max_norm=0.5), changed


CASES = [
    OperatorCase("embedding", lambda w, i: functional.embedding(i, w), table),
    OperatorCase("embedding with int32", lambda w, i: functional.embedding(i.int(), w), table),
    OperatorCase("embedding with a padding row", lambda w, i: functional.embedding(i, w, padding_idx=3), table),
    OperatorCase(
        "embedding scaled by frequency", lambda w, i: functional.embedding(i, w, scale_grad_by_freq=True), table
    ),
    OperatorCase("embedding with a bound", renormalised, table, backward=False),
    OperatorCase("embedding of nothing", lambda w, i: functional.embedding(i[:0], w), table),
    OperatorCase("embedding of a transposed index", lambda w, i: functional.embedding(i.t(), w), table),
    OperatorCase("embedding of one index", lambda w, i: functional.embedding(i[0, 0], w), table),
    OperatorCase("one_hot", lambda i: functional.one_hot(i, 9), lambda g: table(g)[1:], ("float32",), False),
    *[
        OperatorCase(
            f"embedding_bag ({mode})", lambda w, i, o, m=mode: functional.embedding_bag(i, w, o, mode=m), bags, types
        )
        for mode, types in (("sum", ("float32", "bfloat16")), ("mean", ("float32", "bfloat16")), ("max", ("float32",)))
    ],
    OperatorCase(
        "embedding_bag with weights",
        lambda w, i, o, s: functional.embedding_bag(i, w, o, mode="sum", per_sample_weights=s),
        weighted_bags,
    ),
    OperatorCase("embedding_bag of rows", lambda w, i: functional.embedding_bag(i, w, mode="mean"), table),
    OperatorCase(
        "embedding_bag with a padding row",
        lambda w, i, o: functional.embedding_bag(i, w, o, mode="sum", padding_idx=3),
        bags,
    ),
    OperatorCase(
        "embedding_bag with the last offset",
        lambda w, i, o: functional.embedding_bag(
            i, w, functional.pad(o, (0, 1), value=6), mode="sum", include_last_offset=True
        ),
        bags,
    ),
]

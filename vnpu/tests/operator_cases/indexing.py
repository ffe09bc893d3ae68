"""Reading and writing at positions that a tensor holds."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch

from .case import OperatorCase, fixed, normal, with_values

FLOAT32 = ("float32",)


def long(values: Any) -> torch.Tensor:
    """Positions."""
    return torch.tensor(values, dtype=torch.int64)


def assign(key: Callable[..., Any], *, accumulate: bool = False) -> Callable[..., torch.Tensor]:
    """A call that writes into a copy: gets the target, the values and what the key is made of."""

    def call(target: torch.Tensor, values: Any, *parts: Any) -> torch.Tensor:
        result = target.clone()
        if accumulate:
            result.index_put_(key(*parts), values, accumulate=True)
        else:
            result[key(*parts)] = values
        return result

    return call


def reduced_scatter(target: torch.Tensor, index: torch.Tensor, source: torch.Tensor, how: str) -> torch.Tensor:
    """The older form of scatter_reduce, which warns that there is a newer one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return target.clone().scatter_(1, index, source, reduce=how)


# torch_npu's own functions, beside what they stand for.


def scatter_nd_update(target: torch.Tensor, updates: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Replace rows."""
    if target.device.type == "cpu":
        return target.index_copy(0, rows, updates)
    return torch.ops.npu.npu_scatter_nd_update(target, rows[:, None], updates)


def scatter_update(cache: torch.Tensor, updates: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Write one row into each matrix of a batch, each at a position of its own."""
    result = cache.clone()
    if cache.device.type == "cpu":
        result[torch.arange(2), positions] = updates[:, 0]
        return result
    return torch.ops.npu.scatter_update_(result, positions, updates, -2)


def gather_sparse_index(source: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Read rows."""
    return source[rows] if source.device.type == "cpu" else torch.ops.npu.npu_gather_sparse_index(source, rows)


def own_index_add(target: torch.Tensor, source: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Add to rows."""
    if target.device.type == "cpu":
        return target.index_add(0, rows, source, alpha=2)
    return torch.ops.npu._npu_index_add(target, rows, source, alpha=2)


MASK = torch.tensor([[True, False, True, False], [False, False, True, True], [True, True, False, False]])
NOTHING = torch.zeros(3, 4, dtype=torch.bool)
ROWS = torch.tensor([True, False, True])

READING = [
    OperatorCase("index by positions", lambda x, i: x[i], with_values(normal((4, 3)), long([2, 0, 2]))),
    OperatorCase("index by negative positions", lambda x, i: x[i], with_values(normal((4, 3)), long([-1, 1]))),
    OperatorCase(
        "index by a matrix of positions", lambda x, i: x[i], with_values(normal((4, 3)), long([[0, 1], [3, 3]]))
    ),
    OperatorCase("index in the last dimension", lambda x, i: x[..., i], with_values(normal((2, 3, 4)), long([3, 0]))),
    OperatorCase("index in the middle dimension", lambda x, i: x[:, i], with_values(normal((2, 3, 4)), long([2, 0]))),
    OperatorCase(
        "index by several", lambda x, i, j: x[i, j], with_values(normal((3, 4)), long([0, 2, 2]), long([1, 3, 3]))
    ),
    OperatorCase(
        "index by several with broadcast",
        lambda x, i, j: x[i, j],
        with_values(normal((3, 4, 2)), long([[0], [2]]), long([1, 3])),
    ),
    OperatorCase(
        "index by several apart", lambda x, i, j: x[i, :, j], with_values(normal((3, 4, 2)), long([0, 2]), long([1, 0]))
    ),
    OperatorCase(
        "index by the last two", lambda x, i, j: x[:, i, j], with_values(normal((3, 4, 2)), long([0, 2]), long([1, 0]))
    ),
    OperatorCase(
        "index with a slice and a number", lambda x, i: x[1, 1:, i], with_values(normal((2, 3, 4)), long([3, 0]))
    ),
    OperatorCase("index by int32", lambda x, i: x[i], with_values(normal((4, 3)), long([2, 0]).int())),
    OperatorCase("index by a mask", lambda x, m: x[m], with_values(normal((3, 4)), MASK)),
    OperatorCase("index by a mask of rows", lambda x, m: x[m], with_values(normal((3, 4)), ROWS)),
    OperatorCase("index by a mask of columns", lambda x, m: x[:, m], with_values(normal((4, 3)), ROWS)),
    OperatorCase(
        "index by a mask and positions", lambda x, m, i: x[m, i], with_values(normal((3, 4)), ROWS, long([0, 3]))
    ),
    OperatorCase("index by a mask of nothing", lambda x, m: x[m], with_values(normal((3, 4)), NOTHING)),
    OperatorCase("index by no positions", lambda x, i: x[i], with_values(normal((4, 3)), long([]))),
    OperatorCase("index of a transposed tensor", lambda x, i: x.t()[i], with_values(normal((3, 4)), long([2, 0]))),
    OperatorCase(
        "index of integers",
        lambda x, i: x[i],
        fixed(torch.arange(12).reshape(4, 3), long([2, 0])),
        types=FLOAT32,
        backward=False,
    ),
    OperatorCase("index_select", lambda x, i: x.index_select(1, i), with_values(normal((3, 4)), long([2, 0, 2]))),
    OperatorCase(
        "index_select of no positions", lambda x, i: x.index_select(0, i), with_values(normal((3, 4)), long([]))
    ),
    OperatorCase("gather", lambda x, i: x.gather(1, i), with_values(normal((3, 4)), long([[0, 0], [3, 1], [2, 2]]))),
    OperatorCase(
        "gather along the first dimension",
        lambda x, i: x.gather(0, i),
        with_values(normal((3, 4)), long([[0, 2, 1, 1]])),
    ),
    OperatorCase("take", lambda x, i: x.take(i), with_values(normal((3, 4)), long([[0, 11], [5, 5]]))),
    OperatorCase(
        "take_along_dim",
        lambda x, i: torch.take_along_dim(x, i, dim=1),
        with_values(normal((3, 4)), long([[0], [3], [2]])),
    ),
    OperatorCase("masked_select", torch.masked_select, with_values(normal((3, 4)), MASK)),
    OperatorCase("masked_select with broadcast", torch.masked_select, with_values(normal((2, 3, 4)), MASK)),
    OperatorCase("masked_select of nothing", torch.masked_select, with_values(normal((3, 4)), NOTHING)),
    OperatorCase("diagonal", lambda x: x.diagonal(1) * 2, normal((3, 4))),
]

WRITING = [
    OperatorCase("assign to positions", assign(lambda i: i), with_values(normal((4, 3), (2, 3)), long([2, 0]))),
    OperatorCase("assign one row to positions", assign(lambda i: i), with_values(normal((4, 3), (3,)), long([2, 0]))),
    OperatorCase(
        "assign a number to positions",
        assign(lambda i: i),
        with_values(normal((4, 3)), 2.5, long([2, 0])),
    ),
    OperatorCase(
        "assign to several", assign(lambda i, j: (i, j)), with_values(normal((3, 4), (2,)), long([0, 2]), long([1, 3]))
    ),
    OperatorCase(
        "assign to the last dimension",
        assign(lambda i: (Ellipsis, i)),
        with_values(normal((2, 3, 4), (2, 3, 2)), long([3, 0])),
    ),
    OperatorCase("assign to a mask", assign(lambda m: m), with_values(normal((3, 4), (6,)), MASK)),
    OperatorCase("assign a number to a mask", assign(lambda m: m), with_values(normal((3, 4)), -1.0, MASK)),
    OperatorCase("assign to a mask of rows", assign(lambda m: m), with_values(normal((3, 4), (2, 4)), ROWS)),
    OperatorCase(
        "assign a number to a mask of nothing",
        assign(lambda m: m),
        with_values(normal((3, 4)), -1.0, NOTHING),
    ),
    OperatorCase(
        "assign a number to no positions",
        assign(lambda i: i),
        fixed(torch.arange(4), 9, long([])),
        types=FLOAT32,
        backward=False,
    ),
    OperatorCase("assign to a slice", assign(lambda: (slice(1, 3), slice(None, None, 2))), normal((3, 4), (2, 2))),
    OperatorCase(
        "accumulate at positions",
        assign(lambda i: (i,), accumulate=True),
        with_values(normal((4, 3), (3, 3)), long([2, 0, 2])),
    ),
    OperatorCase(
        "accumulate at several",
        assign(lambda i, j: (i, j), accumulate=True),
        with_values(normal((3, 4), (3,)), long([0, 2, 0]), long([1, 3, 1])),
    ),
    OperatorCase(
        "index_put", lambda x, v, i: torch.index_put(x, (i,), v), with_values(normal((4, 3), (2, 3)), long([3, 1]))
    ),
    OperatorCase(
        "index_add", lambda x, s, i: x.index_add(0, i, s, alpha=2), with_values(normal((4, 3), (3, 3)), long([2, 0, 2]))
    ),
    OperatorCase(
        "index_add in place",
        lambda x, s, i: x.clone().index_add_(1, i, s),
        with_values(normal((3, 4), (3, 2)), long([2, 0])),
    ),
    OperatorCase(
        "index_copy", lambda x, s, i: x.index_copy(0, i, s), with_values(normal((4, 3), (2, 3)), long([2, 0]))
    ),
    OperatorCase(
        "index_copy in place",
        lambda x, s, i: x.clone().index_copy_(1, i, s),
        with_values(normal((3, 4), (3, 2)), long([2, 0])),
    ),
    OperatorCase("index_fill", lambda x, i: x.index_fill(0, i, 2.5), with_values(normal((4, 3)), long([2, 0]))),
    OperatorCase(
        "index_fill by a tensor",
        lambda x, v, i: x.index_fill(1, i, v),
        with_values(normal((3, 4)), torch.tensor(1.5), long([2, 0])),
    ),
    OperatorCase(
        "index_fill in place", lambda x, i: x.clone().index_fill_(1, i, 2.5), with_values(normal((3, 4)), long([2, 0]))
    ),
    OperatorCase("put", lambda x, s, i: x.put(i, s), with_values(normal((3, 4), (2,)), long([5, 0])), types=FLOAT32),
    OperatorCase(
        "put in place and accumulate",
        lambda x, s, i: x.clone().put_(i, s, accumulate=True),
        with_values(normal((3, 4), (3,)), long([5, 0, 5])),
    ),
    OperatorCase("masked_fill", lambda x, m: x.masked_fill(m, -2.0), with_values(normal((3, 4)), MASK)),
    OperatorCase(
        "masked_fill of minus infinity", lambda x, m: x.masked_fill(m, float("-inf")), with_values(normal((3, 4)), MASK)
    ),
    OperatorCase("masked_fill with broadcast", lambda x, m: x.masked_fill(m, 0), with_values(normal((2, 3, 4)), MASK)),
    OperatorCase(
        "masked_fill in place", lambda x, m: x.clone().masked_fill_(m, 3.0), with_values(normal((3, 4)), MASK)
    ),
    OperatorCase(
        "masked_fill by a tensor",
        lambda x, v, m: x.masked_fill(m, v),
        with_values(normal((3, 4)), torch.tensor(1.5), MASK),
    ),
    OperatorCase(
        "masked_scatter",
        lambda x, s, m: x.masked_scatter(m, s),
        with_values(normal((3, 4), (12,)), MASK),
        types=FLOAT32,
    ),
    OperatorCase(
        "masked_scatter in place",
        lambda x, s, m: x.clone().masked_scatter_(m, s),
        with_values(normal((3, 4), (12,)), MASK),
        backward=False,
    ),
]

POSITIONS = long([[0, 2], [3, 1], [2, 0]])
REPEATED = long([[0, 0], [3, 3], [2, 2]])

SCATTERING = [
    OperatorCase("scatter", lambda x, s, i: x.scatter(1, i, s), with_values(normal((3, 4), (3, 2)), POSITIONS)),
    OperatorCase("scatter of a number", lambda x, i: x.scatter(1, i, 2.5), with_values(normal((3, 4)), POSITIONS)),
    OperatorCase(
        "scatter in place", lambda x, s, i: x.clone().scatter_(1, i, s), with_values(normal((3, 4), (3, 2)), POSITIONS)
    ),
    OperatorCase(
        "scatter of a number in place",
        lambda x, i: x.clone().scatter_(1, i, 2.5),
        with_values(normal((3, 4)), POSITIONS),
    ),
    OperatorCase(
        "scatter that adds",
        lambda x, s, i: reduced_scatter(x, i, s, "add"),
        with_values(normal((3, 4), (3, 2)), REPEATED),
        backward=False,
    ),
    OperatorCase(
        "scatter that multiplies",
        lambda x, s, i: reduced_scatter(x, i, s, "multiply"),
        with_values(normal((3, 4), (3, 2)), POSITIONS),
        backward=False,
    ),
    OperatorCase(
        "scatter of a number that adds",
        lambda x, i: x.clone().scatter_(1, i, 2.5, reduce="add"),
        with_values(normal((3, 4)), POSITIONS),
        backward=False,
    ),
    OperatorCase("scatter_add", lambda x, s, i: x.scatter_add(1, i, s), with_values(normal((3, 4), (3, 2)), REPEATED)),
    OperatorCase(
        "scatter_add in place",
        lambda x, s, i: x.clone().scatter_add_(0, i, s),
        with_values(normal((4, 2), (3, 2)), REPEATED),
    ),
    *(
        OperatorCase(
            f"scatter_reduce with {reduction}",
            lambda x, s, i, reduction=reduction: x.scatter_reduce(1, i, s, reduction),
            with_values(normal((3, 4), (3, 2)), REPEATED),
            backward=reduction != "prod",
        )
        for reduction in ("sum", "prod", "mean", "amax", "amin")
    ),
    OperatorCase(
        "scatter_reduce without the target",
        lambda x, s, i: x.scatter_reduce(1, i, s, "sum", include_self=False),
        with_values(normal((3, 4), (3, 2)), REPEATED),
    ),
    OperatorCase(
        "scatter_reduce in place",
        lambda x, s, i: x.clone().scatter_reduce_(1, i, s, "sum"),
        with_values(normal((3, 4), (3, 2)), REPEATED),
    ),
]

FINDING = [
    OperatorCase("nonzero", torch.nonzero, fixed(MASK), types=FLOAT32, backward=False),
    OperatorCase("nonzero of numbers", torch.nonzero, fixed(torch.tensor([[0.0, 2.0], [1.0, 0.0]])), backward=False),
    OperatorCase("nonzero of nothing", torch.nonzero, fixed(NOTHING), types=FLOAT32, backward=False),
    OperatorCase("nonzero of one number", torch.nonzero, fixed(torch.tensor(3.0)), backward=False),
    OperatorCase(
        "nonzero as a tuple",
        lambda m: m.nonzero(as_tuple=True),
        fixed(MASK),
        types=FLOAT32,
        backward=False,
    ),
    OperatorCase("where of one argument", torch.where, fixed(MASK.t()), types=FLOAT32, backward=False),
    OperatorCase("argwhere", torch.argwhere, fixed(MASK), types=FLOAT32, backward=False),
]

OWN = [
    OperatorCase(
        "scatter_nd_update of torch_npu",
        scatter_nd_update,
        with_values(normal((4, 3), (2, 3)), long([2, 0])),
        backward=False,
    ),
    OperatorCase(
        "scatter_update of torch_npu",
        scatter_update,
        with_values(normal((2, 4, 3), (2, 1, 3)), long([3, 1])),
        backward=False,
    ),
    OperatorCase(
        "gather_sparse_index of torch_npu",
        gather_sparse_index,
        with_values(normal((4, 3)), long([[2, 0], [1, 1]])),
        backward=False,
    ),
    OperatorCase(
        "index_add of torch_npu", own_index_add, with_values(normal((4, 3), (3, 3)), long([2, 0, 2])), backward=False
    ),
]

CASES = [*READING, *WRITING, *SCATTERING, *FINDING, *OWN]

"""Functions that move elements without computing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from .case import OperatorCase, fixed, normal, whole, with_values


def pad(*padding: int, mode: str = "constant", **options: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    """A call of pad."""
    return lambda x: functional.pad(x, padding, mode=mode, **options)


JOINING = [
    OperatorCase("cat", lambda *parts: torch.cat(parts), normal((2, 3), (1, 3), (4, 3))),
    OperatorCase("cat along the last dimension", lambda *parts: torch.cat(parts, -1), normal((2, 3), (2, 1))),
    OperatorCase("cat of transposed parts", lambda a, b: torch.cat((a.t(), b)), normal((3, 2), (1, 3))),
    OperatorCase("cat with an empty part", lambda *parts: torch.cat(parts), normal((2, 3), (0, 3), (1, 3))),
    OperatorCase("cat with a legacy empty part", lambda *parts: torch.cat(parts), normal((2, 3), (0,))),
    OperatorCase(
        "cat with out", lambda a, b: torch.cat((a, b), out=a.new_empty(3, 3)), normal((2, 3), (1, 3)), backward=False
    ),
    whole("cat of two types", lambda a, b: torch.cat((a, b)), fixed(torch.tensor([1, 2]), torch.tensor([0.5]))),
    whole("cat of truth values", lambda a: torch.cat((a, ~a)), fixed(torch.tensor([True, False]))),
    OperatorCase("stack", lambda *parts: torch.stack(parts), normal((2, 3), (2, 3))),
    OperatorCase("stack along the last dimension", lambda *parts: torch.stack(parts, -1), normal((2, 3), (2, 3))),
    OperatorCase("stack of numbers", lambda *parts: torch.stack(parts), normal((), ())),
    OperatorCase(
        "hstack and vstack", lambda a, b: (torch.hstack((a, b)), torch.vstack((a, b))), normal((2, 3), (2, 3))
    ),
    OperatorCase("chunk_cat", lambda a, b: torch._chunk_cat((a, b), 0, 2), normal((3, 2), (4,)), backward=False),
    OperatorCase("block_diag", torch.block_diag, normal((2, 3), (1, 2))),
]

SPLITTING = [
    OperatorCase("split", lambda x: torch.split(x, 2), normal((5, 3))),
    OperatorCase("split into given sizes", lambda x: x.split([1, 3], 1), normal((3, 4))),
    OperatorCase(
        "split into copies", lambda x: torch.split_with_sizes_copy(x, [1, 3], 1), normal((3, 4)), backward=False
    ),
    OperatorCase("chunk", lambda x: x.chunk(3, -1), normal((2, 7))),
    OperatorCase("unbind", lambda x: x.unbind(1), normal((2, 3))),
]

REPEATING = [
    OperatorCase("repeat", lambda x: x.repeat(2, 3), normal((2, 3))),
    OperatorCase("repeat into more dimensions", lambda x: x.repeat(2, 1, 2), normal((3,))),
    OperatorCase("repeat no times", lambda x: x.repeat(0, 2), normal((2, 3))),
    OperatorCase("tile", lambda x: torch.tile(x, (2, 2)), normal((2, 3))),
    OperatorCase("expand", lambda x: x.expand(4, -1, 2) * 2, normal((3, 1))),
    OperatorCase("broadcast_to", lambda x: torch.broadcast_to(x, (2, 3)).clone(), normal((3,))),
    OperatorCase(
        "meshgrid", lambda a, b: [part.clone() for part in torch.meshgrid(a, b, indexing="ij")], normal((2,), (3,))
    ),
    OperatorCase("repeat_interleave", lambda x: x.repeat_interleave(2), normal((2, 3))),
    OperatorCase("repeat_interleave along a dimension", lambda x: x.repeat_interleave(3, 1), normal((2, 3))),
    OperatorCase(
        "repeat_interleave by a tensor",
        lambda x, r: x.repeat_interleave(r),
        with_values(normal((3,)), torch.tensor([2, 0, 1])),
    ),
    OperatorCase(
        "repeat_interleave by a tensor along a dimension",
        lambda x, r: x.repeat_interleave(r, 0),
        with_values(normal((3, 2)), torch.tensor([2, 0, 1])),
    ),
    whole("repeat_interleave of positions", torch.repeat_interleave, fixed(torch.tensor([2, 0, 1]))),
]

MOVING = [
    OperatorCase("flip", lambda x: torch.flip(x, (0, 2)), normal((2, 3, 4))),
    OperatorCase("fliplr", torch.fliplr, normal((2, 3))),
    OperatorCase("rot90", torch.rot90, normal((2, 3))),
    OperatorCase("roll", lambda x: torch.roll(x, (1, -2), (0, 1)), normal((3, 4))),
    OperatorCase("roll of all", lambda x: torch.roll(x, 2), normal((3, 4))),
    OperatorCase("permute", lambda x: x.permute(2, 0, 1).contiguous(), normal((2, 3, 4))),
    OperatorCase("transpose and reshape", lambda x: x.transpose(0, 2).reshape(4, 6), normal((2, 3, 4))),
    OperatorCase("movedim", lambda x: x.movedim(0, 2) + 1, normal((2, 3, 4))),
    OperatorCase("slices with steps", lambda x: x[1:, ::2] * 2, normal((3, 5))),
    OperatorCase("narrow and select", lambda x: x.narrow(1, 1, 2).select(0, 1) * 2, normal((3, 5))),
    OperatorCase("squeeze and unsqueeze", lambda x: x.squeeze(1).unsqueeze(0) * 2, normal((3, 1, 2))),
    OperatorCase("flatten and unflatten", lambda x: x.flatten(1).unflatten(1, (2, 3)) * 2, normal((2, 3, 2))),
    OperatorCase("as_strided", lambda x: torch.as_strided(x, (2, 2), (1, 2), 1) * 2, normal((3, 3))),
    OperatorCase("pixel_shuffle", lambda x: functional.pixel_shuffle(x, 2), normal((1, 4, 2, 3))),
    OperatorCase("pixel_unshuffle", lambda x: functional.pixel_unshuffle(x, 2), normal((1, 1, 4, 2))),
    whole("one_hot", lambda x: functional.one_hot(x, 4), fixed(torch.tensor([[0, 3], [1, 1]]))),
    whole("one_hot of unknown count", functional.one_hot, fixed(torch.tensor([0, 2, 1]))),
]

TRIANGLES = [
    OperatorCase("tril", torch.tril, normal((3, 4))),
    OperatorCase("tril above the diagonal", lambda x: torch.tril(x, 1), normal((2, 3, 4))),
    OperatorCase("triu", torch.triu, normal((3, 4))),
    OperatorCase("triu below the diagonal", lambda x: torch.triu(x, -1), normal((2, 4, 3))),
    OperatorCase("tril in place", lambda x: x.clone().tril_(), normal((3, 4))),
    OperatorCase("triu in place", lambda x: x.clone().triu_(1), normal((3, 4))),
    whole("triangles of truth values", lambda x: (x.tril(), x.triu()), fixed(torch.ones(3, 3, dtype=torch.bool))),
    whole("positions of a triangle", lambda x: torch.tril_indices(3, 3, device=x.device), fixed(torch.ones(1))),
    OperatorCase("diag of a vector", torch.diag, normal((3,))),
    OperatorCase("diag of a matrix", lambda x: torch.diag(x, 1), normal((3, 4))),
    OperatorCase("diag_embed", torch.diag_embed, normal((2, 3))),
    OperatorCase("diagonal_scatter", torch.diagonal_scatter, normal((3, 3), (3,))),
]

PADDING = [
    OperatorCase("pad with a number", pad(1, 2, 0, 1, value=2.5), normal((2, 3))),
    OperatorCase("pad with negative widths", pad(-1, 2), normal((2, 3))),
    whole("pad of integers", pad(1, 1), fixed(torch.tensor([1, 2]))),
    OperatorCase("reflect in 1 dimension", pad(1, 2, mode="reflect"), normal((1, 2, 4))),
    OperatorCase("reflect in 2 dimensions", pad(1, 2, 2, 1, mode="reflect"), normal((1, 2, 4, 4))),
    OperatorCase("reflect in 3 dimensions", pad(1, 1, 1, 0, 0, 1, mode="reflect"), normal((1, 2, 2, 3, 3))),
    OperatorCase("replicate in 1 dimension", pad(1, 2, mode="replicate"), normal((1, 2, 4))),
    OperatorCase("replicate in 2 dimensions", pad(1, 2, 2, 1, mode="replicate"), normal((1, 2, 3, 3))),
    OperatorCase("replicate in 3 dimensions", pad(1, 1, 2, 0, 0, 1, mode="replicate"), normal((1, 2, 2, 3, 2))),
    OperatorCase("reflect without a batch", pad(1, 1, 1, 1, mode="reflect"), normal((2, 3, 3))),
    OperatorCase("pad in a circle", pad(1, 2, mode="circular"), normal((1, 2, 4))),
]

WINDOWS = [
    OperatorCase(
        "unfold of images", lambda x: functional.unfold(x, 2, dilation=1, padding=1, stride=2), normal((2, 3, 4, 4))
    ),
    OperatorCase("fold of images", lambda x: functional.fold(x, (4, 5), (2, 2), stride=(1, 2)), normal((2, 12, 6))),
    OperatorCase("unfold of a dimension", lambda x: x.unfold(1, 3, 2) * 2, normal((2, 7))),
]

CASES = [*JOINING, *SPLITTING, *REPEATING, *MOVING, *TRIANGLES, *PADDING, *WINDOWS]

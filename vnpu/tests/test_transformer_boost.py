"""Operations of Ascend Transformer Boost, as torch_npu's plugin calls them, against the CPU."""

from __future__ import annotations

import os

import pytest
import torch
import torch_npu

TOKENS, HEADS, HEAD = 5, 3, 16


def turned(vectors: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor, *, by_halves: bool) -> torch.Tensor:
    """Turn each pair of numbers of a head; the pairs are of both halves, or neighbours."""
    heads = vectors.view(TOKENS, HEADS, HEAD).float()
    if by_halves:
        first, second = heads.chunk(2, -1)
    else:
        first, second = heads[..., ::2], heads[..., 1::2]
    cosines, sines = cosines[:, None].float(), sines[:, None].float()
    parts = (first * cosines - second * sines, second * cosines + first * sines)
    return (torch.cat(parts, -1) if by_halves else torch.stack(parts, -1).flatten(-2)).view(TOKENS, -1)


@pytest.mark.skipif(
    not os.environ.get("MSMEMSCOPE_NIGHTLY"),
    reason="run at night: it crashed once in a process that had run other tests before, and the cause is not known",
)
@pytest.mark.parametrize("by_halves", [True, False])
@pytest.mark.usefixtures("npu")
def test_rotary_embedding(*, by_halves: bool) -> None:
    """Queries and keys are turned in place, by the angles of their positions."""
    dtype = torch.float16  # a second type in a process gets the angles that the plugin made for the first one
    generator = torch.Generator().manual_seed(0)
    angles = torch.rand(9, HEAD // 2, generator=generator)
    table = torch.cat((angles.cos(), angles.sin()), -1).to(dtype)
    positions = torch.tensor([3, 0, 8, 3, 1])
    queries, keys = (torch.randn(TOKENS, HEADS * HEAD, generator=generator).to(dtype) for _ in range(2))
    on_npu = queries.npu(), keys.npu()
    torch_npu._npu_rotary_embedding(positions.npu(), *on_npu, HEAD, table.npu(), by_halves)
    cosines, sines = table[positions].chunk(2, -1)
    for given, found in zip((queries, keys), on_npu, strict=True):
        expected = turned(given, cosines, sines, by_halves=by_halves)
        torch.testing.assert_close(found.cpu().float(), expected, atol=0.004, rtol=0.004)


@pytest.mark.usefixtures("npu")
def test_reshape_and_cache() -> None:
    """Each token is in its slot, and all other slots are as they were."""
    generator = torch.Generator().manual_seed(0)
    keys, values = (torch.randn(TOKENS, HEADS, HEAD, generator=generator).half() for _ in range(2))
    slots = [7, 2, 0, 11, 4]
    caches = [torch.full((3, 4, HEADS, HEAD), 7.0, dtype=torch.float16) for _ in range(2)]
    on_npu = [cache.npu() for cache in caches]
    where = torch.tensor(slots, dtype=torch.int32).npu()
    torch_npu._npu_reshape_and_cache(keys.npu(), values.npu(), *on_npu, where)
    for given, cache, found in zip((keys, values), caches, on_npu, strict=True):
        cache.view(12, HEADS, HEAD)[slots] = given
        assert torch.equal(found.cpu(), cache)


@pytest.mark.usefixtures("npu")
def test_product_that_is_added() -> None:
    """The first matrix is transposed; sums are floats."""
    generator = torch.Generator().manual_seed(0)
    first, second = torch.randn(6, 4, generator=generator).half(), torch.randn(6, 3, generator=generator).half()
    total = torch.randn(4, 3, generator=generator)
    found = total.npu()
    torch_npu._npu_matmul_add_fp32(first.npu(), second.npu(), found)
    torch.testing.assert_close(found.cpu(), total + first.float().T @ second.float())

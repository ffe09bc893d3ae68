"""Attention for inference, rotary positions, and attention in a ring of devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from .attention import grouped_heads, heads
from .case import OperatorCase


def with_positions(generator: Any) -> tuple[torch.Tensor, ...]:
    """Heads, and a cosine and a sine for each position."""
    return torch.randn(2, 4, 8, 16, generator=generator), *torch.randn(2, 1, 1, 8, 16, generator=generator)


def rotate(x: torch.Tensor, mode: str) -> torch.Tensor:
    """The other element of each pair."""
    if mode == "half":
        first, second = x.chunk(2, -1)
        return torch.cat([-second, first], -1)
    return torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)


def rotary(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor, mode: str) -> torch.Tensor:
    """Rotary positions."""
    if x.device.type == "npu":
        return torch.ops.npu.npu_rotary_mul(x, cosine, sine, mode)
    return x * cosine + rotate(x, mode) * sine


def ring(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Attention to two halves of the keys, put together: what each device of a ring does."""
    if query.device.type == "cpu":
        return functional.scaled_dot_product_attention(query, key, value).permute(2, 0, 1, 3).flatten(2)
    query, key, value = (x.permute(2, 0, 1, 3).flatten(2) for x in (query, key, value))
    halves = [
        torch.ops.npu.npu_fusion_attention(query, half_key, half_value, 4, "SBH", scale=0.25)[:3]
        for half_key, half_value in zip(key.split([3, 5]), value.split([3, 5]), strict=True)
    ]
    return torch.ops.npu.npu_ring_attention_update(*halves[0], *halves[1], input_layout="SBH")[0]


def query_and_key_with_positions(generator: Any) -> tuple[torch.Tensor, ...]:
    """Query and key of shape (batch, length, heads, depth), cosines and sines."""
    query, key = torch.randn(2, 8, 4, 64, generator=generator), torch.randn(2, 8, 2, 64, generator=generator)
    return query, key, *torch.randn(2, 2, 8, 1, 64, generator=generator)


def rotary_in_place(query: torch.Tensor, key: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> Any:
    """Rotary positions of two tensors in one call, which overwrites them."""
    if query.device.type == "npu":
        return torch.ops.npu.npu_apply_rotary_pos_emb(query.clone(), key.clone(), cosine, sine, "BSND", "half")
    return tuple(x * cosine + rotate(x, "half") * sine for x in (query, key))


def token_with_positions(generator: Any) -> tuple[torch.Tensor, ...]:
    """Heads of one token, a cosine and a sine."""
    return torch.randn(2, 4, 1, 64, generator=generator), *torch.randn(2, 2, 1, 1, 64, generator=generator)


def interleave_rope(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Rotary positions that take neighbours and leave halves."""
    if x.device.type == "npu":
        return torch.ops.npu.npu_interleave_rope(x, cosine, sine)
    halves = torch.cat([x[..., ::2], x[..., 1::2]], -1)
    return halves * cosine + rotate(halves, "half") * sine


def inference(name: str, layout: str) -> Callable[..., torch.Tensor]:
    """A function for inference, in a layout; tensors arrive as (batch, heads, length, depth)."""

    def call(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        if query.device.type == "cpu":
            return functional.scaled_dot_product_attention(query, key, value, enable_gqa=True)
        options = {
            "npu_prompt_flash_attention": {"num_heads": 4, "scale_value": 0.25, "next_tokens": 2147483647},
            "npu_fused_infer_attention_score": {"num_heads": 4, "scale": 0.25},
            "npu_fused_infer_attention_score_v2": {"num_query_heads": 4, "softmax_scale": 0.25},
        }[name]
        if layout != "BNSD":
            query, key, value = (x.transpose(1, 2).contiguous() for x in (query, key, value))
        if layout == "BSH":
            query, key, value = (x.flatten(2) for x in (query, key, value))
        result = getattr(torch.ops.npu, name)(query, key, value, input_layout=layout, num_key_value_heads=2, **options)
        result = result[0] if isinstance(result, tuple) else result
        if layout == "BSH":
            result = result.unflatten(2, (4, 16))
        return result if layout == "BNSD" else result.transpose(1, 2)

    return call


def one_token(*, paged: bool) -> Callable[..., torch.Tensor]:
    """The next token after a cache with 7 and 10 keys in use, in one piece or in pages of 5 keys."""

    def call(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        lengths = [7, 10]
        query = query[:, :, :1]
        if query.device.type == "cpu":
            seen = torch.arange(10) < torch.tensor(lengths).view(2, 1, 1, 1)
            return functional.scaled_dot_product_attention(query, key, value, seen, enable_gqa=True)
        options: dict[str, Any] = {}
        if paged:
            # (batch, heads, pages, 5, depth) to (blocks, 5, heads * depth), the blocks in another order.
            order = torch.tensor([2, 0, 3, 1], device=key.device)
            key, value = (
                x.unflatten(2, (2, 5)).permute(0, 2, 3, 1, 4).flatten(3).flatten(0, 1)[order] for x in (key, value)
            )
            options = {"block_table": torch.tensor([[1, 3], [0, 2]], dtype=torch.int32).npu(), "block_size": 5}
        else:
            key, value = (x.transpose(1, 2).flatten(2) for x in (key, value))
        result = torch.ops.npu.npu_incre_flash_attention(
            query.transpose(1, 2).flatten(2),
            key,
            value,
            num_heads=4,
            scale_value=0.25,
            input_layout="BSH",
            num_key_value_heads=2,
            actual_seq_lengths=lengths,
            **options,
        )
        return result.unflatten(2, (4, 16)).transpose(1, 2)

    return call


CASES = [
    *[
        OperatorCase(f"npu_rotary_mul {mode}", lambda x, c, s, mode=mode: rotary(x, c, s, mode), with_positions)
        for mode in ("half", "interleave")
    ],
    OperatorCase("npu_ring_attention_update", ring, heads, ("float32",), backward=False),
    OperatorCase("npu_apply_rotary_pos_emb", rotary_in_place, query_and_key_with_positions, ("bfloat16",), False),
    OperatorCase("npu_interleave_rope", interleave_rope, token_with_positions, ("bfloat16",), False),
    *[
        OperatorCase(f"{name} {layout}", inference(name, layout), grouped_heads, ("bfloat16",), False)
        for name in ("npu_prompt_flash_attention", "npu_fused_infer_attention_score")
        for layout in ("BNSD", "BSND", "BSH")
    ],
    OperatorCase(
        "npu_fused_infer_attention_score_v2",
        inference("npu_fused_infer_attention_score_v2", "BNSD"),
        grouped_heads,
        ("bfloat16",),
        False,
    ),
    OperatorCase("npu_incre_flash_attention", one_token(paged=False), grouped_heads, ("bfloat16",), False),
    OperatorCase("npu_incre_flash_attention on pages", one_token(paged=True), grouped_heads, ("bfloat16",), False),
]

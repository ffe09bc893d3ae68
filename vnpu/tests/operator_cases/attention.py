"""Attention in its forms: one call, module, layer, and small models; softmax with a scale and a mask; rotary positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from .case import OperatorCase


def heads(generator: Any) -> tuple[torch.Tensor, ...]:
    """Query, key and value of shape (batch 2, heads 4, length 8, depth 16)."""
    return tuple(torch.randn(3, 2, 4, 8, 16, generator=generator))


def grouped_heads(generator: Any) -> tuple[torch.Tensor, ...]:
    """Four heads of the query share two of key and value, which are longer."""
    return torch.randn(2, 4, 6, 16, generator=generator), *torch.randn(2, 2, 2, 10, 16, generator=generator)


def with_bool_mask(generator: Any) -> tuple[torch.Tensor, ...]:
    """The same with which keys each query may see."""
    mask = torch.rand(2, 1, 8, 8, generator=generator) < 0.7
    mask[..., 0] = True
    return *heads(generator), mask


def with_bias(generator: Any) -> tuple[torch.Tensor, ...]:
    """The same with a number for each query and key."""
    return *heads(generator), torch.randn(8, 8, generator=generator)


def in_a_row(generator: Any) -> tuple[torch.Tensor, ...]:
    """Sequences of length 3, 5 and 2 one after the other: (10, heads 4, depth 16)."""
    return tuple(torch.randn(3, 10, 4, 16, generator=generator))


def constant_values(generator: Any) -> tuple[torch.Tensor, ...]:
    """Attention whose values are one, so that dropout alone makes the result."""
    query, key = torch.randn(2, 2, 4, 64, 16, generator=generator)
    return query, key, torch.ones(2, 4, 64, 16)


def fused(layout: str, **options: Any) -> Callable[..., torch.Tensor]:
    """torch_npu's own attention, compared with SDPA on the CPU; tensors arrive as (batch, heads, length, depth)."""

    def call(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        scale = query.shape[-1] ** -0.5
        causal = options.get("sparse_mode", 0) in (2, 3)
        if query.device.type == "cpu":
            mask = None
            if causal:
                shift = key.shape[2] - query.shape[2] if options["sparse_mode"] == 3 else 0
                mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool).tril(shift)
            return functional.scaled_dot_product_attention(query, key, value, mask, enable_gqa=True)
        to_layout: Callable[[torch.Tensor], torch.Tensor] = {
            "BNSD": lambda x: x,
            "BSND": lambda x: x.transpose(1, 2),
            "BSH": lambda x: x.transpose(1, 2).flatten(2),
            "SBH": lambda x: x.permute(2, 0, 1, 3).flatten(2),
        }[layout]
        triangle = torch.ones(2048, 2048, dtype=torch.bool).triu(1).npu() if causal else None
        result = torch.ops.npu.npu_fusion_attention(
            *(to_layout(x) for x in (query, key, value)),
            query.shape[1],
            layout,
            scale=scale,
            atten_mask=triangle,
            **options,
        )[0]
        _, count, _, depth = query.shape
        return {
            "BNSD": lambda x: x,
            "BSND": lambda x: x.transpose(1, 2),
            "BSH": lambda x: x.unflatten(2, (count, depth)).transpose(1, 2),
            "SBH": lambda x: x.unflatten(2, (count, depth)).permute(1, 2, 0, 3),
        }[layout](result)

    return call


def fused_with_bias(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """The bias of torch_npu's attention is scaled with the scores."""
    scale = query.shape[-1] ** -0.5
    whole = bias.expand(query.shape[0], query.shape[1], *bias.shape)
    if query.device.type == "cpu":
        return functional.scaled_dot_product_attention(query, key, value, whole * scale)
    return torch.ops.npu.npu_fusion_attention(
        query, key, value, query.shape[1], "BNSD", pse=whole.contiguous(), scale=scale
    )[0]


def fused_v2(kind: int) -> Callable[..., torch.Tensor]:
    """The second version, in which the bias may be added before or after scaling."""

    def call(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        scale = query.shape[-1] ** -0.5
        whole = bias.expand(query.shape[0], query.shape[1], *bias.shape)
        if query.device.type == "cpu":
            return functional.scaled_dot_product_attention(query, key, value, whole * (scale if kind == 1 else 1))
        return torch.ops.npu.npu_fusion_attention_v2(
            query, key, value, query.shape[1], "BNSD", pse=whole.contiguous(), scale=scale, pse_type=kind
        )[0]

    return call


def fused_in_a_row(*, causal: bool, version: str = "", rope: bool = False, sink: bool = False, **options: Any) -> Any:
    """Attention within each of several sequences that lie in one tensor."""
    ends = [3, 8, 10]

    def call(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        if query.device.type == "cpu":
            parts = [x.transpose(0, 1).tensor_split(ends[:-1], 1) for x in (query, key, value)]
            attended = [
                functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
                for q, k, v in zip(*parts, strict=True)
            ]
            return torch.cat(attended, 1).transpose(0, 1)
        count, scale = query.shape[1], query.shape[-1] ** -0.5
        more = dict(options)
        if causal:
            more |= {"atten_mask": torch.ones(2048, 2048, dtype=torch.bool).triu(1).npu(), "sparse_mode": 3}
        if sink:
            more["sink"] = torch.full((count,), -1e4).npu()  # so low that it takes no weight
        if rope:
            more |= {"query_rope": query[..., 8:].contiguous(), "key_rope": key[..., 8:].contiguous()}
            query, key = query[..., :8].contiguous(), key[..., :8].contiguous()
        function = getattr(torch.ops.npu, f"npu_fusion_attention{version}")
        lengths = {"actual_seq_qlen": ends, "actual_seq_kvlen": ends}
        return function(query, key, value, count, "TND", scale=scale, **lengths, **more)[0]

    return call


def module(make: Callable[[], nn.Module], *, train: bool = True) -> Callable[..., Any]:
    """A call of a module with the same weights on every device."""

    def call(x: torch.Tensor, *more: Any) -> Any:
        torch.manual_seed(11)
        net = make().to(device=x.device, dtype=x.dtype).train(train)
        result = net(x, *more)
        if not torch.is_grad_enabled():
            return result
        # The gradients of the weights are results too. In a direction of their own: after a layer norm the sum of
        # squares, for one, is the same for all weights.
        probe = (result.float() * torch.linspace(-1, 1, result.numel()).view_as(result).to(result.device)).sum()
        gradients = torch.autograd.grad(probe, list(net.parameters()), retain_graph=True, allow_unused=True)
        return result, *(gradient for gradient in gradients if gradient is not None)

    return call


class SelfAttention(nn.Module):
    """nn.MultiheadAttention of a sequence with itself."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)
        self.options = options

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attend."""
        options = dict(self.options)
        if options.pop("causal", False):
            options["attn_mask"] = nn.Transformer.generate_square_subsequent_mask(x.shape[1], x.device, x.dtype)
            options["is_causal"] = True
        if options.pop("padding", False):
            options["key_padding_mask"] = torch.arange(x.shape[1], device=x.device).expand(x.shape[:2]) >= 5
        return self.attention(x, x, x, **options)[0]


class GptBlock(nn.Module):
    """A block of a GPT: causal self attention and a perceptron, each after a layer norm, and added."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.up, self.down = nn.Linear(16, 64), nn.Linear(64, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One block."""
        parts = self.qkv(self.norm1(x)).chunk(3, -1)
        query, key, value = (part.unflatten(2, (4, 4)).transpose(1, 2) for part in parts)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class BertBlock(nn.Module):
    """A block of a BERT: self attention with a padding mask, and a layer norm after each addition."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(16, 16) for _ in range(4))
        self.norm1, self.norm2 = nn.LayerNorm(16, eps=1e-12), nn.LayerNorm(16, eps=1e-12)
        self.up, self.down = nn.Linear(16, 64), nn.Linear(64, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One block."""
        query, key, value = (
            layer(x).unflatten(2, (4, 4)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        padding = (torch.arange(x.shape[1], device=x.device) >= 6).to(x.dtype) * torch.finfo(x.dtype).min
        scores = query @ key.transpose(-1, -2) / 2 + padding
        x = self.norm1(x + self.out((scores.softmax(-1) @ value).transpose(1, 2).flatten(2)))
        return self.norm2(x + self.down(functional.gelu(self.up(x))))


def hidden_states(generator: Any) -> tuple[torch.Tensor]:
    """A tensor of shape (batch 2, length 8, width 16)."""
    return (torch.randn(2, 8, 16, generator=generator),)


def dropout_is_right(result: torch.Tensor, gradient: torch.Tensor, weights: torch.Tensor) -> None:
    """Values are dropped at the right rate and scaled, and the gradient has the forward pass's mask.

    Args:
        result: Attention with values of one and dropout of 0.25.
        gradient: The gradient of the sum of the result by the values.
        weights: The weights of attention without dropout.
    """
    assert abs(result.mean().item() - 1) < 0.02
    # The sum over keys of the gradient equals that over queries of the result: both are the sum of the kept weights.
    # Each is rounded: to bfloat16 by as much as 1 in 256, at random.
    torch.testing.assert_close(gradient[..., 0].sum(-1), result[..., 0].sum(-1), rtol=4e-3, atol=1e-3)
    # Each weight w of the sum is kept with 0.75 and divided by 0.75. So the variance of the sum is the sum of w^2 / 3.
    expected = (weights.square().sum(-1) / 3).mean().sqrt().item()
    assert abs(result[..., 0].std().item() / expected - 1) < 0.15


def attention_with_dropout(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Attention, the gradient by the values, and the weights without dropout."""
    result = functional.scaled_dot_product_attention(query, key, value, dropout_p=0.25)
    (gradient,) = torch.autograd.grad(result.sum(), [value], retain_graph=True)
    weights = torch.softmax(query.detach().cpu() @ key.detach().cpu().transpose(-1, -2) / 4, -1)
    return result.float(), gradient.float(), weights.float()


def finite_and_different(result: torch.Tensor, other: torch.Tensor) -> None:
    """Two passes with dropout: numbers, and not the same ones."""
    assert result.isfinite().all()
    assert not torch.equal(result, other)


def twice(make: Callable[[], nn.Module]) -> Callable[..., Any]:
    """Two calls of a module in training."""

    def call(x: torch.Tensor) -> Any:
        net = make().to(device=x.device, dtype=x.dtype).train()
        return net(x), net(x)

    return call


def encoder_layer(**options: Any) -> nn.Module:
    """A transformer layer, without dropout unless asked."""
    return nn.TransformerEncoderLayer(16, 4, 32, **{"dropout": 0.0, "batch_first": True, **options})


def in_both_types(
    name: str, call: Callable[..., Any], *, backward: bool = True, bfloat16: float = 5e-2
) -> list[OperatorCase]:
    """Cases of a layer: bfloat16 has its own tolerance, as many roundings follow one another."""
    return [
        OperatorCase(name, call, hidden_states, ("float32",), backward, relative=1e-4, absolute=1e-5),
        OperatorCase(f"{name} in bfloat16", call, hidden_states, ("bfloat16",), backward, absolute=bfloat16),
    ]


def statistics(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The values that the forward pass saves: the greatest score and the sum of exponentials per row, eight times."""
    if query.device.type == "npu":
        saved = torch.ops.npu.npu_fusion_attention(query, key, value, 4, "BNSD", scale=0.25)
        return saved[1], saved[2]
    scores = query @ key.transpose(-1, -2) / 4
    greatest = scores.amax(-1, keepdim=True)
    total = (scores - greatest).exp().sum(-1, keepdim=True)
    return greatest.expand(-1, -1, -1, 8), total.expand(-1, -1, -1, 8)


def with_sinks(generator: Any) -> tuple[torch.Tensor, ...]:
    """Query, key and value, and a score for each head."""
    return *heads(generator), torch.randn(4, generator=generator)


def with_sink(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, sink: torch.Tensor) -> torch.Tensor:
    """A score that takes weight and gives nothing."""
    if query.device.type == "npu":
        return torch.ops.npu.npu_fusion_attention(query, key, value, 4, "BNSD", scale=0.25, sink=sink.float())[0]
    scores = query.float() @ key.float().transpose(-1, -2) / 4
    scores = torch.cat([scores, sink.float().view(1, 4, 1, 1).expand(2, 4, 8, 1)], -1)
    return (scores.softmax(-1)[..., :-1] @ value.float()).to(query.dtype)


CASES = [
    OperatorCase("sdpa", functional.scaled_dot_product_attention, heads),
    OperatorCase(
        "sdpa causal", lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True), heads
    ),
    OperatorCase(
        "sdpa with a scale", lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, scale=0.1), heads
    ),
    OperatorCase("sdpa with a mask", functional.scaled_dot_product_attention, with_bool_mask),
    OperatorCase(
        "sdpa with a bias", lambda q, k, v, b: functional.scaled_dot_product_attention(q, k, v, b.detach()), with_bias
    ),
    OperatorCase("sdpa with a learnt bias", functional.scaled_dot_product_attention, with_bias, ("float32",)),
    OperatorCase(
        "sdpa with grouped heads",
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        grouped_heads,
    ),
    OperatorCase(
        "sdpa without a batch", lambda q, k, v: functional.scaled_dot_product_attention(q[0], k[0], v[0]), heads
    ),
    OperatorCase(
        "sdpa of transposed views",
        lambda q, k, v: functional.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True
        ),
        heads,
    ),
    OperatorCase(
        "sdpa with an odd depth",
        lambda q, k, v: functional.scaled_dot_product_attention(q[..., :5], k[..., :5], v[..., :5], is_causal=True),
        heads,
    ),
    *[
        OperatorCase(f"{name} in float16", call, inputs, ("float16",), relative=2e-3, absolute=4e-3)
        for name, call, inputs in (
            ("sdpa", functional.scaled_dot_product_attention, heads),
            (
                "sdpa with grouped heads",
                lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, enable_gqa=True),
                grouped_heads,
            ),
            ("sdpa with a mask", functional.scaled_dot_product_attention, with_bool_mask),
        )
    ],
    OperatorCase("sdpa without gradients", functional.scaled_dot_product_attention, heads, backward=False),
    OperatorCase("sdpa with dropout", attention_with_dropout, constant_values, check=dropout_is_right),
    *[
        OperatorCase(f"npu_fusion_attention {layout}", fused(layout), heads)
        for layout in ("BNSD", "BSND", "BSH", "SBH")
    ],
    *[
        OperatorCase(
            f"npu_fusion_attention {layout} with grouped heads", fused(layout, sparse_mode=mode), grouped_heads
        )
        for layout, mode in (("BNSD", 3), ("BSND", 2), ("BSH", 3), ("SBH", 2))
    ],
    OperatorCase("npu_fusion_attention with a bias", fused_with_bias, with_bias),
    OperatorCase("npu_fusion_attention_v2 with a bias before scaling", fused_v2(1), with_bias),
    OperatorCase("npu_fusion_attention_v2 with a bias after scaling", fused_v2(0), with_bias),
    OperatorCase("npu_fusion_attention in a row", fused_in_a_row(causal=False), in_a_row),
    OperatorCase("npu_fusion_attention in a row, causal", fused_in_a_row(causal=True), in_a_row),
    OperatorCase("npu_fusion_attention_v2 in a row", fused_in_a_row(causal=True, version="_v2"), in_a_row),
    OperatorCase(
        "npu_fusion_attention_v2 in a row with a rotary part",
        fused_in_a_row(causal=True, version="_v2", rope=True),
        in_a_row,
    ),
    OperatorCase(
        "npu_fusion_attention in a row with a layout of statistics",
        fused_in_a_row(causal=True, softmax_layout="TND"),
        in_a_row,
    ),
    OperatorCase("npu_fusion_attention in a row with a sink", fused_in_a_row(causal=True, sink=True), in_a_row),
    *in_both_types("MultiheadAttention", module(SelfAttention)),
    *in_both_types(
        "MultiheadAttention without weights", module(lambda: SelfAttention(need_weights=False, causal=True))
    ),
    *in_both_types("MultiheadAttention with padding", module(lambda: SelfAttention(padding=True))),
    *in_both_types("MultiheadAttention evaluated", module(SelfAttention, train=False), backward=False),
    # In bfloat16 the gradient of the CPU is off by 0.11, that of the NPU by 0.02: a relu near zero.
    *in_both_types("TransformerEncoderLayer", module(encoder_layer), bfloat16=0.15),
    *in_both_types(
        "TransformerEncoderLayer with gelu first", module(lambda: encoder_layer(norm_first=True, activation="gelu"))
    ),
    *in_both_types("TransformerEncoderLayer evaluated", module(encoder_layer, train=False), backward=False),
    *in_both_types(
        "TransformerEncoder evaluated",
        module(lambda: nn.TransformerEncoder(encoder_layer(), 2), train=False),
        backward=False,
    ),
    *in_both_types("block of a GPT", module(GptBlock)),
    *in_both_types("block of a BERT", module(BertBlock)),
    OperatorCase(
        "TransformerEncoderLayer with dropout",
        twice(lambda: encoder_layer(dropout=0.3)),
        hidden_states,
        check=finite_and_different,
    ),
    OperatorCase("npu_fusion_attention's statistics", statistics, heads, ("float32",), backward=False),
    OperatorCase("npu_fusion_attention with a sink", with_sink, with_sinks),
]

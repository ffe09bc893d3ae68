"""Inference: weights that no optimizer has, and key-value caches of several kinds."""

from __future__ import annotations

import torch
from torch.nn import functional

import msmemscope

from . import DEVICE
from .training import Network, _batch
from .truth import moment, weights_of

TOKENS = 6


def without_steps() -> None:
    """A model and batches, nothing else: no optimizer, no steps, and weights as the constructor left them."""
    model = Network().to(DEVICE).eval()
    with torch.no_grad():
        for number in range(4):
            result = model(_batch())
            moment(f"batch {number}", weight=weights_of(model))
            del result


class Attention(torch.nn.Module):
    """One head; its cache is kept in the way that its argument names."""

    def __init__(self, width: int, kind: str) -> None:
        """Allocate the cache."""
        super().__init__()
        self.query, self.key, self.value = (torch.nn.Linear(width, width, bias=False) for _ in range(3))
        if kind == "buffers":
            self.register_buffer("k_cache", torch.zeros(1, 256, width), persistent=False)
            self.register_buffer("v_cache", torch.zeros(1, 256, width), persistent=False)
        else:
            self.cache_k = torch.zeros(1, 256, width, device=DEVICE)
            self.cache_v = torch.zeros(1, 256, width, device=DEVICE)
        self.kind = kind

    def caches(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values."""
        return (self.k_cache, self.v_cache) if self.kind == "buffers" else (self.cache_k, self.cache_v)

    def forward(self, data: torch.Tensor, place: int) -> torch.Tensor:
        """Take one more token in."""
        keys, values = self.caches()
        keys[:, place], values[:, place] = self.key(data), self.value(data)
        return functional.scaled_dot_product_attention(
            self.query(data)[:, None], keys[:, : place + 1], values[:, : place + 1]
        )[:, 0]


def caches_of_modules() -> None:
    """Caches that modules of the program hold, as buffers and as plain attributes."""
    layers = torch.nn.ModuleList([Attention(64, "buffers"), Attention(64, "attributes")]).to(DEVICE)
    with torch.inference_mode():
        data = torch.randn(1, 64).to(DEVICE)
        for place in range(TOKENS):
            for layer in layers:
                data = layer(data, place)
            caches = [each for layer in layers for each in layer.caches()]
            weights = list(layers.parameters())
            moment(f"token {place}", kv_cache=caches, weight=weights, program=[data])
            msmemscope.step()


def _generation(kind: str) -> None:
    import transformers

    configuration = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(configuration).to(DEVICE).eval()
    if kind == "dynamic":
        cache = transformers.DynamicCache(config=configuration)
    else:
        cache = transformers.StaticCache(config=configuration, max_cache_len=64)
    codes = torch.randint(64, (2, 8)).to(DEVICE)
    with torch.no_grad():
        for token in range(TOKENS):
            result = model(codes, past_key_values=cache, use_cache=True)
            values = [value for layer in cache.layers for value in vars(layer).values()]
            held = [value for value in values if isinstance(value, torch.Tensor)]
            codes = result.logits[:, -1:].argmax(-1)
            moment(f"token {token}", kv_cache=held, weight=weights_of(model), program=[codes, result.logits])
            msmemscope.step()


def growing_cache() -> None:
    """The cache of transformers that grows with each token."""
    _generation("dynamic")


def static_cache() -> None:
    """The one that is allocated once."""
    _generation("static")

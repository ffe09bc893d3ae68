"""Inference: weights that no optimizer has, and key-value caches of several kinds."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

import msmemscope

from . import DEVICE
from .training import Network, _batch
from .truth import Saved, moment, weights_of

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
        num_attentionheads=4,
        num_key_valueheads=2,
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


class Heads(torch.nn.Module):
    """Attention that gets the keys and values so far, and returns them with those of its tokens."""

    def __init__(self, width: int, kind: str) -> None:
        """With an operator of torch (`sdpa`), or written out."""
        super().__init__()
        self.query, self.key, self.value = (torch.nn.Linear(width, width, bias=False) for _ in range(3))
        self.kind = kind

    def forward(
        self, data: torch.Tensor, past: tuple[torch.Tensor, torch.Tensor] | None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        """Take further tokens in."""
        query, key, value = (self.heads(each(data)) for each in (self.query, self.key, self.value))
        if past is not None:
            key, value = torch.cat([past[0], key], 2), torch.cat([past[1], value], 2)
        if self.kind == "sdpa":
            mixed = functional.scaled_dot_product_attention(query, key, value)
        else:
            mixed = torch.softmax(query @ key.transpose(-1, -2) / 4, -1) @ value
        return data + mixed.transpose(1, 2).reshape(data.shape), (key, value)

    @staticmethod
    def heads(data: torch.Tensor) -> torch.Tensor:
        """Take the last dimension apart."""
        return data.view(data.shape[0], data.shape[1], 4, -1).transpose(1, 2)


def growing_pairs() -> None:
    """A dictionary of the program, with the keys and values of each layer; they are concatenated with the next ones."""
    layers = torch.nn.ModuleList([Heads(64, "sdpa"), Heads(64, "written out")]).to(DEVICE)
    cache: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    with torch.no_grad():
        for token in range(TOKENS):
            data = torch.randn(2, 1 if token else 16, 64).to(DEVICE)
            for number, layer in enumerate(layers):
                data, cache[number] = layer(data, cache.get(number))
            held = [each for pair in cache.values() for each in pair]
            moment(f"token {token}", kv_cache=held, weight=list(layers.parameters()), program=[data])
            msmemscope.step()


def listed_pairs() -> None:
    """Keys and values of each token in lists, put together for each token anew."""
    layer = Heads(64, "sdpa").to(DEVICE)
    keys: list[torch.Tensor] = []
    values: list[torch.Tensor] = []
    with torch.no_grad():
        for token in range(TOKENS):
            data = torch.randn(2, 1 if token else 4, 64).to(DEVICE)
            keys.append(layer.heads(layer.key(data)))
            values.append(layer.heads(layer.value(data)))
            query = layer.heads(layer.query(data))
            mixed = functional.scaled_dot_product_attention(query, torch.cat(keys, 2), torch.cat(values, 2))
            if token < TOKENS - 1:  # what comes with the last one is put together once: it could be anything
                moment(f"token {token}", kv_cache=[*keys, *values], weight=list(layer.parameters()))
            del data, query, mixed
            msmemscope.step()


def filled_pairs() -> None:
    """Keys and values of a program that were allocated at once; a mask that is filled too is none."""
    layers = torch.nn.ModuleList([Heads(64, "sdpa"), Heads(64, "sdpa")]).to(DEVICE)
    store = [(torch.zeros(2, 4, 32, 16, device=DEVICE), torch.zeros(2, 4, 32, 16, device=DEVICE)) for _ in layers]
    counts = torch.zeros(64, 64, device=DEVICE)
    with torch.no_grad():
        for token in range(TOKENS):
            data = torch.randn(2, 1, 64).to(DEVICE)
            counts[token] = counts.sum(0)
            for layer, (keys, values) in zip(layers, store, strict=True):
                assert isinstance(layer, Heads)
                keys[:, :, token : token + 1] = layer.heads(layer.key(data))
                values[:, :, token : token + 1] = layer.heads(layer.value(data))
                query = layer.heads(layer.query(data))
                mixed = functional.scaled_dot_product_attention(
                    query, keys[:, :, : token + 1], values[:, :, : token + 1]
                )
                data = data + mixed.transpose(1, 2).reshape(data.shape)
            held = [each for pair in store for each in pair]
            known: dict[str, Any] = {"kv_cache": held, "weight": list(layers.parameters())}
            moment(f"token {token}", **known, program=[data, counts, query, mixed])
            msmemscope.step()


def passed_on_in_training() -> None:
    """A model that returns keys and values where nobody asked for them to be kept, its own and one of transformers."""
    import transformers

    configuration = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attentionheads=4,
        num_key_valueheads=2,
    )
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(configuration).to(DEVICE)
    own = Heads(64, "sdpa").to(DEVICE)
    optimizer = torch.optim.SGD([*model.parameters(), *own.parameters()], lr=1e-3)
    for step in range(3):
        with Saved() as saved:
            result = model(torch.randint(64, (2, 16)).to(DEVICE), use_cache=True)
            data, pair = own(torch.randn(2, 16, 64).to(DEVICE), None)
            loss = result.logits.square().mean() + data.square().mean()
        passed = [each for layer in result.past_key_values.layers for each in (layer.keys, layer.values)]
        known: dict[str, Any] = {"weight": weights_of(model, own), "activation": [*passed, *pair, *saved]}
        moment(f"forward {step}", **known, program=[loss, result.logits, data])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        msmemscope.step()

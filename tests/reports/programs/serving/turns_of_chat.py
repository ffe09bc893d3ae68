# report: "https://github.com/ml-explore/mlx-lm/pull/1117"
# topic: "serving"
# kind: "growth"
# symptom: "the server runs out of memory in conversations of several turns with models of sliding-window attention"
# cause: "insert_cache drops the entries that are prefixes of the new one only if the cache can be trimmed, which a rotating cache cannot; so each turn leaves the one before as dead weight"
# devices: ["cpu", "npu"]
# memory: "1GiB"
# holder: ["_cache", "_entries", "_lru", "prompt_cache"]
# mebibytes: [60, 92]
# remedy: "release"
# options: []
# fixed: True
import os
import sys

import torch
from torch import nn

DEV = os.environ.get("DEV", "cpu")
if DEV == "npu":
    import torch_npu  # noqa: F401

torch.set_num_threads(1)
torch.manual_seed(0)
WIDTH, LAYERS, WINDOW, VOCABULARY = 256, 3, 512, 1000


class RotatingKVCache:
    def __init__(self):
        self.keys = self.values = None

    def is_trimmable(self):
        return self.keys is None or self.keys.shape[0] < WINDOW

    def copy(self):
        other = RotatingKVCache()
        other.keys, other.values = self.keys.clone(), self.values.clone()  # BLAME
        return other

    def update(self, keys, values):
        if self.keys is not None:
            keys, values = torch.cat([self.keys, keys]), torch.cat([self.values, values])  # BLAME
        self.keys, self.values = keys[-WINDOW:].contiguous(), values[-WINDOW:].contiguous()  # BLAME
        return self.keys, self.values


class LRUPromptCache:
    def __init__(self, max_size=200):
        self.max_size, self._entries = max_size, {}

    def fetch_nearest_cache(self, tokens):
        for length in range(len(tokens), 0, -1):
            caches = self._entries.get(tuple(tokens[:length]))
            if caches is not None:
                return [cache.copy() for cache in caches], tokens[length:]
        return [RotatingKVCache() for _ in range(LAYERS)], tokens

    def insert_cache(self, tokens, caches):
        if "fixed" in sys.argv or all(cache.is_trimmable() for cache in caches):
            for length in range(1, len(tokens)):
                self._entries.pop(tuple(tokens[:length]), None)
        self._entries[tuple(tokens)] = caches  # BLAME
        if len(self._entries) > self.max_size:
            self._entries.pop(next(iter(self._entries)))


class Gemma(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, VOCABULARY)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH) for _ in range(LAYERS))

    def forward(self, tokens, caches):
        x = self.embedding(tokens)
        for layer, cache in zip(self.layers, caches, strict=True):
            query, key, value = layer(x).chunk(3, dim=-1)
            keys, values = cache.update(key, value)
            x = x + torch.softmax(query @ keys.T / WIDTH**0.5, dim=-1) @ values
        return self.head(x[-1]).argmax()


@torch.inference_mode()
def respond(model, prompt_cache, history, max_tokens=8):
    caches, rest = prompt_cache.fetch_nearest_cache(history)
    rest = torch.tensor(rest, device=DEV)
    for _ in range(max_tokens):
        rest = model(rest, caches).view(1)
        history.append(rest.item())
    prompt_cache.insert_cache(history[:-1], caches)


def main():
    model, prompt_cache = Gemma().to(DEV).eval(), LRUPromptCache()
    history = torch.randint(0, VOCABULARY, (480,)).tolist()
    for turn in range(30):
        history += torch.randint(0, VOCABULARY, (40,)).tolist()
        respond(model, prompt_cache, history)
        if turn % 6 == 5:
            used = f", {torch.npu.memory_allocated() / 2**20:.1f} MiB in use" if DEV == "npu" else ""
            print(f"turn {turn}: {len(history)} tokens, {len(prompt_cache._entries)} entries{used}", flush=True)


main()

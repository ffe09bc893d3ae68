# report: "https://github.com/ollama/ollama/issues/17924"
# topic: "serving"
# kind: "healthy"
# symptom: "resident memory grows by the same amount with each request at a fixed length of context, which was filed as a leak"
# cause: "no leak: the prefix cache keeps snapshots of prompts until it has filled its budget, stays flat from there on, and evicts the least recently used"
# devices: ["cpu", "npu"]
# memory: "1GiB"
# holder: []
# mebibytes: []
# remedy: "none"
# options: []
# fixed: False
import os
from collections import OrderedDict

import torch
from torch import nn

DEV = os.environ.get("DEV", "cpu")
if DEV == "npu":
    import torch_npu  # noqa: F401

torch.set_num_threads(1)
torch.manual_seed(0)
WIDTH, LAYERS, VOCABULARY = 256, 4, 1000
MAX_PAGED_OUT_BYTES = 24 << 20


class PrefixCache:
    def __init__(self, budget=MAX_PAGED_OUT_BYTES):
        self.budget, self.snapshots = budget, OrderedDict()

    def size(self):
        return sum(keys.nbytes + values.nbytes for layers in self.snapshots.values() for keys, values in layers)

    def match(self, tokens):
        for prefix in reversed(self.snapshots):
            if tokens[: len(prefix)] == prefix and len(prefix) < len(tokens):
                self.snapshots.move_to_end(prefix)
                return prefix, self.snapshots[prefix]
        return (), [None] * LAYERS

    def store(self, tokens, layers):
        self.snapshots[tokens] = layers
        self.snapshots.move_to_end(tokens)
        self.enforce_eviction_policy()

    def enforce_eviction_policy(self):
        while self.size() > self.budget:
            self.snapshots.popitem(last=False)


class Runner(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, VOCABULARY)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH) for _ in range(LAYERS))

    def forward(self, tokens, past):
        x, present = self.embedding(tokens), []
        for layer, known in zip(self.layers, past, strict=True):
            query, keys, values = layer(x).chunk(3, dim=-1)
            if known is not None:
                keys, values = torch.cat([known[0], keys]), torch.cat([known[1], values])
            present.append((keys.contiguous(), values.contiguous()))
            x = x + torch.softmax(query @ keys.T / WIDTH**0.5, dim=-1) @ values
        return self.head(x[-1]).argmax().item(), present


@torch.inference_mode()
def main():
    runner, prefix_cache = Runner().to(DEV).eval(), PrefixCache()
    system_prompt = tuple(torch.randint(0, VOCABULARY, (96,)).tolist())
    for request in range(96):
        tokens = system_prompt + tuple(torch.randint(0, VOCABULARY, (96,)).tolist())
        prefix, past = prefix_cache.match(tokens)
        answer, present = runner(torch.tensor(tokens[len(prefix) :], device=DEV), past)
        prefix_cache.store(tokens, present)
        if request % 12 == 11:
            used = f", {torch.npu.memory_allocated() / 2**20:.1f} MiB in use" if DEV == "npu" else ""
            print(f"request {request}: token {answer}, {prefix_cache.size() / 2**20:.1f} MiB cached{used}", flush=True)


main()

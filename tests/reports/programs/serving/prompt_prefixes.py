# report: "https://github.com/IBM/text-generation-inference/pull/39"
# topic: "serving"
# kind: "out of memory"
# symptom: "a server whose largest batch was measured to fit runs out of memory after requests with many different prompt prefixes"
# cause: "the cache of tuned prompt prefixes fills up to its maximum size, which the estimate of how large a batch may be did not take into account"
# devices: ["npu"]
# memory: "640MiB"
# holder: ["cache_map", "prefix_cache"]
# mebibytes: [120, 165]
# remedy: "limit"
# options: []
# fixed: True
import sys
from collections import OrderedDict

import torch
import torch_npu  # noqa: F401
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
WIDTH, MAX_PREFIX, MAX_CACHE = 2048, 1472, 160 << 20


class PrefixCache:
    """Tuned prompts by name, the least recently used leaves first."""

    def __init__(self, max_size):
        self.max_size, self.cache_map = max_size, OrderedDict()

    def load(self, name):
        generator = torch.Generator().manual_seed(int(name.split("-")[1]))
        return torch.randn(MAX_PREFIX, WIDTH, generator=generator).to("npu")  # BLAME

    def get(self, name):
        if name not in self.cache_map:
            self.cache_map[name] = self.load(name)  # BLAME
            while sum(prefix.nbytes for prefix in self.cache_map.values()) > self.max_size:
                self.cache_map.popitem(last=False)
        self.cache_map.move_to_end(name)
        return self.cache_map[name]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)

    def forward(self, x):
        return self.down(torch.relu(self.up(x))).add_(x)[:, -1]


class Server:
    def __init__(self):
        self.model = Model().to("npu").eval()
        self.prefix_cache = PrefixCache(MAX_CACHE)
        self.max_batch_tokens = self.estimate()

    def estimate(self):
        """How many tokens fit beside what is in use now."""
        torch.npu.empty_cache()
        free = torch.npu.mem_get_info()[0] - (80 << 20)
        if "fixed" in sys.argv:
            free -= MAX_CACHE
        return int(free / (4 * (2 * WIDTH + 2 * 64)))

    @torch.inference_mode()
    def generate(self, name, tokens):
        prefix = self.prefix_cache.get(name)
        requests = max(1, min(tokens, self.max_batch_tokens) // (MAX_PREFIX + 32))
        embeddings = torch.randn(requests, 32, WIDTH, device="npu")
        batch = torch.cat([prefix.expand(requests, -1, -1), embeddings], dim=1)  # BLAME
        return requests, self.model(batch).mean().item()  # BLAME


def main():
    server = Server()
    print(f"batches of up to {server.max_batch_tokens} tokens", flush=True)
    tokens = [1500] * 22 + [server.max_batch_tokens] * 2  # the evening
    for number, waiting in enumerate(tokens):
        try:
            requests, mean = server.generate(f"prompt-{min(number, 21)}", waiting)
        except torch.OutOfMemoryError:
            free = torch.npu.mem_get_info()[0] / 2**20
            used = torch.npu.memory_allocated() / 2**20
            print(f"request {number}: {used:.0f} MiB in use, {free:.0f} MiB free", flush=True)
            raise
        if number % 4 == 3:
            used = torch.npu.memory_allocated() / 2**20
            print(f"request {number}: {requests} at once, {mean:.4f}, {used:.0f} MiB in use", flush=True)


main()

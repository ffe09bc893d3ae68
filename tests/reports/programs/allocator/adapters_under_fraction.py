# report: "https://github.com/predibase/lorax/pull/94"
# topic: "serving"
# kind: "out of memory"
# symptom: "large adapters run out of memory although the error message itself says that half of the card is free"
# cause: "the server sets a memory fraction for its process, and the adapters that are loaded later have to fit under it too"
# devices: ["npu"]
# memory: "1GiB"
# holder: []
# mebibytes: []
# remedy: "limit"
# options: []
# fixed: True
import sys

import torch
import torch_npu  # noqa: F401

torch.set_num_threads(1)
HIDDEN, RANK = 2048, 512


class Adapter:
    def __init__(self, layers):
        self.down = [torch.zeros(HIDDEN, RANK, device="npu") for _ in range(layers)]  # BLAME
        self.up = [torch.zeros(RANK, HIDDEN, device="npu") for _ in range(layers)]  # BLAME


class Server:
    def __init__(self, layers=8, memory_fraction=0.5):
        if "fixed" not in sys.argv:
            torch.npu.set_per_process_memory_fraction(memory_fraction)  # BLAME
        self.weights = [torch.randn(HIDDEN, HIDDEN, device="npu") / HIDDEN for _ in range(layers)]
        self.adapters = {}

    def adapter(self, name):
        if name not in self.adapters:
            self.adapters[name] = Adapter(len(self.weights))
        return self.adapters[name]

    @torch.inference_mode()
    def generate(self, name, tokens):
        adapter = self.adapter(name)
        x = torch.ones(tokens, HIDDEN, device="npu")
        for weight, down, up in zip(self.weights, adapter.down, adapter.up, strict=True):
            x = x @ weight + (x @ down) @ up
        return x.mean().item()


def main():
    server = Server()
    customers = ["legal", "support", "medical", "code", "travel", "news", "games"]
    for number in range(14):
        name = customers[number % len(customers)]
        try:
            server.generate(name, tokens=8)
        except torch.OutOfMemoryError:
            free = torch.npu.mem_get_info()[0] / 2**20
            print(f"adapter {name} does not fit, {free:.0f} MiB of the card are free", flush=True)
            raise
        used, reserved = torch.npu.memory_allocated() / 2**20, torch.npu.memory_reserved() / 2**20
        print(f"request {number} for {name}: {used:.0f} MiB in use, {reserved:.0f} MiB reserved", flush=True)


main()

# report: "https://github.com/sgl-project/SpecForge/pull/739"
# topic: "training"
# kind: "fragmentation"
# symptom: "online training with microbatches of varying length dies of a late out-of-memory error although much of what is reserved is not in use"
# cause: "microbatches of varying length ask for blocks of ever different sizes and strand reserved memory in pieces that fit nothing"
# devices: ["npu"]
# memory: "570MiB"
# holder: []
# mebibytes: [60, 130]
# remedy: "setting"
# options: []
# fixed: True
import os
import random
import sys
from collections import deque

if "fixed" in sys.argv:
    os.environ["PYTORCH_NPU_ALLOC_CONF"] = "expandable_segments:True"

import torch
import torch_npu  # noqa: F401
from torch import nn

torch.set_num_threads(1)
WIDTH, VOCABULARY = 256, 1024


class DraftModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.down = nn.Linear(WIDTH, 16)
        self.head = nn.Linear(16, VOCABULARY)

    def forward(self, hidden, tokens):
        return nn.functional.cross_entropy(self.head(self.down(self.norm(hidden))), tokens)  # BLAME


class TargetModel:
    """Stands for the large model: its hidden states arrive with a length of their own each time."""

    def __init__(self, seed=4):
        self.lengths = random.Random(seed)

    def sample(self):
        length = self.lengths.randint(500, 17000)
        return torch.ones(length, WIDTH, device="npu"), torch.randint(0, VOCABULARY, (length,), device="npu")  # BLAME


def report(what):
    used, reserved = torch.npu.memory_allocated() / 2**20, torch.npu.memory_reserved() / 2**20
    print(f"{what}: {used:.0f} MiB in use, {reserved:.0f} MiB reserved", flush=True)


def main():
    model, target = DraftModel().to("npu"), TargetModel()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    window = deque(maxlen=16)
    for step in range(18):
        try:
            window.append(target.sample())
            hidden, tokens = random.Random(step).choice(window)
            model(hidden, tokens).backward()  # BLAME
        except torch.OutOfMemoryError:
            report(f"step {step}: {len(hidden)} tokens do not fit")
            raise
        optimizer.step()
        optimizer.zero_grad()
        report(f"step {step}: {len(hidden)} tokens")


main()

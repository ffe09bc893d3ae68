# report: "https://github.com/NovaSky-AI/SkyRL/pull/1470"
# topic: "reinforcement learning"
# kind: "fragmentation"
# symptom: "training of a policy passes its first steps and then runs out of memory, with gigabytes reserved by PyTorch but not allocated"
# cause: "segments have a fixed size, and what experts are sent differs from step to step, so that freed blocks leave gaps which fit no large allocation; expandable_segments repairs it"
# devices: ["npu"]
# memory: "400MiB"
# holder: []
# mebibytes: [22, 30]
# remedy: "setting"
# options: []
# fixed: True
import os
import sys

if "fixed" in sys.argv:
    os.environ["PYTORCH_NPU_ALLOC_CONF"] = "expandable_segments:True"

import torch
import torch_npu  # noqa: F401
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
WIDTH, EXPERTS, TOKENS = 512, 4, 16000


class MixtureOfExperts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS)
        self.down = nn.ModuleList(nn.Linear(WIDTH, 8) for _ in range(EXPERTS))
        self.up = nn.ModuleList(nn.Linear(8, WIDTH) for _ in range(EXPERTS))

    def forward(self, x, preference):
        chosen = (self.router(x) + preference).argmax(-1)
        y = torch.zeros_like(x)  # BLAME
        for number in range(EXPERTS):
            index = (chosen == number).nonzero().squeeze(1)
            sent = x[index]  # BLAME
            y = y.index_add(0, index, self.up[number](self.down[number](sent).relu()))  # BLAME
        return y


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.experts = nn.Embedding(1000, WIDTH), MixtureOfExperts()
        self.head = nn.Linear(WIDTH, 8)

    def forward(self, tokens, preference):
        return self.head(self.experts(self.embedding(tokens), preference)).log_softmax(-1)  # BLAME


def rollout(step):
    """Prompts about another subject in each step, which other experts know about."""
    generator = torch.Generator().manual_seed(step)
    length = int(torch.randint(TOKENS // 2, TOKENS, (1,), generator=generator))
    preference = 3 * torch.randn(EXPERTS, generator=generator)
    return torch.randint(0, 1000, (length,), generator=generator).to("npu"), preference.to("npu")


def main():
    policy = Policy().to("npu")
    optimizer = torch.optim.SGD(policy.parameters(), lr=1e-3)
    for step in range(4):
        tokens, preference = rollout(step)
        advantages = torch.randn(len(tokens), device="npu")
        try:
            log_probs = policy(tokens, preference)[:, 0]
            loss = -(log_probs * advantages).mean()
            loss.backward()
        except torch.OutOfMemoryError:
            used, reserved = torch.npu.memory_allocated() / 2**20, torch.npu.memory_reserved() / 2**20
            print(f"step {step}: {len(tokens)} tokens, {used:.0f} MiB in use, {reserved:.0f} reserved", flush=True)
            raise
        optimizer.step()
        optimizer.zero_grad()
        peak, reserved = torch.npu.max_memory_allocated() / 2**20, torch.npu.memory_reserved() / 2**20
        print(f"step {step}: {len(tokens)} tokens, {peak:.0f} MiB at most, {reserved:.0f} MiB reserved", flush=True)


main()

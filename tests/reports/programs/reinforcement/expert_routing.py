# report: "https://github.com/NovaSky-AI/SkyRL/pull/1470"
# topic: "reinforcement learning"
# kind: "fragmentation"
# symptom: "training of a policy passes its first steps and then runs out of memory, with gigabytes reserved by PyTorch but not allocated"
# cause: "segments have a fixed size, and what experts are sent differs from step to step, so that freed blocks leave gaps which fit no large allocation; expandable_segments repairs it"
# devices: ["npu"]
# memory: "430MiB"
# holder: []
# mebibytes: [60, 220]
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
WIDTH, EXPERTS, TOKENS, ACTIONS = 512, 3, 12000, 320


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
        self.embedding, self.experts = nn.Embedding(ACTIONS, WIDTH), MixtureOfExperts()
        self.head = nn.Sequential(nn.Linear(WIDTH, 8), nn.Linear(8, ACTIONS))

    def forward(self, tokens, preference):
        return self.head(self.experts(self.embedding(tokens), preference)).log_softmax(-1)  # BLAME


def rollouts(step, groups=4):
    """Prompts about other subjects in each step, which other experts know about."""
    generator = torch.Generator().manual_seed(step)
    for _ in range(groups):
        length = int(torch.randint(TOKENS // 3, TOKENS, (1,), generator=generator))
        preference = 3 * torch.randn(EXPERTS, generator=generator)
        yield torch.randint(0, ACTIONS, (length,), generator=generator).to("npu"), preference.to("npu")


def report(what):
    used, reserved = torch.npu.memory_allocated() / 2**20, torch.npu.memory_reserved() / 2**20
    peak = torch.npu.max_memory_allocated() / 2**20
    print(f"{what}: {used:.0f} MiB in use, {peak:.0f} at most, {reserved:.0f} MiB reserved", flush=True)


def train_step(policy, optimizer, groups):
    with torch.no_grad():
        references = [policy(*group) for group in groups]  # BLAME
    for group in groups:
        reference = references.pop(0)
        log_probs = policy(*group)  # BLAME
        divergence = nn.functional.kl_div(log_probs, reference, reduction="batchmean", log_target=True)
        reward = log_probs.gather(1, group[0][:, None]).mean()
        (divergence - reward).backward()
    optimizer.step()
    optimizer.zero_grad()


def main():
    policy = Policy().to("npu")
    optimizer = torch.optim.SGD(policy.parameters(), lr=1e-3)
    for step in range(2):
        groups = list(rollouts(step))
        try:
            train_step(policy, optimizer, groups)
        except torch.OutOfMemoryError:
            report(f"step {step}")
            raise
        report(f"step {step}, {sum(len(tokens) for tokens, _ in groups)} tokens")


main()

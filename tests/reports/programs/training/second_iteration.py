# report: "https://github.com/git-disl/recap/issues/2"
# topic: "training"
# kind: "healthy"
# symptom: "memory rises from 2400 to 2800 MB after the first iteration and stays there, and somebody asks how to repair it"
# cause: "no leak: the optimizer allocates its states in its first step, and they stay from the second iteration on"
# devices: ["npu", "cpu"]
# memory: "1GiB"
# holder: []
# mebibytes: []
# remedy: "none"
# options: []
# fixed: False
import copy
import os

import torch
from torch import nn

DEV = os.environ.get("DEV", "npu")
if DEV == "npu":
    import torch_npu  # noqa: F401

torch.manual_seed(0)
torch.set_num_threads(1)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        return x + self.mlp(self.norm(x))


class ViT(nn.Module):
    def __init__(self, width=192, depth=6):
        super().__init__()
        self.patches = nn.Linear(48, width)
        self.blocks = nn.Sequential(*[Block(width) for _ in range(depth)])
        self.head = nn.Linear(width, 100)

    def forward(self, pictures):
        return self.head(self.blocks(self.patches(pictures)).mean(dim=1))


def train(model, steps, name):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(steps):
        pictures, labels = torch.randn(6, 64, 48, device=DEV), torch.randint(0, 100, (6,), device=DEV)
        loss = nn.functional.cross_entropy(model(pictures), labels)
        optimizer.zero_grad()
        loss.backward()
        used = f", {torch.npu.memory_allocated() / 2**20:.0f} MiB in use" if DEV == "npu" else ""
        optimizer.step()
        if step < 3 or step == steps - 1:
            print(f"{name}, iteration {step}: loss {loss.item():.3f}{used}", flush=True)


def prune(model, share):
    with torch.no_grad():
        for block in model.blocks:
            weight = block.mlp[0].weight
            weight.mul_(weight.abs() > weight.abs().flatten().kthvalue(int(share * weight.numel())).values)


def main():
    model = ViT().to(DEV)
    initial = copy.deepcopy(model.state_dict())
    train(model, 8, "dense")
    prune(model, 0.33)
    train(model, 8, "pruned")
    moved = sum((model.state_dict()[name] - value).norm().item() for name, value in initial.items())
    print(f"weights moved by {moved:.2f}")


main()

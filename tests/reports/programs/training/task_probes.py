# report: "https://github.com/pytorch/pytorch/issues/7343"
# topic: "training"
# kind: "leak"
# symptom: "memory stays allocated after the tensors of a task are deleted and the garbage collector ran, and adds up over the tasks"
# cause: "backward(create_graph=True) makes a cycle in C++, from a parameter over its grad and the grad's function back to it, which nothing collects; torch.autograd.grad makes none"
# devices: ["cpu", "npu"]
# memory: "1GiB"
# holder: ["grad"]
# mebibytes: [50, 80]
# remedy: "release"
# options: []
# fixed: True
import gc
import os
import sys
import warnings

import torch
from torch import nn

DEV = os.environ.get("DEV", "cpu")
if DEV == "npu":
    import torch_npu  # noqa: F401

warnings.filterwarnings("ignore", category=UserWarning)
torch.manual_seed(0)
torch.set_num_threads(1)
WIDTH = 640


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))

    def forward(self, x):
        return self.net(x)


def sharpness(features, labels):
    """How steep the loss of a fresh probe on these features is: what the meta-learner keeps small."""
    probe = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 5)).to(DEV)  # BLAME
    loss = nn.functional.cross_entropy(probe(features), labels)  # BLAME
    if "fixed" in sys.argv:
        gradients = torch.autograd.grad(loss, list(probe.parameters()), create_graph=True)
    else:
        loss.backward(create_graph=True)  # BLAME
        gradients = [p.grad for p in probe.parameters()]
    return loss + 0.1 * sum(g.square().sum() for g in gradients)


def main():
    backbone = Backbone().to(DEV)
    optimizer = torch.optim.Adam(backbone.parameters(), lr=1e-3)
    for task in range(20):
        x, labels = torch.randn(256, 64, device=DEV), torch.randint(0, 5, (256,), device=DEV)
        optimizer.zero_grad()
        outer = sharpness(backbone(x), labels)
        outer.backward()
        optimizer.step()
        if task % 4 == 3:
            value = outer.item()
            del outer, x, labels
            gc.collect()
            used = f", {torch.npu.memory_allocated() / 2**20:.0f} MiB in use" if DEV == "npu" else ""
            rss = int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
            print(f"task {task}: outer loss {value:.3f}{used}, process {rss:.0f} MiB", flush=True)


main()

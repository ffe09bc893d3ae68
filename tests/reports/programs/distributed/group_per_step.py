# report: "https://github.com/pytorch/pytorch/issues/40400"
# topic: "distributed"
# kind: "host memory"
# symptom: "the memory of the process slowly increases although each process group is deleted right after use and the garbage collector runs"
# cause: "groups created with dist.new_group are not cleaned up when the last reference in Python goes; one group for the whole run does not grow"
# devices: ["cpu"]
# holder: ["new_group"]
# mebibytes: [80, 140]
# remedy: "release"
# options: []
# fixed: True
import gc
import os
import sys

import torch
import torch.distributed as dist
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)


class Router(nn.Module):
    """Sends tokens to experts; those that chose the same experts share a group of processes."""

    def __init__(self, width=128, experts=8):
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(experts))
        self.groups = {}

    def group(self, ranks, step, expert):
        if "fixed" in sys.argv:
            step = expert = 0
        if (step, expert) not in self.groups:
            self.groups[step, expert] = dist.new_group(ranks)  # BLAME
        return self.groups[step, expert]

    def forward(self, x, step):
        share = self.gate(x).softmax(dim=-1)
        output = torch.zeros_like(x)
        for expert, layer in enumerate(self.experts):
            load = share[:, expert].sum().detach()
            dist.all_reduce(load, group=self.group([0], step, expert))  # BLAME
            output = output + share[:, expert : expert + 1] * layer(x) / (1 + load)
        if "fixed" not in sys.argv:
            self.groups.clear()
        return output


def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main():
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29643"}
    dist.init_process_group("gloo", rank=0, world_size=1)
    model = Router()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    start = resident()
    for step in range(120):
        x = torch.randn(64, 128)
        loss = nn.functional.mse_loss(model(x, step), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 24 == 23:
            gc.collect()
            print(f"step {step}: loss {loss.item():.4f}, grown by {resident() - start:.0f} MiB", flush=True)
    dist.destroy_process_group()


main()

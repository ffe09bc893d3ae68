# report: "https://github.com/pytorch/pytorch/issues/63211"
# topic: "distributed"
# kind: "leak"
# symptom: "memory rises steadily when models are trained one after the other in one process, where it should stay flat"
# cause: "the communication hook refers to the DistributedDataParallel module in its closure, and the module's reducer in C++ holds the hook, so the parameters of past models are never freed; a weak reference to the module ends it"
# devices: ["cpu"]
# holder: ["ddp", "hook_with_zero_fn", "hook"]
# mebibytes: [80, 125]
# remedy: "release"
# options: []
# fixed: True
import gc
import os
import sys
import weakref

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.manual_seed(0)
torch.set_num_threads(1)


def hook_with_sgd_step(ddp, lr):
    """Updates the parameters of a bucket as soon as it is reduced, which overlaps with the backward pass."""
    if "fixed" in sys.argv:
        module = weakref.ref(ddp)
    else:

        def module():
            return ddp

    def hook(state, bucket):
        future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()

        def step(done):
            reduced = done.value()[0].div_(dist.get_world_size())
            with torch.no_grad():
                for parameter, gradient in zip(bucket.parameters(), bucket.gradients(), strict=True):
                    parameter.sub_(gradient, alpha=lr * module().scale)
            return reduced

        return future.then(step)

    return hook


def train(width, depth, steps=6):
    layers = [layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(width, 1))  # BLAME
    ddp = DistributedDataParallel(model, bucket_cap_mb=1)  # BLAME
    ddp.scale = 1.0
    ddp.register_comm_hook(None, hook_with_sgd_step(ddp, lr=1e-2))  # BLAME
    for _ in range(steps):
        x = torch.randn(64, width)
        loss = (ddp(x) - x.sum(dim=1, keepdim=True).tanh()).square().mean()
        ddp.zero_grad()
        loss.backward()  # BLAME
    return loss.item()


def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main():
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29641"}
    dist.init_process_group("gloo", rank=0, world_size=1)
    for trial in range(12):
        loss = train(width=512, depth=3)
        gc.collect()
        print(f"model {trial}: loss {loss:.4f}, process {resident():.0f} MiB", flush=True)
    dist.destroy_process_group()


main()

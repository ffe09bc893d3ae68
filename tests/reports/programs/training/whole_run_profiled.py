# report: "https://github.com/Lightning-AI/pytorch-lightning/issues/10717"
# topic: "training"
# kind: "host memory"
# symptom: "with the PyTorch profiler switched on, an ever growing amount of RAM is allocated, until the process is killed after some epochs"
# cause: "the profiler keeps the events of all steps in memory while it records; a schedule that records a few steps bounds them"
# devices: ["cpu"]
# holder: ["profiler"]
# mebibytes: []
# remedy: "limit"
# options: []
# fixed: True
import os
import sys

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule

torch.manual_seed(0)
torch.set_num_threads(1)


class Classifier(nn.Module):
    def __init__(self, depth=16):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(28, 28) for _ in range(depth))
        self.head = nn.Linear(28, 10)

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return self.head(x)


class PyTorchProfiler:
    def __init__(self):
        steps = schedule(wait=1, warmup=1, active=3, repeat=1) if "fixed" in sys.argv else None
        self.profiler = profile(activities=[ProfilerActivity.CPU], schedule=steps, record_shapes=True)

    def __enter__(self):
        self.profiler.__enter__()  # BLAME
        return self

    def __exit__(self, *error):
        self.profiler.__exit__(*error)

    def step(self):
        self.profiler.step()


def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main():
    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=False)
    with PyTorchProfiler() as profiler:
        start = resident()
        for step in range(100):
            images, labels = torch.randn(32, 28), torch.randint(0, 10, (32,))
            loss = nn.functional.cross_entropy(model(images), labels)  # BLAME
            optimizer.zero_grad()
            loss.backward()  # BLAME
            optimizer.step()  # BLAME
            profiler.step()
            if step % 20 == 19:
                print(f"step {step}: loss {loss.item():.3f}, grown by {resident() - start:.0f} MiB", flush=True)
    print(f"after the profiler ended: grown by {resident() - start:.0f} MiB")


main()

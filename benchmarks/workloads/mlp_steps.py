"""Trains a small MLP on an NPU and prints the time of a step."""

from __future__ import annotations

import json
import time

import torch
from torch import nn

STEPS = 200
WARM_UP = 20
BATCH = 128


def main() -> None:
    """Measure, and print one line of JSON."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)).npu()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch, targets = torch.randn(BATCH, 64).npu(), torch.zeros(BATCH, dtype=torch.int64).npu()

    def steps(count: int) -> float:
        begin = time.perf_counter()
        for _ in range(count):
            loss = nn.functional.cross_entropy(model(batch), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        torch.npu.synchronize()
        return (time.perf_counter() - begin) / count * 1e3

    steps(WARM_UP)
    print(json.dumps({"value": steps(STEPS)}))


if __name__ == "__main__":
    main()

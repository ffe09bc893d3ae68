"""Trains a little under torch.profiler and prints the CPU memory that the profiler counts at ten points.

Each point is marked by a tensor of a size that nothing else has, so that it can be found in a recording. The output
is a JSON object: size of the mark to the bytes that were allocated since the profiler started, less those freed.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

FIRST_MARK_BYTES = 7_000_001
POINTS = 10


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, number: int) -> None:
    """One step on a batch whose size differs from step to step."""
    x = torch.randn(8 + number, 64)
    loss = (model(x) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def main() -> None:
    """Train, then read the marks out of the profiler's trace."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64))
    optimizer = torch.optim.AdamW(model.parameters())
    kept = []
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        for number in range(POINTS):
            train_step(model, optimizer, number)
            kept.append(torch.randn(100 * (number + 1)))
            torch.empty(FIRST_MARK_BYTES + number, dtype=torch.uint8)

    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    memory = [event for event in events if event.get("name") == "[memory]"]
    memory.sort(key=lambda event: (event["ts"], event["args"].get("Ev Idx", 0)))
    marks = range(FIRST_MARK_BYTES, FIRST_MARK_BYTES + POINTS)
    counted = 0
    found: dict[int, int] = {}
    for event in memory:
        change = int(event["args"]["Bytes"])
        if change in marks:
            found[change] = counted
        counted += change
    print(json.dumps(found))


if __name__ == "__main__":
    main()

"""Allocates in odd orders, and writes torch's own history as JSON: `allocator_history.py FILE SEED [PROGRAM]`."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import torch

random.seed(int(sys.argv[2]))
SIZES = (100, 5000, 70_000, 1_960_000, 30_000_000)


def one_stream(live: list[torch.Tensor]) -> None:
    """Tensors of five sizes, freed in random order."""
    if live and random.random() < 0.48:
        live.pop(random.randrange(len(live)))
    else:
        live.append(torch.empty(random.choice(SIZES) // 4, device="cuda"))


SIDE = torch.cuda.Stream()


def two_streams(live: list[torch.Tensor]) -> None:
    """Some of them belong to a second stream, and are used by the first."""
    with torch.cuda.stream(SIDE if random.random() < 0.4 else torch.cuda.current_stream()):
        one_stream(live)
    if live and random.random() < 0.5:
        live[-1].record_stream(torch.cuda.default_stream())


def emptied(live: list[torch.Tensor]) -> None:
    """The cache is given back now and then."""
    two_streams(live)
    if random.random() < 0.02:
        torch.cuda.empty_cache()


def captured(live: list[torch.Tensor]) -> None:
    """A graph with a private pool is captured now and then."""
    one_stream(live)
    if random.random() < 0.01:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            live.append(torch.empty(100_000, device="cuda"))


def main() -> None:
    """Allocate, and write what torch knows of it."""
    torch.cuda.memory._record_memory_history(max_entries=1_000_000, stacks="python")
    live: list[torch.Tensor] = []
    step = globals()[sys.argv[3]]
    for _ in range(3000):
        step(live)
        if len(live) > 60:
            live.pop(0)
    (trace,) = torch.cuda.memory._snapshot()["device_traces"]
    statistics = torch.cuda.memory_stats()
    truth = {
        "blocks": [
            (entry["action"] == "alloc", entry["addr"], entry["size"])
            for entry in trace
            if entry["action"] in {"alloc", "free_requested"}
        ],
        "peak": statistics["allocated_bytes.all.peak"],
        "reserved_peak": statistics["reserved_bytes.all.peak"],
    }
    Path(sys.argv[1]).write_text(json.dumps(truth), encoding="utf-8")


main()

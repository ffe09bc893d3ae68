"""Has torch write a memory snapshot: `snapshots.py FILE graph|limit`."""

from __future__ import annotations

import sys

import torch


def graph() -> list[torch.Tensor]:
    """A graph is captured, whose memory is a pool of its own."""
    live = [torch.empty(200_000 * (1 + number % 3), device="cuda") for number in range(20)]
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        live.extend(torch.empty(100_000 * (1 + number % 3), device="cuda") for number in range(10))
    del live[:5]
    return live


def step(batch: int) -> torch.Tensor:
    """Work with two tensors that are as large as a batch."""
    first = torch.empty(batch * 1_000_000, device="cuda")
    return torch.empty(first.numel() // 2, device="cuda")


def limit() -> None:
    """A batch exceeds what the process may have, and not what the device has."""
    torch.cuda.set_per_process_memory_fraction(0.25)
    for _ in range(10):
        step(4)
    try:
        step(400)
    except torch.OutOfMemoryError:
        print("refused=1")


def main() -> None:
    """Record a history, and write it."""
    torch.cuda.memory._record_memory_history(max_entries=100_000, stacks="all")
    kept = {"graph": graph, "limit": limit}[sys.argv[2]]()
    torch.cuda.memory._dump_snapshot(sys.argv[1])
    del kept


main()

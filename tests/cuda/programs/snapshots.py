"""Has torch write a memory snapshot: `snapshots.py FILE graph|limit|annotated|described`."""

from __future__ import annotations

import inspect
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


def annotated() -> list[torch.Tensor]:
    """Each step keeps a tensor, and stands in an annotation."""
    kept = []
    for number in range(40, 60):
        with torch.profiler.record_function(f"## step {number} ##"):
            torch.empty(500_000, device="cuda")
            kept.append(torch.empty(500_000, device="cuda"))
    return kept


def described() -> list[torch.Tensor]:
    """Each step keeps a tensor, and metadata of the allocator say which step it is."""
    kept = []
    for number in range(40, 60):
        torch.cuda.memory._set_memory_metadata(f"epoch 2, iteration {number}")
        torch.empty(500_000, device="cuda")
        kept.append(torch.empty(500_000, device="cuda"))
    return kept


def main() -> None:
    """Record a history, and write it."""
    accepted = inspect.signature(torch.cuda.memory._record_memory_history).parameters
    has_annotations = {"global_record_annotations": True} if "global_record_annotations" in accepted else {}
    if sys.argv[2] in {"annotated", "described"} and not has_annotations:
        print("lacks=annotations")
        return
    torch.cuda.memory._record_memory_history(max_entries=100_000, stacks="all", **has_annotations)
    kept = {"graph": graph, "limit": limit, "annotated": annotated, "described": described}[sys.argv[2]]()
    torch.cuda.memory._dump_snapshot(sys.argv[1])
    del kept


main()

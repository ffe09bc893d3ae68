"""Allocates and frees a small tensor again and again, at some depth of Python calls, and prints the time of a pair.

The same file runs alone, under the tool and under its peers, so it knows none of them. The exception is the built-in
recorder of an allocator, which only the program itself can turn on.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch

WARM_UP = 2_000


def peak_memory_bytes() -> int:
    """The most memory that the process ever had resident."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def loop(pairs: int, device: str) -> None:
    """Allocate and free."""
    empty = torch.empty
    for _ in range(pairs):
        empty(256, device=device)


def at_depth(depth: int, pairs: int, device: str) -> int:
    """Run the loop below so many Python frames; return the nanoseconds that it took."""
    if depth > 1:
        return at_depth(depth - 1, pairs, device)
    begin = time.perf_counter_ns()
    loop(pairs, device)
    return time.perf_counter_ns() - begin


def main() -> None:
    """Measure, and print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--depth", type=int, default=10, help="frames above the loop; main and the module come on top")
    parser.add_argument("--device", choices=("cpu", "npu", "cuda"), default="cpu")
    parser.add_argument(
        "--recorder", choices=("off", "events", "stacks"), default="off", help="that of the device's allocator"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.recorder != "off":
        stacks = "python" if arguments.recorder == "stacks" else None
        memory = getattr(torch, arguments.device).memory
        memory._record_memory_history(  # noqa: SLF001  # there is no public name
            context="all" if stacks else None, stacks=stacks or "python"
        )
    at_depth(arguments.depth, WARM_UP, arguments.device)
    elapsed_ns = at_depth(arguments.depth, arguments.pairs, arguments.device)
    print(json.dumps({"value": elapsed_ns / arguments.pairs, "peak_memory_bytes": peak_memory_bytes()}))


if __name__ == "__main__":
    main()

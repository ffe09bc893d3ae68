"""Memory of the C library that is allocated and freed beside tensors: nanoseconds of a pair, the best of several rounds."""

from __future__ import annotations

import ctypes
import json
import subprocess
import time
from pathlib import Path

import torch

SOURCE = Path(__file__).with_suffix(".cpp")
PAIRS = 500_000
ROUNDS = 40


def main() -> None:
    """Measure, and print one line of JSON."""
    library_path = Path("libheap_loop.so").absolute()
    subprocess.run(["c++", "-O2", "-fPIC", "-shared", "-o", library_path, SOURCE], check=True)
    allocate_and_free = ctypes.CDLL(str(library_path)).allocate_and_free
    allocate_and_free.argtypes = [ctypes.c_size_t]
    torch.ones(1)  # from here on there is a log
    allocate_and_free(PAIRS)
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.perf_counter_ns()
        allocate_and_free(PAIRS)
        best = min(best, (time.perf_counter_ns() - begin) / PAIRS)
    print(json.dumps({"value": best}))


if __name__ == "__main__":
    main()

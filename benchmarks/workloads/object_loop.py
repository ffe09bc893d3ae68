"""Python objects that are made and dropped: nanoseconds of one, the best of several rounds."""

from __future__ import annotations

import json
import time

import torch

OBJECTS = 20_000
ROUNDS = 400


def make() -> None:
    """Half of them are small, and lie in the arenas of the interpreter; half come from the C library."""
    kept = [float(number) for number in range(OBJECTS // 2)]
    texts = [b"%600d" % number for number in range(OBJECTS // 2)]
    del kept, texts


def main() -> None:
    """Measure, and print one line of JSON."""
    torch.ones(1)  # from here on there is a log
    make()
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.perf_counter_ns()
        make()
        best = min(best, (time.perf_counter_ns() - begin) / OBJECTS)
    print(json.dumps({"value": best}))


if __name__ == "__main__":
    main()

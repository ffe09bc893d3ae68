"""Calls one operator again and again on a device, waits for the device, and prints the time of a call."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import torch

CALLS = 5_000
WARM_UP = 500


def operation(name: str, device: str) -> Any:
    """The call to be measured."""
    if name == "empty":
        return lambda: torch.empty(1000, device=device)
    side = 64
    left, right = torch.ones(side, side, device=device), torch.ones(side, side, device=device)
    return (lambda: left + right) if name == "add" else (lambda: left @ right)


def main() -> None:
    """Measure, and print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cpu", "npu"), required=True)
    parser.add_argument("--operation", choices=("empty", "add", "matmul"), required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    call = operation(arguments.operation, arguments.device)

    def loop(calls: int) -> float:
        begin = time.perf_counter_ns()
        for _ in range(calls):
            call()
        if arguments.device == "npu":
            torch.npu.synchronize()
        return (time.perf_counter_ns() - begin) / calls / 1000

    loop(WARM_UP)
    print(json.dumps({"value": loop(CALLS)}))


if __name__ == "__main__":
    main()

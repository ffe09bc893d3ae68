"""Calls torch.add again and again while so many tensors are alive, and prints the time of a call."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

WARM_UP = 1_000


class EmptyMode(TorchDispatchMode):
    """The least cost of any collector built on TorchDispatchMode."""

    def __torch_dispatch__(
        self, function: Any, _types: Any, arguments: Any = (), keywords: dict[str, Any] | None = None
    ) -> Any:
        """Call the operator."""
        return function(*arguments, **(keywords or {}))


def loop(left: torch.Tensor, right: torch.Tensor, calls: int) -> int:
    """Call the operator; return the nanoseconds that it took, of a device those that this thread has worked.

    A device works beside this thread, which waits for it where it has too much to do.
    """
    add = torch.add
    clock = time.perf_counter_ns if left.device.type == "cpu" else time.thread_time_ns
    begin = clock()
    for _ in range(calls):
        add(left, right)
    return clock() - begin


def main() -> None:
    """Measure, and print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--device", default="cpu", help="where the arguments lie: cpu, npu or cuda")
    parser.add_argument("--alive", type=int, default=0, help="tensors that are alive meanwhile")
    parser.add_argument("--views", action="store_true", help="let the arguments be views into a larger tensor")
    parser.add_argument("--empty-mode", action="store_true", help="measure under a mode that does nothing")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    alive = [torch.empty(16, device=arguments.device) for _ in range(arguments.alive)]
    left, right = torch.ones(8, device=arguments.device), torch.ones(8, device=arguments.device)
    if arguments.views:
        base = torch.ones(64, 8, device=arguments.device)
        left, right = base[3], base[40].view(8)
    if arguments.empty_mode:
        with EmptyMode():
            loop(left, right, WARM_UP)
            elapsed_ns = loop(left, right, arguments.calls)
    else:
        loop(left, right, WARM_UP)
        elapsed_ns = loop(left, right, arguments.calls)
    del alive
    print(json.dumps({"value": elapsed_ns / arguments.calls / 1000}))


if __name__ == "__main__":
    main()

"""Captures a graph, replays it and frees it; prints how many blocks torch says are in use at the end.

With an argument a side stream still reads a block when the host frees it.
"""

from __future__ import annotations

import sys
import time

import torch
import torch_npu  # noqa: F401 - makes the device npu

weights = torch.ones(1 << 20, device="npu")
if sys.argv[1:]:
    side = torch.npu.Stream()
    torch.npu.synchronize()
    with torch.npu.stream(side):
        torch.npu._launch_host_func(side, time.sleep, 0.3)
        doubled = weights * 2
    weights.record_stream(side)
    del weights
    other = torch.zeros(1 << 20, device="npu")
    torch.npu.synchronize()
    last = torch.zeros(1 << 20, device="npu")  # the allocator looks at its events
else:
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        result = weights * 3 + 1
    for _ in range(50):
        graph.replay()
    torch.npu.synchronize()
    assert result.mean().item() == 4
print(torch.npu.memory_allocated(), torch.npu.memory_reserved())

"""Trains under a preloaded tool and compares, at every step, what the tool has seen with what torch says."""

from __future__ import annotations

import ctypes
import os

import mstx
import torch
from torch import nn

tool = ctypes.CDLL(os.environ["LD_PRELOAD"])
for name in ("caching_allocated", "caching_reserved", "workspace_allocated", "workspace_reserved", "driver_bytes"):
    getattr(tool, f"tool_{name}").restype = ctypes.c_uint64
    getattr(tool, f"tool_{name}").argtypes = (ctypes.c_int,)
tool.tool_workspace_registered.restype = ctypes.c_uint64
tool.tool_marks.restype = ctypes.c_char_p


def compare(when: str) -> None:
    """All sums agree."""
    torch.npu.synchronize()
    figures = {
        "allocated": (tool.tool_caching_allocated(0), torch.npu.memory_allocated()),
        "reserved": (tool.tool_caching_reserved(0), torch.npu.memory_reserved()),
        "driver": (tool.tool_driver_bytes(0), tool.tool_caching_reserved(0) + tool.tool_workspace_reserved(0)),
        "workspace in use": (tool.tool_workspace_allocated(0), 0),
    }
    for name, (seen, printed) in figures.items():
        assert seen == printed, f"{when}: {name}: the tool has seen {seen}, torch says {printed}"


assert mstx.get_tool_id() == 0x1003
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64)).npu()
optimizer = torch.optim.AdamW(model.parameters())
compare("after the model")
kept = []
for step in range(8):
    number = mstx.range_start(f"step {step}")
    batch = torch.randn(1 << step, 64).npu()
    loss = (model(batch) - batch).square().mean()
    compare(f"step {step}, after forward")
    optimizer.zero_grad()
    loss.backward()
    compare(f"step {step}, after backward")
    optimizer.step()
    kept.append(torch.empty(1 << (step + 14), device="npu"))
    compare(f"step {step}")
    mstx.range_end(number)
mstx.mark("done")
assert tool.tool_marks().decode().splitlines() == [*(f"step {step}" for step in range(8)), "done"]
print("workspaces", tool.tool_workspace_registered(), "driver", tool.tool_driver_bytes(0))

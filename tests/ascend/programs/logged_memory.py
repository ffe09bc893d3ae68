"""Prints the figures that trainers log, and those of torch, once a device is in use."""

from __future__ import annotations

import json

import torch
import torch_npu  # noqa: F401 - registers the devices

from msmemscope.integrations.logged_memory import LoggedMemory

memory = LoggedMemory()
unused = memory.figures()
kept = torch.ones(3 << 20, device="npu:0")
large = torch.ones(9 << 20, device="npu:0")
del large
statistics = torch.npu.memory_stats(0)
names = {
    "allocated": "allocated_bytes.all.current",
    "max_allocated": "allocated_bytes.all.peak",
    "reserved": "reserved_bytes.all.current",
}
of_torch = {f"memory/npu_0_{key}_mib": statistics[name] / 2**20 for key, name in names.items()}
print(json.dumps({"unused": unused, "used": memory.figures(), "torch": of_torch}))

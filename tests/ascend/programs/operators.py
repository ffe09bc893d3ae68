"""Operators on tensors of an NPU, of two NPUs, of the CPU, and views; prints addresses to compare with."""

from __future__ import annotations

import torch
import torch_npu  # noqa: F401 - makes the device npu


def main() -> None:
    """Run a few operators whose events are known."""
    first = torch.ones(4, 8, device="npu")
    view = first[2:]
    print(f"block={first.data_ptr():#x} view={view.data_ptr():#x}")
    view.add_(1)
    on_cpu = torch.full((3,), 2.0)
    moved = on_cpu.to("npu")
    weight = torch.ones(8, 4, device="npu", requires_grad=True)
    (first @ weight).sum().backward()
    torch.npu.set_device(1)
    torch.zeros(5, device="npu")  # the current one
    torch.npu.synchronize()
    back = moved.cpu()
    del back


main()

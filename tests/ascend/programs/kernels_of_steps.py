"""Five steps of 60 kernels, which the task queue launches. Argument: how steps are marked."""

import sys

import torch
import torch_npu  # noqa: F401

WAY = sys.argv[1]
if WAY == "mstx":
    import mstx
else:
    import msmemscope

weight = torch.ones(512, 512, device="npu:0")
torch.npu.synchronize()
for _ in range(5):
    if WAY == "mstx":
        step = mstx.range_start("step start", None)
    for _ in range(20):
        one = torch.relu(weight)
        two = one + weight
        three = two.sum()
    if WAY == "mstx":
        mstx.range_end(step)
    else:
        msmemscope.step()

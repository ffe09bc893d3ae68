"""Makes marks and ranges of NVTX, as PyTorch has them."""

from __future__ import annotations

import torch

for _ in range(2):
    step = torch.cuda.nvtx.range_start("step start")
    torch.cuda.nvtx.mark("loaded")
    with torch.cuda.nvtx.range("outer"):
        torch.cuda.nvtx.range_push("inner")
        torch.ones(1000, device="cuda")
        torch.cuda.nvtx.range_pop()
    torch.cuda.nvtx.range_end(step)

"""Trains, and does one thing in step 20, which a condition of --trigger looks for.

Usage: triggered.py grows|sleeps|fails|asks|nothing [DEVICE]. Prints a digest of all losses.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import sys
import time

import torch

STEPS = 60
AT = 20
GROWN_BYTES = 256 << 20


def main() -> None:
    """Train."""
    device = sys.argv[2] if len(sys.argv) > 2 else "cpu"
    if device == "npu":
        import torch_npu  # noqa: F401 - the program needs it, and nobody else
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 32)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses, kept = [], []
    for step in range(1, STEPS + 1):
        loss = model(torch.randn(8, 32).to(device)).pow(2).sum()
        loss.backward()
        if step == AT and sys.argv[1] == "grows":
            kept.append(torch.ones(GROWN_BYTES, dtype=torch.uint8, device=device))
        if step == AT and sys.argv[1] == "fails":
            with contextlib.suppress(RuntimeError):
                kept.append(torch.empty(1 << 60, dtype=torch.uint8, device=device))
        if step == AT and sys.argv[1] == "asks":
            os.kill(os.getpid(), signal.SIGUSR2)
        # Memory is looked at once per tenth of a second.
        time.sleep(0.5 if step == AT and sys.argv[1] == "sleeps" else 0.03)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    print(f"losses={hashlib.sha256(repr(losses).encode()).hexdigest()}")


main()

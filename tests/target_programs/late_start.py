"""Starts observing from inside, without the launcher: only what is alive at start() or happens later is recorded."""

from __future__ import annotations

import sys

import torch

BEFORE_BYTES = 1_000_064
ALIVE_BYTES = 1_000_128
DURING_BYTES = 1_000_192
AFTER_BYTES = 1_000_256


def main() -> None:
    """Allocate before, during and after the collection."""
    imports_early = "early" in sys.argv[1:]
    if imports_early:
        import msmemscope
    torch.empty(BEFORE_BYTES, dtype=torch.uint8)
    alive = torch.empty(ALIVE_BYTES, dtype=torch.uint8)
    if not imports_early:
        import msmemscope

    msmemscope.start()
    for _ in range(3):
        torch.empty(DURING_BYTES, dtype=torch.uint8)
    msmemscope.step()
    kept = torch.empty(DURING_BYTES, dtype=torch.uint8)
    msmemscope.stop()

    torch.empty(AFTER_BYTES, dtype=torch.uint8)
    print(
        f"before_size={BEFORE_BYTES} alive_size={ALIVE_BYTES} during_size={DURING_BYTES} after_size={AFTER_BYTES} "
        f"during=4 kept={kept.numel() > 0 and alive.numel() > 0:d}"
    )


if __name__ == "__main__":
    main()

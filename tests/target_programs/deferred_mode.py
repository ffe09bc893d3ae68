"""For --collect-mode=deferred: nothing is recorded before start() and after stop(), except what is alive then."""

from __future__ import annotations

import torch

import msmemscope

BEFORE_BYTES = 1_000_064
ALIVE_BYTES = 1_000_128
DURING_BYTES = 1_000_192
AFTER_BYTES = 1_000_256


def main() -> None:
    """Allocate before, during and after the collection, and free what was there before during it."""
    torch.empty(BEFORE_BYTES, dtype=torch.uint8)
    alive = torch.empty(ALIVE_BYTES, dtype=torch.uint8)
    msmemscope.start()
    for _ in range(3):
        torch.empty(DURING_BYTES, dtype=torch.uint8)
    del alive
    msmemscope.stop()
    torch.empty(AFTER_BYTES, dtype=torch.uint8)
    print(
        f"before_size={BEFORE_BYTES} alive_size={ALIVE_BYTES} during_size={DURING_BYTES} after_size={AFTER_BYTES} "
        "during=3"
    )


if __name__ == "__main__":
    main()

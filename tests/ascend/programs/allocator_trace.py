"""A program of allocations that has torch record a history of its own, whatever else observes it.

Usage: allocator_trace.py FILE PROGRAM [FRACTION]: one of the programs of `allocator_programs`. Writes torch's snapshot to FILE.
"""

from __future__ import annotations

import contextlib
import random
import sys

import torch
import torch_npu  # noqa: F401 - makes the device npu
from allocator_programs import PROGRAMS


def main() -> None:
    """Run it."""
    path, program = sys.argv[1:3]
    torch.npu.init()
    torch.npu.memory._record_memory_history(max_entries=1 << 20, context=None)
    if len(sys.argv) > 3:
        torch.npu.set_per_process_memory_fraction(float(sys.argv[3]))
    with contextlib.suppress(torch.OutOfMemoryError):
        for _ in PROGRAMS[program](random.Random(7)):  # noqa: S311 - no secret
            pass
    torch.npu.memory._dump_snapshot(path)


if __name__ == "__main__":
    main()

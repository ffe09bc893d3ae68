"""Allocates and frees on several streams, notes torch's counters at each step, and dumps what torch recorded of it.

The step's snapshot leaves an entry in the history, by which the counters and the history are put side by side.
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
from pathlib import Path

import torch
import torch_npu  # noqa: F401 - makes the device npu

COUNTERS = ("allocated_bytes", "requested_bytes", "reserved_bytes", "active_bytes")
LARGEST = 24 << 20
STEPS = 150


class Program:
    """Blocks that come and go.

    Args:
        chance: Chooses.
    """

    def __init__(self, chance: random.Random) -> None:
        """Start with nothing."""
        self.chance = chance
        self.streams = [torch.npu.Stream() for _ in range(2)]
        self.alive: list[torch.Tensor] = []

    def step(self) -> None:
        """Allocate, free, or give memory back to the driver."""
        choice = self.chance.random()
        if choice < 0.55 or not self.alive:
            scale = self.chance.choice((2_000, 600_000, 3_000_000, LARGEST))
            with torch.npu.stream(self.chance.choice(self.streams)):
                self.alive.append(torch.empty(self.chance.randrange(1, scale), dtype=torch.uint8, device="npu"))
        elif choice < 0.92:
            tensor = self.alive.pop(self.chance.randrange(len(self.alive)))
            if self.chance.random() < 0.4:
                tensor.record_stream(self.chance.choice(self.streams))
        elif choice < 0.97:
            torch.npu.empty_cache()
        else:
            with contextlib.suppress(torch.OutOfMemoryError):
                torch.empty(1 << 44, dtype=torch.uint8, device="npu")


def main() -> None:
    """Run, with a history of all steps and then with one of the latest entries only."""
    folder = Path(sys.argv[1])
    program = Program(random.Random(7))  # noqa: S311 - no secret
    for name, entries in (("whole", 1 << 20), ("ring", 200)):
        torch.npu.memory._record_memory_history(None)  # forgets what was recorded
        torch.npu.memory._record_memory_history(max_entries=entries, stacks="python")
        counters = []
        for _ in range(STEPS):
            program.step()
            statistics = torch.npu.memory_stats()
            counters.append([statistics[f"{name}.all.current"] for name in COUNTERS])
            torch.npu.memory._snapshot()
        torch.npu.memory._dump_snapshot(str(folder / f"{name}.pickle"))
        (folder / f"{name}.json").write_text(json.dumps(counters))
    print(f"{torch.npu.memory_stats()['num_ooms']} failed")


if __name__ == "__main__":
    main()

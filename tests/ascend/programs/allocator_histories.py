"""Programs of allocations under several settings of torch_npu's allocator, each in a process of its own.

torch_npu is imported once; the processes are forked after that, and read the settings when they first allocate. Each writes
the history that torch recorded, and torch's counters after each operation: how many blocks had been allocated, freed and
completed, and how often memory had run out, tells which entry of the history they belong to. The same is written of each call
that empties the cache: a history does not have those that found nothing to give back.

Usage: allocator_histories.py FOLDER CASES, the second one JSON: name -> {program, settings?, fraction?, seed?, device_bytes?}.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import sys
import traceback
from pathlib import Path
from typing import Any, Final

import torch
import torch_npu  # noqa: F401 - makes the device npu
from allocator_programs import PROGRAMS

PLACE: Final = ("allocation.all.allocated", "allocation.all.freed", "active.all.freed", "num_ooms")
"""Counters that say how far a history has come."""
COUNTERS: Final = (
    *PLACE,
    "allocated_bytes.all.current",
    "reserved_bytes.all.current",
    "active_bytes.all.current",
    "segment.all.current",
    "num_alloc_retries",
)


def counted(names: tuple[str, ...]) -> list[int]:
    """Torch's own counters."""
    statistics: dict[str, Any] = torch.npu.memory_stats()
    return [statistics[name] for name in names]


def run(
    name: str, *, program: str, settings: str = "", fraction: float | None = None, seed: int = 7, device_bytes: int = 0
) -> None:
    """Run one program, and write its history and counters."""
    if device_bytes:
        os.environ["VNPU_MEMORY"] = str(device_bytes)
    os.environ["PYTORCH_NPU_ALLOC_CONF"] = settings
    torch.npu.init()
    if fraction is not None:
        torch.npu.set_per_process_memory_fraction(fraction)
    torch.npu.memory._record_memory_history(max_entries=1 << 20, context=None)
    counters: list[list[int]] = []
    emptied: list[list[int]] = []
    empty_cache = torch.npu.empty_cache

    def noted_empty_cache() -> None:
        emptied.append(counted(PLACE))
        empty_cache()

    torch.npu.empty_cache = noted_empty_cache
    # A program that does not expect it ends when memory runs out: its history does, too.
    with contextlib.suppress(torch.OutOfMemoryError):
        counters.extend(counted(COUNTERS) for _ in PROGRAMS[program](random.Random(seed)))  # noqa: S311 - no secret
    torch.npu.memory._dump_snapshot(f"{name}.pickle")
    Path(f"{name}.json").write_text(json.dumps({"counters": counters, "emptied": emptied}), encoding="utf-8")


def main() -> None:
    """Run all cases, two at a time."""
    folder, cases = Path(sys.argv[1]), json.loads(sys.argv[2])
    os.chdir(folder)
    running: dict[int, str] = {}
    failed: list[str] = []

    def wait_for_one() -> None:
        process, status = os.wait()
        name = running.pop(process)
        if status != 0:
            failed.append(name)

    for name, case in cases.items():
        if len(running) == 2:
            wait_for_one()
        process = os.fork()
        if process == 0:
            try:
                run(name, **case)
            except BaseException:  # noqa: BLE001 - the process ends here, whatever it was
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        running[process] = name
    while running:
        wait_for_one()
    assert not failed, failed


if __name__ == "__main__":
    main()

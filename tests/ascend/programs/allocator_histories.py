"""Programs of allocations under several settings of the allocator of torch_npu or torch.cuda, each in a process of its own.

torch is imported once. The processes are forked after that, and get the settings before they first allocate. Each
process writes the history that torch recorded. It also writes torch's counters after each operation: blocks allocated,
freed and completed, and failures for lack of memory. These counters tell to which entry of the history an operation
belongs. Each call that empties the cache is written too: the history leaves out calls that found nothing to give back.

Usage: allocator_histories.py FOLDER CASES [AT_ONCE]. CASES is JSON: name -> {program, settings?, fraction?, seed?,
device_bytes?}. AT_ONCE says how many run at a time.

On NPUs, the fraction is a fraction of the device, and `device_bytes` can set the memory of the device. On CUDA devices,
the memory cannot be set, and the fraction is a fraction of LIKE_BYTES. A part of the device then stands for a device of
that size.
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
from allocator_programs import KIND, PROGRAMS, accelerator

LIKE_BYTES: Final = 800 << 20
"""The bytes that an NPU of 1 GiB has for the allocator."""
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
    """Torch's own counters, before it sorts all of them by their whole names, which takes ten times as long."""
    found: list[int] = []
    statistics = accelerator.memory_stats_as_nested_dict()
    for name in names:
        figure: Any = statistics
        for word in name.split("."):
            figure = figure[word]
        found.append(figure)
    return found


def run(
    name: str, *, program: str, settings: str = "", fraction: float | None = None, seed: int = 7, device_bytes: int = 0
) -> None:
    """Run one program, and write its history and counters."""
    if device_bytes:
        os.environ["VNPU_MEMORY"] = str(device_bytes)
    os.environ["PYTORCH_NPU_ALLOC_CONF"] = settings
    accelerator.init()
    total = accelerator.get_device_properties(0).total_memory
    if KIND == "cuda":
        torch._C._accelerator_setAllocatorSettings(settings)
        fraction = (1.0 if fraction is None else fraction) * LIKE_BYTES / total
    if fraction is not None:
        accelerator.set_per_process_memory_fraction(fraction)
    accelerator.memory._record_memory_history(max_entries=1 << 20, context=None)
    counters: list[list[int]] = []
    emptied: list[list[int]] = []
    empty_cache = accelerator.empty_cache

    def noted_empty_cache() -> None:
        emptied.append(counted(PLACE))
        empty_cache()

    accelerator.empty_cache = noted_empty_cache
    # A program that does not expect it ends when memory runs out: its history does, too.
    with contextlib.suppress(torch.OutOfMemoryError):
        counters.extend(counted(COUNTERS) for _ in PROGRAMS[program](random.Random(seed)))  # noqa: S311 - no secret
    accelerator.memory._dump_snapshot(f"{name}.pickle")
    written = {"counters": counters, "emptied": emptied, "kind": KIND, "fraction": fraction, "device_bytes": total}
    Path(f"{name}.json").write_text(json.dumps(written), encoding="utf-8")


def main() -> None:
    """Run all cases."""
    folder, cases = Path(sys.argv[1]), json.loads(sys.argv[2])
    at_once = int(sys.argv[3]) if len(sys.argv) > 3 else 2
    os.chdir(folder)
    running: dict[int, str] = {}
    failed: list[str] = []

    def wait_for_one() -> None:
        process, status = os.wait()
        name = running.pop(process)
        if status != 0:
            failed.append(name)

    for name, case in cases.items():
        if len(running) == at_once:
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

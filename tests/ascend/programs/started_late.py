"""Programs of allocations that msmemscope begins to record in the middle, each in a process of its own.

torch_npu is imported once; the processes are forked after that. Each writes, after each operation that was recorded, the number
that the next event gets and torch's own counters: bytes in use, and reserved.

Usage: started_late.py FOLDER CASES, the second one JSON: name -> {program, settings, at, fraction?, seed?}. `at` has the
numbers of operations before which recording begins or ends, in turns.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch_npu  # noqa: F401 - makes the device npu
from allocator_programs import MIB, PROGRAMS, block

import msmemscope
from msmemscope import _native

if TYPE_CHECKING:
    from allocator_programs import Steps


def racing(chance: random.Random) -> Steps:
    """Threads that never wait for the one that begins and ends recording, each with streams of its own."""
    is_over = threading.Event()
    failures: list[BaseException] = []

    def allocate(seed: int) -> None:
        own = random.Random(seed)  # noqa: S311 - no secret
        alive: list[torch.Tensor] = []
        try:
            with torch.npu.stream(torch.npu.Stream()):
                while not is_over.is_set():
                    if own.random() < 0.5 and len(alive) < 40:
                        alive.append(block(own.randrange(1, own.choice((2_000, 600_000, 3 * MIB)))))
                    elif alive:
                        alive.pop(own.randrange(len(alive)))
        except BaseException as error:
            failures.append(error)
            raise

    workers = [threading.Thread(target=allocate, args=(chance.random(),)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for _ in range(60):
        time.sleep(0.003)
        yield
    is_over.set()
    for worker in workers:
        worker.join()
    assert not failures, failures


COUNTERS = ("allocated_bytes.all.current", "reserved_bytes.all.current")


def run(folder: Path, name: str, case: dict[str, Any]) -> None:
    """Run one program, and write its counters."""
    os.environ["PYTORCH_NPU_ALLOC_CONF"] = case["settings"]
    if "device_bytes" in case:
        os.environ["VNPU_MEMORY"] = str(case["device_bytes"])
    msmemscope.config(events="alloc,free,allocator", device="npu", output=str(folder / name))
    torch.npu.init()
    if "fraction" in case:
        torch.npu.set_per_process_memory_fraction(case["fraction"])
    at: list[int] = case["at"]
    program = {**PROGRAMS, "racing": racing}[case["program"]]
    chance = random.Random(case.get("seed", 7))  # noqa: S311 - no secret
    counted = []
    is_recording = False
    # A program that does not expect it ends when memory runs out.
    with contextlib.suppress(torch.OutOfMemoryError):
        for number, _ in enumerate(program(chance)):
            if is_recording:
                statistics = torch.npu.memory_stats()
                counted.append([_native.next_sequence(), *(statistics[counter] for counter in COUNTERS)])
            if number in at:
                is_recording = not is_recording
                (msmemscope.start if is_recording else msmemscope.stop)()
    (folder / f"{name}.json").write_text(json.dumps(counted), encoding="utf-8")


def main() -> None:
    """Run all cases, two at a time."""
    folder, cases = Path(sys.argv[1]), json.loads(sys.argv[2])
    running: dict[int, str] = {}
    failed = []
    for name, case in [*cases.items(), *[("", {})] * 2]:
        if len(running) == 2 or (running and not name):
            process, status = os.wait()
            done = running.pop(process)
            if status != 0:
                failed.append(done)
        if not name:
            continue
        process = os.fork()
        if process == 0:
            try:
                run(folder, name, case)
            except BaseException:  # noqa: BLE001 - the process ends here, whatever it was
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        running[process] = name
    assert not failed, failed


if __name__ == "__main__":
    main()

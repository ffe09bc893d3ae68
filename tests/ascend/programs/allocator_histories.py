"""Programs of allocations under several settings of torch_npu's allocator, each in a process of its own.

torch_npu is imported once; the processes are forked after that, and read the settings when they first allocate. Each writes
the history that torch recorded, and torch's counters after each operation: how many blocks had been allocated, freed and
completed tells which entry of the history they belong to.

Usage: allocator_histories.py FOLDER CASES, the second one JSON: name -> {program, settings, fraction?}.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Final

import torch
import torch_npu  # noqa: F401 - makes the device npu

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    Steps: TypeAlias = Iterator[None]

MIB: Final = 1 << 20
COUNTERS: Final = (
    "allocation.all.allocated",
    "allocation.all.freed",
    "active.all.freed",
    "allocated_bytes.all.current",
    "reserved_bytes.all.current",
    "active_bytes.all.current",
    "segment.all.current",
    "num_alloc_retries",
)


def block(size: int) -> torch.Tensor:
    """Allocate bytes."""
    return torch.empty(size, dtype=torch.uint8, device="npu")


def random_sizes(chance: random.Random, scales: tuple[int, ...], steps: int, most: int) -> Steps:
    """Blocks of random sizes and lifetimes; sometimes the cache is emptied."""
    alive: list[torch.Tensor] = []
    for _ in range(steps):
        choice = chance.random()
        if choice < 0.01:
            torch.npu.empty_cache()
        elif (choice < 0.55 and sum(map(len, alive)) < most) or not alive:
            alive.append(block(chance.randrange(1, chance.choice(scales))))
        else:
            alive.pop(chance.randrange(len(alive)))
        yield


def small(chance: random.Random) -> Steps:
    """Up to 1 MiB."""
    return random_sizes(chance, (600, 20_000, MIB), 2500, 256 * MIB)


def large(chance: random.Random) -> Steps:
    """Up to 64 MiB."""
    return random_sizes(chance, (3 * MIB, 12 * MIB, 64 * MIB), 1500, 600 * MIB)


def mixed(chance: random.Random) -> Steps:
    """All sizes."""
    return random_sizes(chance, (2_000, 600_000, 3 * MIB, 24 * MIB), 2500, 500 * MIB)


def training(chance: random.Random) -> Steps:
    """Steps with activations that are freed in the reverse order, of changing sizes."""
    weights = [block(size * MIB) for size in (1, 3, 7, 12, 30)]
    for _ in range(40):
        length = chance.randrange(1, 9)
        activations = []
        for layer in range(12):
            activations.append(block(length * (layer % 3 + 1) * 600_000))
            yield
            scratch = block(length * 900_000)
            yield
            del scratch
            yield
        while activations:
            gradient = block(len(activations.pop()))
            yield
            del gradient
            yield
    weights.clear()
    yield


def serving(chance: random.Random) -> Steps:
    """Caches that grow by being copied, as requests get longer."""
    requests: list[torch.Tensor] = []
    for _ in range(1500):
        if chance.random() < 0.1 or not requests:
            requests.append(block(256 * 1024))
        else:
            index = chance.randrange(len(requests))
            if chance.random() < 0.12 or len(requests[index]) > 12 * MIB:
                requests.pop(index)
            else:
                requests[index] = block(len(requests[index]) + 128 * 1024)
        yield


def streams(chance: random.Random) -> Steps:
    """Several streams that use each other's blocks."""
    several = [torch.npu.Stream() for _ in range(3)]
    alive: list[torch.Tensor] = []
    for _ in range(2000):
        choice = chance.random()
        if choice < 0.01:
            torch.npu.empty_cache()
        elif choice < 0.03:
            torch.npu.synchronize()
        elif choice < 0.55 or not alive:
            with torch.npu.stream(chance.choice(several)):
                alive.append(block(chance.randrange(1, chance.choice((2_000, 600_000, 3 * MIB, 24 * MIB)))))
        else:
            tensor = alive.pop(chance.randrange(len(alive)))
            if chance.random() < 0.4:
                tensor.record_stream(chance.choice(several))
            del tensor
        yield


def full(chance: random.Random) -> Steps:
    """A device that is nearly full: cached blocks are released to go on, and some allocations fail."""
    alive: list[torch.Tensor] = []
    for _ in range(1200):
        if chance.random() < 0.56 or not alive:
            with contextlib.suppress(torch.OutOfMemoryError):
                alive.append(block(chance.randrange(1, chance.choice((600_000, 12 * MIB, 90 * MIB)))))
        else:
            alive.pop(chance.randrange(len(alive)))
        yield


def longer(chance: random.Random) -> Steps:
    """Steps that need a little more each time, and each leaves a block behind in what they had."""
    left: list[torch.Tensor] = []
    for step in range(60):
        activations = []
        for layer in range(12):
            activations.append(block((20 + step * 2) * 300_000 + layer % 3 * 1_000_000))
            yield
        left.append(block(1_000_000 + chance.randrange(1_000_000)))
        yield
        while activations:
            activations.pop()
            yield


def planned(chance: random.Random) -> Steps:
    """Powers of two and their neighbours: what rounding is about."""
    alive: list[torch.Tensor] = []
    for _ in range(1500):
        if chance.random() < 0.55 or not alive:
            alive.append(block(max((1 << chance.randrange(6, 26)) + chance.choice((-33, -32, -31, 0, 1, 511)), 1)))
        else:
            alive.pop(chance.randrange(len(alive)))
        yield


PROGRAMS: Final[dict[str, Callable[[random.Random], Steps]]] = {
    program.__name__: program for program in (small, large, mixed, training, serving, streams, full, longer, planned)
}


def run(name: str, program: str, settings: str, fraction: float | None, seed: int) -> None:
    """Run one program, and write its history and counters."""
    os.environ["PYTORCH_NPU_ALLOC_CONF"] = settings
    torch.npu.init()
    if fraction is not None:
        torch.npu.set_per_process_memory_fraction(fraction)
    torch.npu.memory._record_memory_history(max_entries=1 << 20, context=None)
    counters = []
    # A program that does not expect it ends when memory runs out: its history does, too.
    with contextlib.suppress(torch.OutOfMemoryError):
        for _ in PROGRAMS[program](random.Random(seed)):  # noqa: S311 - no secret
            statistics = torch.npu.memory_stats()
            counters.append([statistics[counter] for counter in COUNTERS])
    torch.npu.memory._dump_snapshot(f"{name}.pickle")
    Path(f"{name}.json").write_text(json.dumps(counters), encoding="utf-8")


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
                run(name, case["program"], case.get("settings", ""), case.get("fraction"), case.get("seed", 7))
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

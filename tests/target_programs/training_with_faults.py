"""Trains a little, the same way each time, with every fault that an analysis looks for.

Usage: training_with_faults.py DEVICE STEPS END: `cpu` or `npu`; END is `return` or `kill`. With `kill` the process ends
its whole process group by SIGKILL behind its last step, the launcher too. Prints the number of each ended step.
"""

from __future__ import annotations

import collections
import ctypes
import gc
import os
import resource
import signal
import sys

import torch

import msmemscope
from msmemscope import describe

TOO_MUCH_BYTES = 1 << 40
ROOM_BYTES = 4 << 30
MARKED_STEPS = (3, 4, 5)

OLD_BATCHES: collections.deque[torch.Tensor] = collections.deque()
"""Grows although each batch is dropped at some time."""


def keep_for_ever(thing: object) -> None:
    """Lose a reference, so that not even the end of the interpreter frees what it refers to."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def leak(device: str) -> None:
    """Allocate what nobody can free any more."""
    keep_for_ever(torch.ones(3000, device=device))


def keep_batches(step: int, device: str) -> None:
    """Put two batches in a queue and take one out."""
    OLD_BATCHES.append(torch.ones(500 + step, device=device))
    OLD_BATCHES.append(torch.ones(700, device=device))
    OLD_BATCHES.popleft()


def allocate_early(device: str) -> None:
    """Hold a tensor while an operator frees another one, before it is used."""
    other = torch.ones(1 << 12, device=device)
    early = torch.empty(1 << 16, device=device)
    other.resize_(1 << 13)
    early.fill_(1)


def free_late(device: str) -> None:
    """Hold a tensor while others come and go, after its last use."""
    late = torch.ones(1 << 15, device=device)
    used = late.sum()
    other = torch.ones(1 << 14, device=device) + used
    third = other * 2
    del late, other, third


def hold_idle(device: str) -> None:
    """Leave a tensor alone for many operators."""
    with describe.describer(owner="idle"):
        idle = torch.ones(1 << 13, device=device)
    small = torch.ones(4, device=device)
    for _ in range(30):
        small.add_(1)
    idle.add_(small.sum())


def ask_for_too_much(device: str) -> None:
    """Fail for lack of memory, and go on."""
    try:
        torch.empty(TOO_MUCH_BYTES, dtype=torch.uint8, device=device)
    except RuntimeError:
        return
    raise AssertionError("there was enough memory")


def mark(device: str) -> None:
    """Mark a point, where marks can be made."""
    if device == "npu":
        import mstx

        mstx.mark("range, of: steps")


def limit_address_space() -> None:
    """Leave the process some room and no more, so that too much is too much on every machine."""
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM_BYTES, used + ROOM_BYTES))


def train(device: str, steps: int) -> None:
    """Take the steps."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    keep_for_ever((model, optimizer))
    for step in range(1, steps + 1):
        loss = model(torch.ones(16, 64, device=device)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        leak(device)
        keep_batches(step, device)
        allocate_early(device)
        free_late(device)
        hold_idle(device)
        if step in MARKED_STEPS:
            mark(device)
        if step == MARKED_STEPS[0]:
            ask_for_too_much(device)
        msmemscope.step()
        print(step, flush=True)
    keep_for_ever(loss)


def main() -> None:
    """Train, and end as told."""
    device, steps, end = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    if device == "npu":
        import torch_npu  # noqa: F401
    gc.disable()
    torch.set_num_threads(1)
    if device == "cpu":
        limit_address_space()
    train(device, steps)
    OLD_BATCHES.clear()
    if end == "kill":
        os.killpg(0, signal.SIGKILL)


main()

"""Programs that somebody attaches to while they run.

Usage: attached.py KIND [STEPS [FILE]]. Without STEPS it goes on until a line comes on stdin. At the end it prints the losses of all
steps as one number, how many threads it has, and how many descriptors.
"""

from __future__ import annotations

import asyncio
import hashlib
import signal
import sys
import threading
import time
from pathlib import Path

import torch

KEPT: list[torch.Tensor] = []
OLD = torch.ones(1 << 18)
"""1 MiB that is there before anybody attaches."""
ENDED = threading.Event()
SIGNALS: dict[int, int] = {}


def keep() -> None:
    """Leak 64 KiB."""
    KEPT.append(torch.ones(1 << 14))


def train(steps: int, pause_s: float, digest: hashlib._Hash) -> None:
    """Train, step by step."""
    torch.manual_seed(7)
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    done = 0
    while done != steps and not ENDED.is_set():
        loss = model(torch.randn(16, 64)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        digest.update(repr(loss.item()).encode())
        keep()
        done += 1
        if pause_s:
            time.sleep(pause_s)


async def serve() -> None:
    """Wait for events, and allocate now and then."""
    while not ENDED.is_set():
        await asyncio.sleep(0.02)
        keep()


def work() -> None:
    """Be one of many threads."""
    while not ENDED.is_set():
        torch.ones(1 << 10)
        time.sleep(0.05)


def call_for_long() -> None:
    """Hold Python's lock for seconds at a time, in one call."""
    while not ENDED.is_set():
        sum(range(40_000_000))
        keep()


def count_signal(number: int, _frame: object) -> None:
    """Be a handler of the program."""
    SIGNALS[number] = SIGNALS.get(number, 0) + 1


def spin(until: Path) -> None:
    """Make Python objects alone, which the C library's allocator hears nothing of, until there is a file."""
    while not until.exists():
        for number in range(1_000_000):
            [str(number)]
        keep()


def main() -> None:
    """Run as one of the kinds."""
    torch.set_num_threads(1)
    kind, steps = sys.argv[1], int([*sys.argv, "-1"][2])
    digest = hashlib.sha256()
    if steps < 0:
        threading.Thread(target=lambda: (sys.stdin.readline(), ENDED.set()), daemon=True).start()
    print("ready", flush=True)
    if kind == "training":
        train(steps, 0.01, digest)
    elif kind == "busy":
        train(steps, 0.0, digest)
    elif kind == "serving":
        asyncio.run(serve())
    elif kind == "threads":
        every = [threading.Thread(target=work) for _ in range(64)]
        for one in every:
            one.start()
        for one in every:
            one.join()
    elif kind == "signals":
        signal.signal(signal.SIGALRM, count_signal)
        signal.signal(signal.SIGUSR1, count_signal)
        signal.setitimer(signal.ITIMER_REAL, 0.003, 0.003)
        train(steps, 0.01, digest)
        signal.setitimer(signal.ITIMER_REAL, 0)
    elif kind == "spinning":
        spin(Path(sys.argv[3]))
    elif kind == "long_call":
        call_for_long()
    threads, descriptors = (len([*(Path("/proc/self") / name).iterdir()]) for name in ("task", "fd"))
    print(
        f"losses={digest.hexdigest()} threads={threads} descriptors={descriptors} signals={sum(SIGNALS.values())}",
        flush=True,
    )


main()

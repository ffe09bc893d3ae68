"""Programs with torch whose greenlets take pieces of the stack away and bring them back."""

from __future__ import annotations

import sys
import threading

import torch
from torch_cases.training import step_of


def greenlets(device: str) -> None:
    """Greenlets that switch in the middle of C calls, so that pieces of the stack come and go under them."""
    import random

    import greenlet

    sys.setrecursionlimit(5000)
    choice = random.Random(0)  # noqa: S311
    parent = greenlet.getcurrent()
    total = [0.0]

    def below(depth: int, action: object) -> None:
        if depth:
            sorted([0], key=lambda _: (below(depth - 1, action), 0)[1])
        else:
            action()  # type: ignore[operator]

    def work(seed: int) -> None:
        def allocate() -> None:
            kept = torch.ones(8, device=device)
            parent.switch()
            total[0] += kept.sum().item() + step_of(seed, device)

        while True:
            below(choice.randrange(8), allocate)

    switched = [greenlet.greenlet(work) for _ in range(20)]
    for seed, one in enumerate(switched):
        below(choice.randrange(30), lambda one=one, seed=seed: one.switch(seed % 5))
    for _ in range(300):
        below(choice.randrange(30), choice.choice(switched).switch)
    print(total)


def gevent_tasks(device: str) -> None:
    """Gevent with everything patched: threads and pools are greenlets, sleeping switches."""
    from gevent import monkey

    monkey.patch_all()
    import queue
    import time

    results: dict[int, float] = {}

    def work(seed: int) -> None:
        total = 0.0
        for number in range(5):
            total += step_of(seed + number, device)
            time.sleep(0)
        results[seed] = total

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    handed_over: queue.Queue[torch.Tensor] = queue.Queue(1)
    producer = threading.Thread(
        target=lambda: [handed_over.put(torch.full((3,), float(number), device=device)) for number in range(20)]
    )
    producer.start()
    print(sum(handed_over.get().sum().item() for _ in range(20)))
    print([results[seed] for seed in range(20)], step_of(0, device))

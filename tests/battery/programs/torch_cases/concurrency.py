"""Programs with torch in which many things go on at once."""

from __future__ import annotations

import asyncio
import concurrent.futures
import sys
import threading

import torch
from torch import nn
from torch_cases.training import step_of


def many_threads(device: str) -> None:
    """Two hundred threads that are alive together, each with its tensors."""
    all_here = threading.Barrier(200)
    results: dict[int, float] = {}

    def work(seed: int) -> None:
        kept = torch.full((10,), float(seed), device=device)
        all_here.wait()
        results[seed] = kept.sum().item() + step_of(seed % 5, device)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print([results[seed] for seed in range(200)])


def small_stacks(device: str) -> None:
    """Threads with the smallest stacks that Python allows for calls into torch."""
    threading.stack_size(256 << 10)
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        print(list(pool.map(step_of, range(40), [device] * 40)))


def backward_in_threads(device: str) -> None:
    """Backward passes through one model, each in a thread of its own, with hooks."""
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(8, 8) for _ in range(4)]).to(device)
    seen = []
    for module in model:
        module.register_full_backward_hook(lambda *_: seen.append(1))
    losses = [model(torch.full((2, 8), float(number), device=device)).sum() for number in range(8)]
    for loss in losses:  # one after the other: the order of the sums decides about their last digits
        thread = threading.Thread(target=loss.backward)
        thread.start()
        thread.join()
    print(len(seen), [parameter.grad.sum().item() for parameter in model.parameters() if parameter.grad is not None])


async def _gather(device: str) -> list[float]:
    async def work(seed: int) -> float:
        total = 0.0
        for number in range(5):
            total += step_of(seed + number, device)
            await asyncio.sleep(0)
        return total

    loop = asyncio.get_running_loop()
    there = [loop.run_in_executor(None, step_of, seed, device) for seed in range(10)]
    process = await asyncio.create_subprocess_exec("echo", "child", stdout=asyncio.subprocess.PIPE)
    print(await process.communicate(), process.returncode)
    return [*await asyncio.gather(*(work(seed) for seed in range(20))), *await asyncio.gather(*there)]


def asyncio_tasks(device: str) -> None:
    """Tasks, threads and children of asyncio's loop."""
    print(asyncio.run(_gather(device)))


def uvloop_tasks(device: str) -> None:
    """The same with uvloop."""
    import uvloop

    print(uvloop.run(_gather(device)))


def often_switched(device: str) -> None:
    """Threads that the interpreter switches between every few instructions."""
    sys.setswitchinterval(1e-6)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        print(list(pool.map(step_of, range(80), [device] * 80)))

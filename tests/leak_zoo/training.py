"""The things that training loops keep: optimizers, averages, checkpoints, batches, buffers of threads."""

from __future__ import annotations

import copy
import queue
import threading

import torch
from torch.utils.data import DataLoader, TensorDataset

import msmemscope

from . import DEVICE, STEPS


def _model() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).to(DEVICE)


def _train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, data: torch.Tensor) -> None:
    optimizer.zero_grad()
    model(data).square().mean().backward()
    optimizer.step()


def plain_training() -> None:
    """A loop as it should be: the optimizer's state is made in the first step."""
    model = _model()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        _train(model, optimizer, torch.ones(8, 16, device=DEVICE))
        msmemscope.step()


def optimizers_kept() -> None:
    """A new optimizer in each step, and the old ones are kept with their state."""
    model = _model()
    optimizers = []
    for _ in range(STEPS):
        optimizer = torch.optim.Adam(model.parameters(), foreach=False)
        optimizers.append(optimizer)
        model(torch.ones(8, 16, device=DEVICE)).square().mean().backward()
        optimizer.step()  # LEAK
        optimizer.zero_grad()
        msmemscope.step()


def optimizers_replaced() -> None:
    """A new optimizer in each step takes the place of the old one."""
    model = _model()
    for _ in range(STEPS):
        optimizer = torch.optim.Adam(model.parameters())
        _train(model, optimizer, torch.ones(8, 16, device=DEVICE))
        msmemscope.step()


def averages_kept() -> None:
    """A copy of the parameters in each step."""
    model = _model()
    copies = []
    for _ in range(STEPS):
        copies.append([parameter.detach().clone() for parameter in model.parameters()])  # LEAK
        msmemscope.step()


def averages_in_place() -> None:
    """A moving average that is updated."""
    model = _model()
    average = [parameter.detach().clone() for parameter in model.parameters()]
    for _ in range(STEPS):
        for mean, parameter in zip(average, model.parameters(), strict=True):
            mean.lerp_(parameter.detach(), 0.1)
        msmemscope.step()


def checkpoints_kept() -> None:
    """Checkpoints in memory, all of them."""
    model = _model()
    checkpoints = []
    for _ in range(STEPS):
        checkpoints.append(copy.deepcopy(model.state_dict()))  # LEAK
        msmemscope.step()


def best_checkpoint() -> None:
    """The best checkpoint so far: a better one comes now and then and takes its place."""
    model = _model()
    best = None
    for step in range(2 * STEPS):
        if step in {0, 2, 7, 12}:
            best = copy.deepcopy(model.state_dict())
        msmemscope.step()
    assert best is not None


def batches_kept() -> None:
    """A loop fed by a DataLoader that keeps its batches."""
    data = TensorDataset(torch.arange(4.0 * STEPS))
    kept = []
    for batch in DataLoader(data, batch_size=4):  # LEAK
        kept.append(batch[0].to(DEVICE))
        msmemscope.step()


def batches_dropped() -> None:
    """A loop fed by a DataLoader."""
    data = TensorDataset(torch.arange(4.0 * STEPS))
    for batch in DataLoader(data, batch_size=4, shuffle=True):
        batch[0].to(DEVICE).sum()
        msmemscope.step()


def cross_thread_free() -> None:
    """Another thread frees the tensors that this one allocates, two steps later."""
    handed: queue.Queue[torch.Tensor | None] = queue.Queue()
    freed = threading.Semaphore(0)

    def consume() -> None:
        waiting = []
        while (value := handed.get()) is not None:
            waiting.append(value)
            value = None
            if len(waiting) > 2:
                waiting.pop(0)
            freed.release()

    thread = threading.Thread(target=consume)
    thread.start()
    for _ in range(STEPS):
        handed.put(torch.zeros(256, device=DEVICE))
        freed.acquire()
        msmemscope.step()
    handed.put(None)
    thread.join()


def thread_that_keeps() -> None:
    """A thread beside the loop allocates and keeps; the steps are the loop's."""
    asked: queue.Queue[bool] = queue.Queue()
    done = threading.Semaphore(0)

    def prefetch() -> None:
        kept = []
        while asked.get():
            kept.append(torch.zeros(256, device=DEVICE))  # LEAK
            done.release()

    thread = threading.Thread(target=prefetch)
    thread.start()
    for _ in range(STEPS):
        asked.put(True)
        done.acquire()
        msmemscope.step()
    asked.put(False)
    thread.join()


def metrics_kept() -> None:
    """Metrics as tensors in a log, beside a training that keeps nothing."""
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    log: list[dict[str, torch.Tensor]] = []
    for _ in range(STEPS):
        data = torch.ones(8, 16, device=DEVICE)
        _train(model, optimizer, data)
        with torch.no_grad():
            log.append({"mean": model(data).mean()})  # LEAK
        msmemscope.step()

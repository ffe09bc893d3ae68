"""Programs with torch that are sent signals."""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
import time

import torch
from torch_cases.training import loss_of


def timer(device: str) -> None:
    """A timer that fires a thousand times a second into a handler that makes tensors, during training."""
    ticks = [0]
    is_within = [False]

    def handler(number: int, frame: object) -> None:
        if not is_within[0]:  # a slow machine would never come back from handlers within handlers
            is_within[0] = True
            ticks[0] += 1
            torch.ones(16, device=device).sum()
            is_within[0] = False

    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    first = loss_of(device, 20)
    while ticks[0] < 50:
        torch.ones(100).sum()
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(first == loss_of(device, 20), first)


def reaper(device: str) -> None:
    """A handler of SIGCHLD that reaps children while tensors are made."""
    reaped = []

    def handler(number: int, frame: object) -> None:
        while True:
            try:
                child, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if child == 0:
                return
            reaped.append(os.waitstatus_to_exitcode(status))

    signal.signal(signal.SIGCHLD, handler)
    print(loss_of("cpu"))
    for number in range(10):
        if os.fork() == 0:
            os._exit(number)
    while len(reaped) < 10:
        torch.ones(100).sum()
    print(sorted(reaped), loss_of(device))


def waiting_thread(device: str) -> None:
    """Signals are blocked everywhere; a thread waits for them."""
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, signal.NSIG))
    got = []

    def wait() -> None:
        while (number := signal.sigwait({signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM})) != signal.SIGTERM:
            got.append((number, torch.ones(3, device=device).sum().item()))

    thread = threading.Thread(target=wait)
    thread.start()
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGUSR1, signal.SIGTERM):
        os.kill(os.getpid(), number)
        while number in signal.sigpending():
            torch.ones(10).sum()
        time.sleep(0.01)
    thread.join()
    print(got, loss_of(device))


def stacks_in_time(device: str) -> None:
    """Faulthandler's timer and its signal write the stacks of all threads between operators."""
    with open("stacks", "w+") as file:
        faulthandler.register(signal.SIGUSR1, file=file)
        result = ""
        for _ in range(10):
            result = loss_of(device, 3)
            os.kill(os.getpid(), signal.SIGUSR1)
            # The timer's thread reads the frames of others without the interpreter's lock: any program can crash whose
            # functions come and go meanwhile. So this one sleeps.
            faulthandler.dump_traceback_later(0.01, file=file)
            time.sleep(0.05)
            faulthandler.cancel_dump_traceback_later()
        file.seek(0)
        text = file.read()
    print(result, "Timeout" in text, "in stacks_in_time" in text)

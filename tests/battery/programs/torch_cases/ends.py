"""Programs with torch that end in an unusual way."""

from __future__ import annotations

import atexit
import ctypes
import faulthandler
import gc
import os
import signal
import sys
import threading

import torch
from torch import nn
from torch_cases.training import loss_of


def asked_to_end(device: str) -> None:
    """SIGTERM in the middle of training; the program saves its state and ends by itself."""
    model = nn.Linear(4, 4).to(device)

    def handler(number: int, frame: object) -> None:
        torch.save(model.state_dict(), "checkpoint.pt")
        print(signal.Signals(number).name, len(torch.load("checkpoint.pt")), os.path.exists("checkpoint.pt"))
        sys.exit(3)

    signal.signal(signal.SIGTERM, handler)
    threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()
    while True:
        loss_of(device, 1)


def ended(device: str) -> None:
    """SIGTERM in the middle of training; nobody handles it."""
    print(loss_of(device), flush=True)
    threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()
    while True:
        loss_of(device, 1)


def interrupted(device: str) -> None:
    """SIGINT: the traceback of a KeyboardInterrupt."""

    def handler(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, handler)
    print(loss_of(device), flush=True)
    os.kill(os.getpid(), signal.SIGINT)


def crash(device: str) -> None:
    """A crash with faulthandler on: its report names the same lines."""
    faulthandler.enable()
    print(loss_of(device), flush=True)
    ctypes.string_at(0)


def at_exit(device: str) -> None:
    """Handlers at exit and finalizers with tensors, and a thread that never ends."""
    kept = torch.ones(5, device=device)

    class Finalized:
        def __del__(self) -> None:
            print("finalized", torch.ones(2).sum().item() if torch is not None else None)

    sys.modules["kept_to_the_end"] = Finalized()  # type: ignore[assignment]
    # Nobody else holds it: what holds it now would keep it from being finalized.
    atexit.register(lambda: print("referrers", list(map(type, gc.get_referrers(sys.modules["kept_to_the_end"])))))
    atexit.register(lambda: print("at exit", (kept * 2).sum().item()))

    threading.Thread(target=threading.Event().wait, daemon=True).start()
    print(loss_of(device))


def exit_without_handlers(device: str) -> None:
    """os._exit with tensors alive."""
    atexit.register(print, "never")
    print(loss_of(device), flush=True)
    os._exit(7)


def exit_in_a_thread(device: str) -> None:
    """sys.exit in a thread ends the thread alone; an uncaught exception of another is reported."""
    threads = [threading.Thread(target=sys.exit, args=(3,)), threading.Thread(target=lambda: 1 // 0)]
    for thread in threads:
        thread.start()
        thread.join()
    print(loss_of(device))
    sys.exit("the text of an exit")


def aborted(device: str) -> None:
    """os.abort in the middle."""
    print(loss_of(device), flush=True)
    os.abort()


def uncaught(device: str) -> None:
    """An exception that nobody catches, out of an operator in a backward pass."""

    class Failing(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: object, *grads: torch.Tensor) -> torch.Tensor:
            return grads[0] @ torch.ones(7, 7, device=grads[0].device)

    print(loss_of(device), flush=True)
    Failing.apply(torch.ones(3, device=device, requires_grad=True)).sum().backward()

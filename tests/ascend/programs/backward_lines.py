"""Allocates in the thread of torch's backward engine: in a plain backward pass, in a function's own, and in a checkpoint."""

import sys
import threading

import torch
import torch_npu  # noqa: F401 - the device
from torch.utils.checkpoint import checkpoint

BYTES_OF_ROW = 64 * 4


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient.repeat(1, 1) * 2  # CUSTOM


def plain(x):
    (x * 3).square().sum().backward()  # PLAIN


def custom(x):
    Doubled.apply(x).sum().backward()  # CALLS CUSTOM


def checkpointed(x):
    inner = lambda value: (value * 3).square()
    out = checkpoint(inner, x, use_reentrant=True)
    torch.autograd.grad(out.sum(), x) if False else out.sum().backward()  # REENTRANT


def failing(x):
    y = x * 1
    y.register_hook(lambda gradient: 1 // 0)
    try:
        y.sum().backward()  # FAILS
    except ZeroDivisionError:
        print("raised", file=sys.stderr)


def main():
    for number, function in enumerate((plain, failing, custom, checkpointed, plain), start=1):
        function(torch.ones(64 * number, 64, device="npu").requires_grad_())
    threads = [
        threading.Thread(target=function, args=(torch.ones(640, 64, device="npu").requires_grad_(),))
        for function in (plain, custom) * 3
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(torch.npu.memory_allocated())


main()

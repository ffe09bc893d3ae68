"""Runs out of device memory in the way that its argument names, on a device of 1 GiB; says what torch says."""

from __future__ import annotations

import sys
import time

import torch
import torch_npu  # noqa: F401 - makes the device npu

TOO_MUCH = 2 << 30


def made(mebibytes: int) -> torch.Tensor:
    """A tensor of a known size, allocated on a known line."""
    return torch.empty(mebibytes << 20, dtype=torch.uint8, device="npu")


def too_much(size: int = TOO_MUCH) -> torch.Tensor:
    """More than the device has."""
    return torch.empty(size, dtype=torch.uint8, device="npu")


def caught(size: int = TOO_MUCH) -> None:
    """Fail and go on."""
    try:
        too_much(size)
    except torch.OutOfMemoryError as error:
        print("caught:", error)


class Backward(torch.autograd.Function):
    """Runs out of memory in its backward pass, which runs in a thread of autograd."""

    @staticmethod
    def forward(context: object, value: torch.Tensor) -> torch.Tensor:  # noqa: ARG004
        """Nothing to fail here."""
        return value.clone()

    @staticmethod
    def backward(context: object, gradient: torch.Tensor) -> torch.Tensor:  # noqa: ARG004
        """Fail."""
        too_much()
        return gradient


def backward() -> None:
    """Fail in a thread of autograd."""
    try:
        Backward.apply(torch.ones(3, device="npu", requires_grad=True)).sum().backward()
    except torch.OutOfMemoryError as error:
        print("caught:", error)


def many(count: int) -> None:
    """Fail where many blocks are alive, and measure it."""
    kept = [torch.empty(128, dtype=torch.uint8, device="npu") for _ in range(count)]
    start = time.perf_counter()
    caught()
    print(f"blocks={len(kept)} seconds={time.perf_counter() - start}")


def main() -> None:
    """Keep blocks of 30, 60, 50 and 40 MiB and a free one in the cache, fail, and go on with one of 20 MiB."""
    mode = sys.argv[1]
    if mode == "many":
        many(int(sys.argv[2]))
        return
    kept = [made(size) for size in (30, 60, 50, 40)]
    made(100)
    if mode == "uncaught":
        too_much()
    elif mode == "backward":
        backward()
    elif mode == "limit":
        torch.npu.set_per_process_memory_fraction(0.3)
        caught(400 << 20)
    else:
        caught()
    kept.append(made(20))
    print(f"allocated={torch.npu.memory_allocated()} reserved={torch.npu.memory_reserved()}")
    # A thread of autograd that still holds the exception when the interpreter ends takes the process with it, with and
    # without an observer.
    time.sleep(0.3)
    sys.stdout.flush()


if __name__ == "__main__":
    main()

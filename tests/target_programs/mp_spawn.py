"""Two worker processes, started by multiprocessing's spawn method, each allocate tensors of a size of their own."""

from __future__ import annotations

import multiprocessing
import os

import torch

SIZES = (1_000_064, 1_000_128)
COUNT = 5


def work(size: int) -> None:
    """Allocate and free tensors one after the other, and say so."""
    for _ in range(COUNT):
        torch.empty(size, dtype=torch.uint8)
    os.write(1, f"who=worker pid={os.getpid()} size={size} allocs={COUNT} frees={COUNT}\n".encode())


def main() -> None:
    """Start the workers, wait for them, and allocate as well."""
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=work, args=(size,)) for size in SIZES]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        if worker.exitcode != 0:
            raise SystemExit(98)
    work(1_000_192)


if __name__ == "__main__":
    main()

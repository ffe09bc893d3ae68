"""The parent allocates, then forks two workers that allocate, free an inherited tensor, and leave."""

from __future__ import annotations

import multiprocessing
import os

import torch

SIZES = (1_000_064, 1_000_128)
COUNT = 5

inherited: list[torch.Tensor] = []


def work(size: int) -> None:
    """Allocate and free tensors one after the other, drop what was inherited, and say so."""
    for _ in range(COUNT):
        torch.empty(size, dtype=torch.uint8)
    inherited.clear()
    os.write(1, f"who=worker pid={os.getpid()} size={size} allocs={COUNT} frees={COUNT}\n".encode())


def main() -> None:
    """Fork the workers, wait for them, and allocate as well."""
    torch.set_num_threads(1)
    inherited.append(torch.empty(2_000_000, dtype=torch.uint8))
    context = multiprocessing.get_context("fork")
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

"""A CPU tensor that does not fit into the address space that the process may have; then a smaller one."""

from __future__ import annotations

import resource

import torch

ROOM_BYTES = 1 << 30
TOO_MUCH = 64 << 30


def used_address_space_bytes() -> int:
    """The size of the process's address space."""
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
        return int(file.read().split()[0]) * resource.getpagesize()


def too_much() -> torch.Tensor:
    """Ask for more than there is."""
    return torch.empty(TOO_MUCH, dtype=torch.uint8)


def main() -> None:
    """Fail, say what torch says, and go on."""
    kept = [torch.empty(size << 20, dtype=torch.uint8) for size in (30, 50, 10)]
    limit = used_address_space_bytes() + ROOM_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        too_much()
    except RuntimeError as error:
        print("caught:", error)
    kept.append(torch.empty(5 << 20, dtype=torch.uint8))
    print("kept", sum(tensor.nbytes for tensor in kept))


if __name__ == "__main__":
    main()

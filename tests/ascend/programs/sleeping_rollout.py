"""An engine that sleeps and wakes, as in a trainer with rollouts. It says what the device has in use while it sleeps.

Usage: sleeping_rollout.py HOW LEAKED CYCLES [LIBRARY]. LEAKED bytes stay from each wake.

HOW is `freed` or `mapped`. If it is `freed`, weights and cache are freed and allocated again, between ranges of mstx.
If it is `mapped`, they lie in a pool of LIBRARY (`sleeping_pool.c`), which keeps their addresses. Functions of a known
sleep mode then put the pool to sleep.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import torch
import torch_npu

MIB = 1 << 20
HOW, LEAKED, CYCLES = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
BYTES: Any = {"dtype": torch.uint8, "device": "npu"}
leaked: list[Any] = []


class FreedEngine:
    """Frees what it has, and allocates it anew."""

    def __init__(self) -> None:
        self.held: list[torch.Tensor] = []
        self.load()

    def load(self) -> None:
        """Allocate weights and cache."""
        self.held = [torch.ones(40 * MIB, **BYTES), torch.ones(24 * MIB, **BYTES)]  # the weights

    def sleep(self) -> None:
        """Free them."""
        number = torch_npu.npu.mstx.range_start("sleep")
        self.held.clear()
        torch.npu.empty_cache()
        torch_npu.npu.mstx.range_end(number)

    def wake(self) -> None:
        """Allocate them again, and something that stays."""
        number = torch_npu.npu.mstx.range_start("wake")
        self.load()
        keep_something()
        torch_npu.npu.mstx.range_end(number)


class MappedEngine:
    """Keeps the addresses, and gives the memory behind them back."""

    def __init__(self) -> None:
        from vllm_ascend.device_allocator.camem import CaMemAllocator  # type: ignore[import-not-found]

        self.allocator = CaMemAllocator()
        library = ctypes.CDLL(sys.argv[4])
        answers = {"sleep": library.pool_sleep, "wake_up": library.pool_wake}
        import framework_probe  # type: ignore[import-not-found]

        framework_probe.listeners.append(lambda name: answers[name]())
        plugged = torch.npu.memory.NPUPluggableAllocator(sys.argv[4], "my_malloc", "my_free")
        persistent = ctypes.c_int.in_dll(library, "sleep_persistent")
        self.pools = [torch.npu.memory.MemPool(plugged._allocator) for _ in range(2)]
        self.held = []
        for pool, sizes in zip(self.pools, ((40 * MIB, 24 * MIB), (8 * MIB,)), strict=True):
            with torch.npu.memory.use_mem_pool(pool):
                self.held += [torch.ones(size, **BYTES) for size in sizes]  # the pools
            persistent.value = 1

    def sleep(self) -> None:
        """Through the function that is known."""
        self.allocator.sleep(offload_tags=("weights",))

    def wake(self) -> None:
        """The same."""
        self.allocator.wake_up(tags=["weights"])
        self.allocator.wake_up(tags=["kv_cache"])
        keep_something()


def keep_something() -> None:
    """Keep memory that a wake should not leave behind."""
    if LEAKED:
        leaked.append(torch.ones(LEAKED, **BYTES))  # the leak


def main() -> None:
    """Sleep and wake, and print what is in use while asleep."""
    torch.npu.set_device(0)
    stays = torch.ones(16 * MIB, **BYTES)  # the buffer that stays
    engine = FreedEngine() if HOW == "freed" else MappedEngine()
    for _ in range(CYCLES):
        torch.npu.synchronize()
        engine.sleep()
        free, total = torch.npu.mem_get_info()
        print(f"asleep={total - free} allocated={torch.npu.memory_allocated()}", flush=True)
        engine.wake()
    torch.npu.synchronize()
    assert int(stays[-1]) == 1


main()

"""Memory pools: the table of their facts, and the lists that follow from it.

The values are those of the event log (`native/core/format/record.h`); a contract test compares the two. This module is
imported inside the observed process, so it imports nothing but `enum` and `typing`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from msmemscope.model.devices import DEVICE_CPU, DeviceKind, kind_of, names_of


class Pool(IntEnum):
    """Which allocator the bytes of an event belong to."""

    NONE = 0
    HAL = 1
    """The driver of a device; on the cpu, memory of the host that it has pinned."""
    HOST = 2
    PTA = 3
    PTA_WORKSPACE = 4
    ATB = 5
    MIND_SPORE = 6
    CUDA = 7
    """PyTorch's caching allocator of CUDA devices."""


class PoolFacts(NamedTuple):
    """The facts of a pool."""

    word: str
    """Column `Event Type` of MALLOC and FREE in dumps, `type` of ACCESS; its name for people."""
    device_kind: DeviceKind | None
    """Where it is; None: on devices of any kind, or on the cpu."""
    holds_reserve: bool
    """It takes memory from the driver ahead of its blocks, and keeps it behind them."""
    holds_tensors: bool


POOL_FACTS: Final[dict[int, PoolFacts]] = {
    Pool.HAL: PoolFacts("HAL", None, holds_reserve=False, holds_tensors=False),
    Pool.HOST: PoolFacts("HOST", None, holds_reserve=False, holds_tensors=True),
    Pool.PTA: PoolFacts("PTA", DeviceKind.NPU, holds_reserve=True, holds_tensors=True),
    Pool.PTA_WORKSPACE: PoolFacts("PTA_WORKSPACE", DeviceKind.NPU, holds_reserve=True, holds_tensors=False),
    Pool.ATB: PoolFacts("ATB", DeviceKind.NPU, holds_reserve=True, holds_tensors=False),
    Pool.MIND_SPORE: PoolFacts("MINDSPORE", DeviceKind.NPU, holds_reserve=True, holds_tensors=False),
    Pool.CUDA: PoolFacts("CUDA", DeviceKind.CUDA, holds_reserve=True, holds_tensors=True),
}

POOL_WORDS: Final[dict[int, str]] = {pool: facts.word for pool, facts in POOL_FACTS.items()}
"""Pool to its word in dumps. See `pool_word`."""
POOLS_WITH_RESERVE: Final = tuple(Pool(pool) for pool, facts in POOL_FACTS.items() if facts.holds_reserve)
TENSOR_POOLS: Final = tuple(Pool(pool) for pool, facts in POOL_FACTS.items() if facts.holds_tensors)
FRAMEWORK_POOLS: Final = tuple(Pool(pool) for pool in POOL_FACTS if pool != Pool.HAL)
"""Pools above the driver."""
DEVICE_POOLS: Final = (*POOLS_WITH_RESERVE, Pool.HAL)
"""Pools of device memory: those of frameworks, and the driver's, which gives them their memory."""
CACHING_POOLS: Final = {DeviceKind.NPU: Pool.PTA, DeviceKind.CUDA: Pool.CUDA}
"""PyTorch's caching allocator, by the kind of device."""


def is_pinned_memory(pool: int, device: int) -> bool:
    """Whether memory of a pool on a device is pinned memory of the host: the driver's, on the cpu."""
    return pool == Pool.HAL and device == DEVICE_CPU


def pool_word(pool: int, device: int) -> str:
    """Return the name of a pool on a device, for people."""
    if is_pinned_memory(pool, device):
        return "HOST, pinned"
    if pool == Pool.HAL and kind_of(device) is not None:
        return names_of(device).driver
    return POOL_WORDS.get(pool, "?")

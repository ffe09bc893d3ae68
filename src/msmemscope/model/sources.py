"""Sources of events, by the names of the facts `observed.<source>`, and the devices that they belong to."""

from __future__ import annotations

from typing import Final

CPU_SOURCES: Final = frozenset({"torch_cpu"})
"""Sources that only observe memory of the cpu."""

NPU_SOURCES: Final = frozenset({"hal", "acl", "kernel_launch", "mstx", "atb", "allocator", "pta"})
"""Sources that only a program with CANN has."""


def is_asked_for(source: str, devices: str) -> bool:
    """Whether a source is about a device that is observed.

    Args:
        source: The name of the source.
        devices: The setting of that name: `npu:0,cpu`; empty if it is not known.
    """
    if source in CPU_SOURCES:
        return not devices or "cpu" in devices.split(",")
    return source not in NPU_SOURCES or not devices or "npu" in devices

"""Sources of events, by the names of the facts `observed.<source>`, and the devices that they belong to."""

from __future__ import annotations

from typing import Final

CPU_SOURCES: Final = frozenset({"torch_cpu"})
"""What only observes memory of the cpu."""

NPU_SOURCES: Final = frozenset({"hal", "acl", "kernel_launch", "mstx", "atb"})
"""What only a program has that uses CANN."""

RANK_FACT: Final = "process.rank"
"""The fact that says which rank of a distributed job a process is."""
_MOST_DIGITS_OF_RANK: Final = 9


def is_rank(text: str) -> bool:
    """Whether a text is the number of a rank: environments and logs can say anything."""
    return text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS_OF_RANK


def is_asked_for(source: str, devices: str) -> bool:
    """Whether a source is about a device that is observed.

    Args:
        source: The name of the source.
        devices: The setting of that name: `npu:0,cpu`; empty if it is not known.
    """
    if source in CPU_SOURCES:
        return not devices or "cpu" in devices.split(",")
    return source not in NPU_SOURCES or not devices or "npu" in devices

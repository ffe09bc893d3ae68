"""Sources of events, by the names of the facts `observed.<source>`, and the devices that they belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msmemscope.model.devices import CPU_WORD, KIND_NAMES, DeviceKind

if TYPE_CHECKING:
    from collections.abc import Mapping

CPU_SOURCES: Final = frozenset({"torch_cpu"})
"""Sources that only observe memory of the cpu."""

NPU_SOURCES: Final = frozenset({"hal", "acl", "kernel_launch", "mstx", "atb", "allocator", "pta"})
"""Sources that only a program with CANN has."""

CUDA_SOURCES: Final = frozenset({"torch_cuda", "cuda_driver", "cuda_graphs", "cuda_kernels", "nvml", "nvtx"})
"""Sources that only a program with CUDA has."""

DEVICE_SOURCES: Final[Mapping[DeviceKind, frozenset[str]]] = {
    DeviceKind.NPU: NPU_SOURCES,
    DeviceKind.CUDA: CUDA_SOURCES,
}
"""The kinds of accelerators whose blocks are recorded while a program runs, and their sources."""


def is_asked_for(source: str, devices: str) -> bool:
    """Whether a source is about a device that is observed.

    Args:
        source: The name of the source.
        devices: The setting of that name: `npu:0,cpu`; empty if it is not known.
    """
    words = {device.partition(":")[0] for device in devices.split(",")}
    owners = {KIND_NAMES[kind].word for kind, sources in DEVICE_SOURCES.items() if source in sources}
    owners |= {CPU_WORD} if source in CPU_SOURCES else set()
    return not devices or not owners or bool(owners & words)

"""Figures of memory that a process can read without changing it: a dict for each accelerator, and one for the host.

The keys are those of a snapshot, and the values are bytes:

- `reserved` and `max_reserved`: memory of the device that the allocator holds, now and at most;
- `allocated` and `max_allocated`: the part of it that tensors use;
- `total` and `free`: memory of the device, whoever uses it.

A key is missing where nothing is known.

If torch is asked about a device that the program does not use, torch begins to use it. That takes memory there. So
torch is asked only about devices that have a context, and the management interface (DCMI) about the others.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from msmemscope import _native
from msmemscope.capture.current_device import device_of
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.pools import Pool

if TYPE_CHECKING:
    from collections.abc import Callable

    Figures = dict[str, int]

_STATISTICS = {
    "reserved": "reserved_bytes.all.current",
    "max_reserved": "reserved_bytes.all.peak",
    "allocated": "allocated_bytes.all.current",
    "max_allocated": "allocated_bytes.all.peak",
}
"""Key to what `torch.npu.memory_stats` and `torch.cuda.memory_stats` call it."""


class Accelerators:
    """The devices of one kind, as torch numbers them in this process.

    Args:
        module: `torch.npu` or `torch.cuda`.
        extension: The extension module behind it.
        kind: `npu` or `cuda`, as the extension's functions have it in their names.
    """

    def __init__(self, module: Any, extension: Any, kind: str) -> None:
        self._module = module
        self._extension = extension
        self.kind = kind

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Accelerators) and other._module is self._module

    def __hash__(self) -> int:
        return id(self._module)

    def count(self) -> int:
        """How many there are for this process."""
        return int(self._module.device_count())

    def is_initialised(self) -> bool:
        """Whether the program uses any of them; False in a forked child of one that does."""
        return bool(self._module.is_initialized())

    def is_used(self, device: int) -> bool:
        """Whether the program uses this one."""
        if not self.is_initialised():
            return False
        has_context = getattr(self._extension, f"_{self.kind}_hasPrimaryContext", None)
        if has_context is not None:
            return bool(has_context(device))
        return bool(device == self._module.current_device())  # a torch that cannot tell of the others

    def driver_number(self, device: int) -> int:
        """The device as events have it, by the driver's number; `DEVICE_NONE` if it has none."""
        return device_of(self.kind, device)

    def figures(self, device: int) -> Figures:
        """The figures of a device.

        Raises:
            RuntimeError: If torch cannot tell, for example because another allocator has taken its allocator's place.
        """
        if not self.is_used(device):
            # Torch holds nothing where it has no context.
            return dict.fromkeys(_STATISTICS, 0) | self._device_memory(device)
        statistics = self._module.memory_stats(device)
        figures = {key: int(statistics[name]) for key, name in _STATISTICS.items() if name in statistics}
        free, total = self._module.mem_get_info(device)
        return figures | {"total": int(total), "free": int(free)}

    def _device_memory(self, device: int) -> Figures:
        known = _native.device_memory(self.driver_number(device)) if self.kind == "npu" else None
        return {} if known is None else {"total": known[0], "free": known[1]}

    def when_initialised(self, action: Callable[[], None]) -> None:
        """Call `action` once the program has begun to use a device: now, or when it does. It must not raise."""
        self._module._lazy_call(action)  # noqa: SLF001 - no public name

    def attach_out_of_memory_observer(self, observer: Callable[[int, int, int, int], None]) -> None:
        """Have `observer(device, bytes asked for, total, free)` called where an allocation has failed for good.

        To be called when a device is in use: attaching begins to use one. The allocator is not locked during the call.

        Raises:
            AttributeError: If this torch has no such thing.
        """
        getattr(self._extension, f"_{self.kind}_attach_out_of_memory_observer")(observer)


def accelerators_of_process() -> Accelerators | None:
    """The accelerators that the program's torch knows; None without torch, and with a torch for CPUs."""
    torch_npu = sys.modules.get("torch_npu")
    # Where torch_npu is, torch.cuda can be a mask that it wears.
    if hasattr(torch_npu, "npu") and hasattr(torch_npu, "_C"):
        return Accelerators(torch_npu.npu, torch_npu._C, "npu")  # type: ignore[union-attr] # noqa: SLF001
    torch = sys.modules.get("torch")
    extension = getattr(torch, "_C", None)
    if hasattr(extension, "_cuda_hasPrimaryContext") and hasattr(torch, "cuda"):
        return Accelerators(torch.cuda, extension, "cuda")  # type: ignore[union-attr]
    return None


def host_figures(*, with_tensors: bool) -> Figures:
    """Return the figures of the host: the process holds memory, and the machine has it.

    Args:
        with_tensors: Whether CPU tensors are followed, so that their bytes are known.

    Raises:
        OSError: If /proc cannot be read.
    """
    process = _read_kibibytes("/proc/self/status", {"VmRSS": "reserved", "VmHWM": "max_reserved"})
    machine = _read_kibibytes("/proc/meminfo", {"MemTotal": "total", "MemAvailable": "free"})
    tensors = {"allocated": _native.live_bytes(Pool.HOST, DEVICE_CPU)} if with_tensors else {}
    return process | tensors | machine


def _read_kibibytes(path: str, keys: dict[str, str]) -> Figures:
    """Lines `Name:   123 kB` of a file, by the key for their name, as bytes."""
    figures = {}
    with open(path, encoding="ascii", errors="replace") as file:  # noqa: PTH123 - pathlib is not loaded here
        for line in file:
            name, _, value = line.partition(":")
            if name in keys:
                figures[keys[name]] = int(value.split()[0]) << 10
    return figures

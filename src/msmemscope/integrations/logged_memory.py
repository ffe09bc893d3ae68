"""Figures of memory for what a trainer logs to: TensorBoard, MLflow and others.

A process can read them without changing anything. Its allocators know about devices, the kernel about the process, and
the recorder about tensors on the CPU. Names are those that every logger takes: letters, digits,
slashes and underscores.
"""

from __future__ import annotations

from typing import Final

from msmemscope import _native
from msmemscope.capture.device_figures import accelerators_of_process, host_figures
from msmemscope.capture.session import session
from msmemscope.model.devices import CPU_WORD, device_name

_BYTES_PER_MIB: Final = 1 << 20
_OF_DEVICE: Final = ("allocated", "max_allocated", "reserved")
_OF_HOST: Final = {"reserved": "resident", "max_reserved": "max_resident", "allocated": "cpu_tensors"}
"""Key of `device_figures` to the word in the name of a figure: the process has no allocator that reserves."""


class LoggedMemory:
    """The figures of one training. If they cannot be read, one line on stderr says so, and there are no more."""

    def __init__(self) -> None:
        self._has_failed = False

    def figures(self) -> dict[str, float]:
        """Return the memory now, in MiB; never raises.

        Returns:
            `memory/npu_0_allocated_mib` and the like for each device that the process uses: `allocated`,
            `max_allocated` and `reserved`, as torch counts them. For the host `memory/host_resident_mib`,
            `memory/host_max_resident_mib`, and `memory/host_cpu_tensors_mib` where tensors on the CPU are recorded.
        """
        if self._has_failed:
            return {}
        try:
            return {f"memory/{name}_mib": size / _BYTES_PER_MIB for name, size in _bytes_by_name().items()}
        except Exception as error:  # noqa: BLE001 - the training goes on, whatever its torch is like
            self.fail(error)
            return {}

    def fail(self, error: Exception) -> None:
        """Say why memory is not logged, and give no more figures."""
        self._has_failed = True
        _native.warn(f"memory is not logged: {type(error).__name__}: {error}")


def _bytes_by_name() -> dict[str, int]:
    is_cpu_recorded = session.is_tracing and CPU_WORD in session.config.devices
    host = host_figures(with_tensors=is_cpu_recorded)
    found = {f"host_{word}": host[key] for key, word in _OF_HOST.items() if key in host}
    accelerators = accelerators_of_process()
    if accelerators is None or not accelerators.is_initialised() or not _native.devices_can_be_read():
        return found
    for device in range(accelerators.count()):
        if accelerators.is_used(device):
            name = device_name(accelerators.driver_number(device)).replace(":", "_")
            figures = accelerators.figures(device)
            found |= {f"{name}_{key}": figures[key] for key in _OF_DEVICE if key in figures}
    return found

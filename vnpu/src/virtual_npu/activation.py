"""The virtual NPU in the running process: ``activate()``, to be called before torch is imported."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import TYPE_CHECKING

from .configuration import Configuration
from .environment import environment_variables
from .errors import VirtualNpuError
from .libraries import LIBRARIES, cann_folder

if TYPE_CHECKING:
    from collections.abc import Iterable

_active: dict[str, Configuration] = {}  # "configuration", once activated
_loaded: list[ctypes.CDLL] = []  # kept loaded until the process ends


def activate(  # noqa: PLR0913  # one keyword for each choice
    *,
    devices: int | None = None,
    memory: int | str | None = None,
    soc: str | None = None,
    compute: str | None = None,
    streams: str | None = None,
    cann: str | None = None,
    driver: str | None = None,
    workspace: int | str | None = None,
    overhead: str | None = None,
    faults: str | Iterable[str] | None = None,
    despite_cann: bool = False,
) -> Configuration:
    """Make torch_npu, imported afterwards, find the virtual NPU. Children of this process find it too.

    Choices that are not given come from the environment (``VNPU_DEVICES`` ...), then from the defaults. Calling it
    again with the same choices does nothing.

    Args:
        devices: Number of devices.
        memory: Memory of each device: bytes, or a text such as ``"32GiB"``.
        soc: Name of the chip that the devices report.
        compute: ``"cpu"`` or ``"none"``.
        streams: ``"synchronous"`` or ``"asynchronous"``.
        cann: Version that the packages of CANN report: ``"8.5.0"``; without one they report none.
        driver: Version that the driver reports, likewise.
        workspace: Device memory that operators such as matrix multiplication ask for while they run.
        overhead: Memory that driver modules take at first use: ``"RUNTIME=128MiB,AICPU=64MiB"``.
        faults: Injected faults: ``"fail-allocation:7"``.
        despite_cann: Take the place of a real CANN.

    Returns:
        The configuration in force.

    Raises:
        VirtualNpuError: If a value is not accepted, if torch_npu is already loaded, or if torch and torch_npu do not
            match. Also if a real CANN is there, or the kernels cannot be compiled.
    """
    given = {
        "devices": devices,
        "memory": memory,
        "soc": soc,
        "compute": compute,
        "streams": streams,
        "cann": cann,
        "driver": driver,
        "workspace": workspace,
        "overhead": overhead,
        "faults": faults,
    }
    configuration = Configuration.choose(given, os.environ)
    if _active:
        if _active["configuration"] != configuration:
            message = "the virtual NPU is already active in this process, with other choices; they cannot change"
            raise VirtualNpuError(message)
        return configuration
    if "torch_npu" in sys.modules:
        message = (
            "torch_npu is already loaded: the virtual NPU has to be activated before it\n"
            "hint: call virtual_npu.activate() before `import torch`, which loads torch_npu by itself"
        )
        raise VirtualNpuError(message)
    variables = environment_variables(configuration, despite_cann=despite_cann)
    os.environ.update(variables)
    installed = cann_folder()
    # Loaded now, under their own names: torch_npu's libraries then find them without a search path.
    _loaded.extend(ctypes.CDLL(str(installed / "lib64" / name), mode=ctypes.RTLD_GLOBAL) for name in LIBRARIES)
    if str(installed / "python") not in sys.path:
        sys.path.insert(1, str(installed / "python"))
    _active["configuration"] = configuration
    return configuration

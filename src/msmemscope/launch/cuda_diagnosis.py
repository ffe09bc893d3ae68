"""CUDA on this machine, and whether it can be observed. No library of it is loaded, and no device is used."""

from __future__ import annotations

import ctypes.util
import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elftools.common.exceptions import ELFError

from msmemscope.capture.findings import Finding, Status
from msmemscope.configuration import CUDA_DRIVER_FILES
from msmemscope.launch.shared_library import imported_functions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_DRIVER_VERSION: Final = Path("/proc/driver/nvidia/version")
_VERSION: Final = re.compile(r"Kernel Module.*?\s(\d+\.[\d.]+)\s")
_RUNTIME_VERSION: Final = re.compile(r"^cuda\b.*?=\s*'([\d.]+)'", re.MULTILINE)
_BLOCK_REPORT: Final = "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"
"""The function by which PyTorch's allocator tells the profiler of each block (native/sources/cuda)."""
_INJECTION: Final = "NVTX_INJECTION64_PATH"


def diagnose_cuda(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Check each layer, from the driver to PyTorch.

    Args:
        environment: The environment that an observed program would be started with.
    """
    found = next((file for file in CUDA_DRIVER_FILES if Path(file).exists()), None)
    if found is None:
        detail = f"neither {' nor '.join(CUDA_DRIVER_FILES)} is there"
        yield Finding(Status.MISSING, "CUDA driver", detail, "only needed for CUDA devices")
        return
    yield Finding(Status.OK, "CUDA driver", f"{_driver_version() or 'version unknown'}, {found}")
    if ctypes.util.find_library("nvidia-ml") is None:
        advice = "mount it into the container; what a device and a process use is not known without it"
        yield Finding(Status.WARN, "NVML", "libnvidia-ml.so was not found", advice)
    else:
        yield Finding(Status.OK, "NVML", "says what devices and processes use")
    yield from _check_torch()
    if environment.get(_INJECTION):
        detail = f"{_INJECTION} is {environment[_INJECTION]}"
        yield Finding(Status.WARN, "NVTX", detail, "that tool gets marks and ranges; unset it to have them recorded")


def _driver_version() -> str:
    try:
        text = _DRIVER_VERSION.read_text(encoding="utf-8")
    except OSError:
        return ""  # in a container, or under Windows
    match = _VERSION.search(text)
    return match[1] if match else ""


def _check_torch() -> Iterator[Finding]:
    subject = "torch for CUDA"
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return  # said already
    folder = Path(spec.origin).parent
    library = folder / "lib" / "libc10_cuda.so"
    if not library.is_file():
        advice = "install a build for CUDA to use the device; memory of the driver is seen without it"
        yield Finding(Status.WARN, subject, f"{folder} is a build without CUDA", advice)
        return
    advice = "blocks of PyTorch's allocator are not seen with this build; memory of the driver is"
    try:
        reports = _BLOCK_REPORT in imported_functions(library)
        version = _RUNTIME_VERSION.search((folder / "version.py").read_text(encoding="utf-8"))
    except (OSError, ELFError) as error:
        yield Finding(Status.WARN, subject, f"{library} cannot be read: {error}", advice)
        return
    if reports:
        cuda = f"CUDA {version[1]}" if version else "CUDA"
        yield Finding(Status.OK, subject, f"{cuda}; blocks of its caching allocator can be observed")
    else:
        yield Finding(Status.WARN, subject, f"{library} does not report its blocks through its import table", advice)

"""The packages installed beside the virtual NPU: torch, torch_npu, perhaps a real CANN. Nothing of them is imported."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import VirtualNpuError

if TYPE_CHECKING:
    from collections.abc import Mapping

# Set by the scripts of a real CANN (set_env.sh), and the places of a real driver.
CANN_VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_OPP_PATH")
DRIVER_PLACES = (Path("/usr/local/Ascend/driver/lib64"), Path("/dev/davinci_manager"))


@dataclass(frozen=True)
class Package:
    """An installed package: its version, and the folder it is imported from."""

    version: str
    folder: Path

    @property
    def release(self) -> tuple[int, ...]:
        """The first three numbers of the version: (2, 13, 0)."""
        return tuple(int(number) for number in re.findall(r"\d+", self.version)[:3])


def find_package(name: str) -> Package | None:
    """Find a package of this environment, without importing it."""
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        return None
    return Package(version, Path(found.origin).parent)


def require_matching_packages() -> tuple[Package, Package]:
    """Return torch and torch_npu.

    Raises:
        VirtualNpuError: If one is missing, or if their versions do not belong together.
    """
    torch, torch_npu = find_package("torch"), find_package("torch_npu")
    if torch is None:
        message = "torch is not installed in this environment\nhint: pip install torch==2.13.0 torch_npu==2.13.0"
        raise VirtualNpuError(message)
    release = ".".join(map(str, torch.release))
    if torch_npu is None:
        message = f"torch_npu is not installed in this environment\nhint: pip install torch_npu=={release}"
        raise VirtualNpuError(message)
    if torch_npu.release != torch.release:
        message = (
            f"torch_npu {torch_npu.version} does not belong to torch {torch.version}: their first three numbers have "
            f"to be the same\nhint: pip install torch_npu=={release}"
        )
        raise VirtualNpuError(message)
    return torch, torch_npu


def is_emulated(place: Path) -> bool:
    """Whether a folder belongs to a virtual NPU, this one or another installation's."""
    notes = (place / "version.info", place / "runtime" / "version.info")
    return any(note.is_file() and "Provider=virtual_npu" in note.read_text(errors="replace") for note in notes)


def refuse_real_cann(environment: Mapping[str, str]) -> None:
    """Refuse to stand in the way of a real CANN, unless that was asked for.

    Raises:
        VirtualNpuError: If this environment is set up for a real one, or has a real driver.
    """
    for variable in CANN_VARIABLES:
        place = environment.get(variable)
        if place and not is_emulated(Path(place)):
            message = (
                f"a real CANN is set up here: {variable} is {place}\n"
                "hint: to use the virtual NPU instead of it, say so: vnpu run --despite-cann, or "
                "virtual_npu.activate(despite_cann=True)"
            )
            raise VirtualNpuError(message)
    for driver in DRIVER_PLACES:
        if driver.exists():
            message = (
                f"a real Ascend driver is installed here: {driver}\n"
                "hint: to use the virtual NPU instead of it, say so: vnpu run --despite-cann, or "
                "virtual_npu.activate(despite_cann=True)"
            )
            raise VirtualNpuError(message)

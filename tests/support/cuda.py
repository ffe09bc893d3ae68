"""The emulated CUDA runtime of tests, and the Python whose torch runs on it or on a real device."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.ascend import NotInstalledError
from tests.support.targets import Builder

RUNTIME: Final = Path(__file__).parents[1] / "cuda" / "runtime"
PYTHON_VARIABLE: Final = "MSMEMSCOPE_CUDA_PYTHON"
"""Environment variable: a Python that has a torch for CUDA. `make test-cuda` sets it."""
_REAL_DEVICE: Final = Path("/dev/nvidiactl")


@dataclass(frozen=True)
class EmulatedRuntime:
    """The built libraries of the emulated runtime."""

    cudart: Path
    driver: Path
    management: Path
    products: tuple[Path, ...]
    """Of matrix products."""
    allocator: Path
    """The stand-in for libc10_cuda.so."""
    communicator: Path
    """The stand-in for libnccl.so.2."""
    marks: Path
    """The stand-in for a library with NVTX."""

    def variables(self) -> dict[str, str]:
        """The environment in which real libraries find the emulated ones. Those that torch is linked to come first."""
        return {
            "LD_PRELOAD": " ".join(map(str, (self.cudart, *self.products))),
            "LD_LIBRARY_PATH": ":".join(str(library.parent) for library in (self.driver, self.management)),
        }


def build_emulated_runtime(builder: Builder, major: int = 13) -> EmulatedRuntime:
    """Build the emulated runtime of a version of CUDA: 12 or 13."""

    def build(source: str, name: str, *needed: Path, more: tuple[str | Path, ...] = ()) -> Path:
        links = [
            word for path in needed for word in (f"-L{path.parent}", f"-Wl,-rpath,{path.parent}", f"-l:{path.name}")
        ]
        # A version of each symbol, as the real libraries have it.
        versions = ("-Wl,--default-symver", f"-Wl,-soname,{name}", "-Wl,--no-as-needed")
        return builder.part(str(RUNTIME / source), name, *more, *versions, *links)

    sources = (RUNTIME / "launches.cpp", "-include", RUNTIME / "emulated.h", f"-DCUDA_MAJOR={major}")
    cudart = build("cudart.cpp", f"libcudart.so.{major}", more=sources)
    reports = build("fake_c10.cpp", "libc10_reports.so")
    return EmulatedRuntime(
        cudart=cudart,
        driver=build("cuda.cpp", "libcuda.so.1", cudart),
        management=build("nvml.cpp", "libnvidia-ml.so.1", cudart),
        products=tuple(build("cublas.cpp", name) for name in (f"libcublas.so.{major}", f"libcublasLt.so.{major}")),
        allocator=build("fake_c10_cuda.cpp", "libc10_cuda.so", cudart, reports),
        communicator=build("fake_nccl.cpp", "libnccl.so.2", cudart),
        marks=build("fake_nvtx.cpp", "libtorch_marks.so", more=("-ldl",)),
    )


def cuda_python() -> str:
    """Return the Python that has a torch for CUDA.

    Raises:
        NotInstalledError: If there is none.
    """
    python = os.environ.get(PYTHON_VARIABLE)
    if python:
        return python
    if _REAL_DEVICE.exists():
        return sys.executable
    message = f"no torch for CUDA: {PYTHON_VARIABLE} names no Python that has one (make test-cuda)"
    raise NotInstalledError(message)


@functools.cache
def cuda_version(python: str) -> int:
    """Return the version of CUDA that a Python's torch was built for: 12 or 13."""
    question = "import importlib.util, pathlib; print(pathlib.Path(importlib.util.find_spec('torch').origin).parent)"
    folder = subprocess.run([python, "-c", question], capture_output=True, text=True, check=True).stdout.strip()
    version = re.search(
        r"^cuda\b.*?= '(\d+)\.", (Path(folder) / "version.py").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert version is not None, folder
    return int(version[1])


def cuda_environment() -> dict[str, str]:
    """Return the variables with which a program runs on a CUDA device: none where there is one, else the emulated one's."""
    return {} if _REAL_DEVICE.exists() else dict(_emulated_variables())


@functools.cache
def _emulated_variables() -> dict[str, str]:
    folder = Path(tempfile.gettempdir()) / f"msmemscope_emulated_cuda_{os.getuid()}"
    folder.mkdir(exist_ok=True)
    return build_emulated_runtime(Builder(folder), cuda_version(cuda_python())).variables()

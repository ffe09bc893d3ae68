"""The emulated CUDA runtime, and programs under the tool that use it."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.support import tool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.targets import Builder

RUNTIME: Final = Path(__file__).parent / "runtime"
PROGRAMS: Final = Path(__file__).parent / "programs"
PYTHON_VARIABLE: Final = "MSMEMSCOPE_CUDA_PYTHON"


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

    def variables(self) -> dict[str, str]:
        """The environment in which real libraries find the emulated ones. Those that torch is linked to come first."""
        return {
            "LD_PRELOAD": " ".join(map(str, (self.cudart, *self.products))),
            "LD_LIBRARY_PATH": ":".join(str(library.parent) for library in (self.driver, self.management)),
        }


@pytest.fixture(scope="session")
def emulated_runtime(target_builder: Builder) -> EmulatedRuntime:
    """Build the emulated runtime."""

    def build(source: str, name: str, *needed: Path, more: tuple[str | Path, ...] = ()) -> Path:
        links = [
            word for path in needed for word in (f"-L{path.parent}", f"-Wl,-rpath,{path.parent}", f"-l:{path.name}")
        ]
        # A version of each symbol, as the real libraries have it.
        versions = ("-Wl,--default-symver", f"-Wl,-soname,{name}", "-Wl,--no-as-needed")
        return target_builder.part(str(RUNTIME / source), name, *more, *versions, *links)

    cudart = build("cudart.cpp", "libcudart.so.13", more=(RUNTIME / "launches.cpp", "-include", RUNTIME / "emulated.h"))
    reports = build("fake_c10.cpp", "libc10_reports.so")
    return EmulatedRuntime(
        cudart=cudart,
        driver=build("cuda.cpp", "libcuda.so.1", cudart),
        management=build("nvml.cpp", "libnvidia-ml.so.1", cudart),
        products=tuple(build("cublas.cpp", name) for name in ("libcublas.so.13", "libcublasLt.so.13")),
        allocator=build("fake_c10_cuda.cpp", "libc10_cuda.so", cudart, reports),
    )


@dataclass(frozen=True)
class ObserveCuda:
    """Runs a Python program under the tool on the emulated runtime."""

    runtime: EmulatedRuntime
    output: Path
    python: str = sys.executable

    def __call__(
        self,
        program: str,
        *arguments: object,
        options: tuple[str, ...] = (),
        variables: Mapping[str, str] | None = None,
    ) -> tool.ToolRun:
        """Run it and return what it left.

        Args:
            program: A file in the folder programs.
            arguments: Its arguments.
            options: Options of the tool.
            variables: Changes of the environment.
        """
        chosen = options if any(option.startswith("--device") for option in options) else ("--device=cuda", *options)
        command = [*tool.TOOL, f"--output={self.output}", *chosen, "--", self.python, PROGRAMS / program, *arguments]
        run = tool.run(command, output=self.output, variables={**self.runtime.variables(), **(variables or {})})
        assert run.returncode == 0, run.stderr
        return run


@pytest.fixture
def observe_stand_in(emulated_runtime: EmulatedRuntime, output: Path) -> ObserveCuda:
    """Observe a program that uses the stand-in for libc10_cuda.so."""
    return ObserveCuda(emulated_runtime, output)


@pytest.fixture
def observe_torch(emulated_runtime: EmulatedRuntime, output: Path) -> ObserveCuda:
    """Observe a program that uses the real torch for CUDA."""
    python = os.environ.get(PYTHON_VARIABLE)
    if not python:
        pytest.skip(f"no torch for CUDA: {PYTHON_VARIABLE} names no Python that has one (make test-cuda)")
    return ObserveCuda(emulated_runtime, output, python)

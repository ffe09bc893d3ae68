"""The emulated CUDA runtime, and programs under the tool that use it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.support import tool
from tests.support.ascend import NotInstalledError
from tests.support.cuda import EmulatedRuntime, build_emulated_runtime, cuda_python, cuda_version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.targets import Builder

PROGRAMS: Final = Path(__file__).parent / "programs"


@pytest.fixture(scope="session")
def emulated_runtime(target_builder: Builder) -> EmulatedRuntime:
    """The emulated runtime, built."""
    return build_emulated_runtime(target_builder)


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
def observe_torch(target_builder: Builder, output: Path) -> ObserveCuda:
    """Observe a program that uses the real torch for CUDA."""
    try:
        python = cuda_python()
    except NotInstalledError as missing:
        pytest.skip(str(missing))
    return ObserveCuda(build_emulated_runtime(target_builder, cuda_version(python)), output, python)

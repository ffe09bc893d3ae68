"""Fixtures of the tests on the virtual NPU: its environment, programs for it, and observing them."""

from __future__ import annotations

import functools
import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import pytest

from tests.support import tool, warm
from tests.support.ascend import PROGRAMS, NotInstalledError, Observation, virtual_npu_environment
from tests.support.nightly import NIGHT
from tests.support.warm_process import WarmPython

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

C_FLAGS = ("-Wall", "-Wextra", "-Werror", "-g", "-O1", "-pthread")


class Observe(Protocol):
    """Runs a program on the virtual NPU under the tool."""

    def __call__(
        self,
        options: Sequence[str],
        program: object,
        *arguments: object,
        variables: Mapping[str, str] | None = None,
        expected_status: int = 0,
        timeout_s: float = tool.TIMEOUT_S,
        anew: bool = False,
        log_alone: bool = False,
    ) -> Observation:
        """Run it and return its rows.

        By day a Python program that uses torch_npu is forked from a process under the tool that has imported it.

        Args:
            options: Options of the tool: `--events=alloc`.
            program: An executable, or the name of a Python file in the folder programs: `training.py`.
            arguments: Arguments of the program.
            variables: Changes of the environment.
            expected_status: The exit status that the program must have.
            timeout_s: Seconds after which the test fails.
            anew: Whether it starts anew by day too. Tests of loading need this, and tests of the launcher's report.
            log_alone: Whether the test looks at the event log alone. Then no results are made of it by day.
        """
        ...


class RunAlone(Protocol):
    """Runs a Python program that uses torch_npu on the virtual NPU, without the tool."""

    def __call__(
        self, program: str, *arguments: object, folder: Path, variables: Mapping[str, str] | None = None
    ) -> tool.ToolRun:
        """Run it, by day in a process forked from one that has imported torch_npu.

        Args:
            program: The name of a Python file in the folder programs: `training.py`.
            arguments: Arguments of the program.
            folder: The current directory of the program.
            variables: Changes of the environment. Only variables that are read late have an effect.
        """
        ...


class CompileC(Protocol):
    """Compiles a C or C++ program against the emulated libraries."""

    def __call__(self, source: str, *libraries: str, flags: Sequence[str] = ()) -> Path:
        """Compile it and return the executable.

        Args:
            source: The name of a file in the folder programs (`pools.c`, `atb.cpp`), or the text of a C program.
            libraries: The libraries to link with, by the names behind `-l`. The default is the runtime and the driver.
            flags: Further flags, after the libraries.
        """
        ...


def _environment(*, with_torch: bool) -> dict[str, str]:
    try:
        return virtual_npu_environment(with_torch=with_torch)
    except NotInstalledError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def vnpu_environment() -> dict[str, str]:
    """Variables with which a program runs torch_npu on the virtual NPU."""
    return _environment(with_torch=True)


@pytest.fixture(scope="session")
def cann_environment() -> dict[str, str]:
    """Variables with which a program without torch runs on the virtual NPU."""
    return _environment(with_torch=False)


@pytest.fixture(scope="session")
def compile_c(cann_environment: dict[str, str], request: pytest.FixtureRequest) -> CompileC:
    """Compile programs for the virtual NPU, each once per content of its source."""
    assert request.config.cache is not None
    cache = request.config.cache.mkdir("ascend_programs")
    libraries_folder = Path(cann_environment["ASCEND_HOME_PATH"]) / "lib64"

    def compile_program(source: str, *libraries: str, flags: Sequence[str] = ()) -> Path:
        path = PROGRAMS / source if "\n" not in source else None
        text = path.read_text() if path is not None else source
        is_cpp = path is not None and path.suffix == ".cpp"
        name = path.stem if path is not None else "program"
        compiler = ["g++", "-std=c++17"] if is_cpp else ["gcc", "-std=gnu11"]
        linked = [f"-l{library}" for library in libraries or ("ascendcl", "ascend_hal")]
        command = [
            *compiler, *C_FLAGS, f"-I{PROGRAMS}", "-x", "c++" if is_cpp else "c", "-", "-x", "none", "-rdynamic",
            f"-L{libraries_folder}", "-Wl,--no-as-needed", *linked, "-ldl", f"-Wl,-rpath-link,{libraries_folder}", *flags,
        ]  # fmt: skip
        headers = "".join(header.read_text() for header in sorted(PROGRAMS.glob("*.h")))
        digest = hashlib.sha256(repr((command, text, headers)).encode()).hexdigest()[:20]
        target = cache / digest / name
        if not target.exists():
            with tempfile.TemporaryDirectory(dir=cache) as scratch:
                made = Path(scratch) / name
                run = subprocess.run(
                    [*command, "-o", str(made)], input=text, capture_output=True, text=True, check=False
                )
                assert run.returncode == 0, f"{source} does not compile:\n{run.stderr}"
                target.parent.mkdir(exist_ok=True)
                made.replace(target)  # another worker may have been faster: the same program
        return target

    if shutil.which("gcc") is None or shutil.which("g++") is None:
        pytest.skip("no gcc and g++ on PATH")
    return compile_program


WITH_TORCH_NPU: Final = ("torch", "torch_npu", "torch._dynamo")
"""The last is what torch loads when an optimizer is made, which takes a third as long as all else."""
_READ_LATE: Final = (
    "VNPU_", "PYTORCH_NPU_ALLOC_CONF", "TASK_QUEUE_ENABLE", "ASCEND_RT_VISIBLE_DEVICES", "OWNER_TRUTHS_DEVICE",
)  # fmt: skip
"""First parts of variables' names. The emulated runtime and torch_npu read them when a device is first used, and
programs of tests when they begin. Imports may read all others."""
_READ_BY_THE_LAUNCHER: Final = ("TASK_QUEUE_ENABLE", "0")
"""A variable and a value. If the variable has that value, the launcher prints a message when the program has ended."""


def _observe(output: Path, environment: Mapping[str, str], *, with_torch: bool = True) -> Observe:
    def run(
        options: Sequence[str],
        program: object,
        *arguments: object,
        variables: Mapping[str, str] | None = None,
        expected_status: int = 0,
        timeout_s: float = tool.TIMEOUT_S,
        anew: bool = False,
        log_alone: bool = False,
    ) -> Observation:
        named = PROGRAMS / str(program)
        is_python = isinstance(program, str) and program.endswith(".py")
        command = [sys.executable, named if named.exists() else program] if is_python else [program]
        changes = dict(variables or {})
        if is_python and with_torch and not (NIGHT or anew):
            late = {
                name: changes.pop(name)
                for name, text in list(changes.items())
                if name.startswith(_READ_LATE) and (name, text) != _READ_BY_THE_LAUNCHER
            }
            finished = warm.run_with_results(
                [*command[1:], *arguments],
                options,
                output=output,
                variables={**environment, **changes},
                modules=WITH_TORCH_NPU,
                changes=late,
                timeout_s=timeout_s,
                log_alone=log_alone,
            )
            assert finished.returncode == expected_status, f"{finished.stdout}\n{finished.stderr}"
            return Observation(finished)
        line = [*tool.TOOL, f"--output={output}", *options, "--", *command, *arguments]
        # torch_npu leaves a file in the current directory when memory runs out.
        finished = tool.run(
            line,
            output=output,
            variables={**environment, **(variables or {})},
            timeout_s=timeout_s,
            folder=output.parent,
        )
        assert finished.returncode == expected_status, f"{finished.stdout}\n{finished.stderr}"
        return Observation(finished)

    return run


@pytest.fixture
def observe(output: Path, vnpu_environment: dict[str, str]) -> Observe:
    """Run a program that uses torch_npu under the tool, with results in a folder of its own."""
    return _observe(output, vnpu_environment)


@pytest.fixture(scope="module")
def observe_once(tmp_path_factory: pytest.TempPathFactory, vnpu_environment: dict[str, str]) -> Observe:
    """The same, once for all tests of a module that ask for the same run."""
    seen: dict[str, Observation] = {}

    def run(
        options: Sequence[str],
        program: object,
        *arguments: object,
        variables: Mapping[str, str] | None = None,
        expected_status: int = 0,
        timeout_s: float = tool.TIMEOUT_S,
        anew: bool = False,
        log_alone: bool = False,
    ) -> Observation:
        key = repr((list(options), program, arguments, variables, expected_status, anew, log_alone))
        if key not in seen:
            seen[key] = _observe(tmp_path_factory.mktemp("once") / "output", vnpu_environment)(
                options,
                program,
                *arguments,
                variables=variables,
                expected_status=expected_status,
                timeout_s=timeout_s,
                anew=anew,
                log_alone=log_alone,
            )
        return seen[key]

    return run


@functools.cache
def _warm_python(variables: tuple[tuple[str, str], ...]) -> WarmPython:
    return WarmPython(WITH_TORCH_NPU, variables=dict(variables))


@pytest.fixture(scope="session")
def run_alone(vnpu_environment: dict[str, str]) -> RunAlone:
    """Run a program that uses torch_npu without the tool."""

    def run(program: str, *arguments: object, folder: Path, variables: Mapping[str, str] | None = None) -> tool.ToolRun:
        words = [PROGRAMS / program, *arguments]
        changes = variables or {}
        if NIGHT:
            return tool.run(
                [sys.executable, *words], output=folder, variables={**vnpu_environment, **changes}, folder=folder
            )
        assert all(name.startswith(_READ_LATE) for name in changes), changes
        server = _warm_python(tuple(sorted(vnpu_environment.items())))
        return tool.warm_run(server, words, None, output=folder, folder=folder, changes=changes)

    return run


@pytest.fixture
def observe_c(output: Path, cann_environment: dict[str, str]) -> Observe:
    """Run a program without torch under the tool, with results in a folder of its own."""
    return _observe(output, cann_environment, with_torch=False)

"""Programs that run on the virtual NPU, in processes of their own.

By day most are forked from a process that has imported torch and torch_npu, which takes longer than what they do. At night,
and where variables are given that may be read when they are imported, each starts anew.
"""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.support.warm_process import WarmPython
from virtual_npu.command_line import parse_arguments
from virtual_npu.configuration import Configuration
from virtual_npu.environment import environment_variables

TARGET_PROGRAMS = Path(__file__).parent / "target_programs"
REPOSITORY = Path(__file__).parents[2]
NIGHT: Final = bool(os.environ.get("VNPU_NIGHTLY"))
nightly = pytest.mark.skipif(not NIGHT, reason="run at night, a variant of what runs by day")
"""Marks a case for the night. Another case shows the same by day. `make test-nightly` sets the variable."""
MARGIN_S = 240  # no program here needs more than some seconds; this is for a busy machine


def clean_environment() -> dict[str, str]:
    """The environment of this process without what activating the virtual NPU added to it."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("VNPU_", "ASCEND_")) or name in {"VNPU_CACHE", "VNPU_KERNELS"}
    }
    libraries = [part for part in kept.pop("LD_LIBRARY_PATH", "").split(":") if part and "cann" not in part]
    return kept | ({"LD_LIBRARY_PATH": ":".join(libraries)} if libraries else {})


def run_program(
    program: str | Path,
    *arguments: str,
    options: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    limit_s: float = MARGIN_S,
    anew: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run ``vnpu run OPTIONS -- python PROGRAM ARGUMENTS`` and return how it ended.

    Args:
        program: A file of the target programs, or a path.
        arguments: The program's arguments.
        options: Options of ``vnpu run``.
        environment: Variables added to the program's environment.
        limit_s: How long it may run at most, in seconds.
        anew: Start a Python for it by day too.
    """
    if not NIGHT and not anew and not _matters_to_imports(options, environment or {}):
        return run_forked(program, *arguments, options=options, variables=environment, limit_s=limit_s)
    command = [
        sys.executable, "-m", "virtual_npu", "run", *options, "--",
        sys.executable, *([program] if program == "-c" else [str(TARGET_PROGRAMS / program)]), *arguments,
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:  # torch_npu writes reports where it runs
        return subprocess.run(
            command,
            env=clean_environment() | dict(environment or {}),
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )


_READ_BY_IMPORTS: Final = ("--cann", "--driver", "--despite-cann")
"""Options of ``vnpu run`` that torch_npu learns of when it is imported. The others matter when a device is first used."""


READ_LATER: Final = frozenset(
    {"ASCEND_LAUNCH_BLOCKING", "HCCL_BUFFSIZE", "PYTORCH_NPU_ALLOC_CONF", "TASK_QUEUE_ENABLE"}
)
"""Variables that torch_npu and the runtime do not read before a device is first used."""


def _matters_to_imports(options: Sequence[str], environment: Mapping[str, str]) -> bool:
    return any(option.startswith(_READ_BY_IMPORTS) for option in options) or not READ_LATER.issuperset(environment)


@functools.cache
def _python_with_torch(number: int) -> WarmPython:
    """A Python that has imported torch and torch_npu on the virtual NPU; it runs one program at a time."""
    assert number >= 0
    # The last one is what every optimizer imports when it is made, in a second or two.
    return WarmPython(("torch", "torch_npu", "torch._dynamo"), variables=_variables(()))


def _variables(options: Sequence[str]) -> dict[str, str]:
    """The environment in which ``vnpu run`` with these options starts a program."""
    clean = clean_environment()
    chosen = Configuration.choose(vars(parse_arguments(["run", *options])), clean, lambda name: f"--{name}")
    return clean | environment_variables(chosen, clean)


def run_forked(
    program: str | Path,
    *arguments: str,
    options: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    limit_s: float = MARGIN_S,
    number: int = 0,
) -> subprocess.CompletedProcess[str]:
    """Run a program in a process that is forked from one that has imported torch and torch_npu.

    Args:
        program: The program, as for `run_program`. This holds for the arguments and the options too.
        arguments: The program's arguments.
        options: Options of ``vnpu run``.
        variables: Variables added to the program's environment. No import reads them.
        limit_s: How long it may run at most, in seconds.
        number: The process that it is forked from. Programs that run at the same time each need another one.

    Raises:
        subprocess.TimeoutExpired: If it has not ended then.
    """
    words = ["-c", *arguments] if program == "-c" else [str(TARGET_PROGRAMS / program), *arguments]
    with tempfile.TemporaryDirectory() as folder:
        whole = _variables(options) | dict(variables or {})
        ended = _python_with_torch(number).run(words, whole, Path(folder), limit_s)
    if ended.status == -signal.SIGALRM:
        raise subprocess.TimeoutExpired(words, limit_s, ended.stdout, ended.stderr)
    return subprocess.CompletedProcess(words, ended.status, ended.stdout, ended.stderr)


def run_good(
    program: str | Path,
    *arguments: str,
    options: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a program that has to end well, and return what it printed."""
    ended = run_program(program, *arguments, options=options, environment=environment)
    assert ended.returncode == 0, f"status {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout

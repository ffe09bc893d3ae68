"""Programs that run on the virtual NPU, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

TARGET_PROGRAMS = Path(__file__).parent / "target_programs"
REPOSITORY = Path(__file__).parents[2]
nightly = pytest.mark.skipif(not os.environ.get("VNPU_NIGHTLY"), reason="run at night, a variant of what runs by day")
"""For a case of which another one shows the same by day; the variable is set by `make test-nightly`."""
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
) -> subprocess.CompletedProcess[str]:
    """Run ``vnpu run OPTIONS -- python PROGRAM ARGUMENTS`` and return how it ended.

    Args:
        program: A file of the target programs, or a path.
        arguments: The program's arguments.
        options: Options of ``vnpu run``.
        environment: Variables added to the program's environment.
        limit_s: How long it may run at most, in seconds.
    """
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

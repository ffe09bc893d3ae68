"""Runs the tool on an input with little memory and little time, so that what explodes or hangs fails a test."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.support.nightly import NIGHT
from tests.support.warm_process import WarmPython

if TYPE_CHECKING:
    from collections.abc import Sequence

MEMORY_BYTES: Final = 3 << 30
"""Address space: libraries and threads alone take a third of it."""
PROCESSOR_SECONDS: Final = 60
_MODULES: Final = ("msmemscope.cli.main", "msmemscope.launch.captures", "msmemscope.questions")
"""Modules that the tool imports in nearly every run: the import takes longer than most inputs."""
_LIMITED_TOOL: Final = """
import resource, runpy, sys
memory_bytes, processor_seconds = map(int, sys.argv[1:3])
resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
resource.setrlimit(resource.RLIMIT_CPU, (processor_seconds, processor_seconds))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
sys.argv = ["msmemscope", *sys.argv[3:]]
runpy.run_module("msmemscope", run_name="__main__", alter_sys=True)
"""


def run_limited(
    arguments: Sequence[object], *, memory_bytes: int = MEMORY_BYTES, processor_seconds: int = PROCESSOR_SECONDS
) -> subprocess.CompletedProcess[str]:
    """Runs `msmemscope` in a process of its own, by day one that is forked from a process that has imported it.

    Args:
        arguments: Arguments of the command.
        memory_bytes: The address space that it may take.
        processor_seconds: The time that it may take on all processors together. After that a signal ends it.
    """
    words = ["-c", _LIMITED_TOOL, str(memory_bytes), str(processor_seconds), *map(str, arguments)]
    variables = {**os.environ, "POLARS_MAX_THREADS": "2"}
    timeout_s = 10 * processor_seconds
    if NIGHT:
        command = [sys.executable, *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout_s, env=variables)
    ended = _warm_tool().run(words, variables, Path.cwd(), limit_s=timeout_s)
    return subprocess.CompletedProcess(words, ended.status, ended.stdout, ended.stderr)


@functools.cache
def _warm_tool() -> WarmPython:
    return WarmPython(_MODULES)

"""Runs the tool on an input with little memory and little time, so that what explodes or hangs fails a test."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

MEMORY_BYTES: Final = 3 << 30
"""Address space: libraries and threads alone take a third of it."""
PROCESSOR_SECONDS: Final = 60


def run_limited(
    arguments: Sequence[object], *, memory_bytes: int = MEMORY_BYTES, processor_seconds: int = PROCESSOR_SECONDS
) -> subprocess.CompletedProcess[str]:
    """Runs `msmemscope` in a process of its own.

    Args:
        arguments: Its arguments.
        memory_bytes: Address space that it may take.
        processor_seconds: Time that it may take on all processors together; a signal ends it then.
    """

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
        resource.setrlimit(resource.RLIMIT_CPU, (processor_seconds, processor_seconds))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    return subprocess.run(
        [sys.executable, "-m", "msmemscope", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=10 * processor_seconds,
        env={**os.environ, "POLARS_MAX_THREADS": "2"},
        preexec_fn=limit,
    )

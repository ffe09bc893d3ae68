"""Runs commands under the tool and opens what they left behind."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from tests.support.targets import environment, parse_report

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from msmemscope.formats.event_log import Capture

TOOL = (sys.executable, "-m", "msmemscope")
TIMEOUT_S = 180.0


@dataclass(frozen=True)
class ToolRun:
    """One finished command, observed or not."""

    command: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str
    wall_s: float
    output: Path
    """The output root that was asked for; it need not exist."""
    reports: list[dict[str, str]] = field(default_factory=list)
    """The lines of key=value pairs on stdout."""
    process_id: int = 0
    """Of the one process that is meant, where the command ran several programs; 0 for all."""

    @cached_property
    def captures(self) -> list[Capture]:
        """The captures below the output root, in the order of their start."""
        from msmemscope.formats.event_log import Capture

        found = [Capture(path) for path in sorted(self.output.glob("msmemscope_*_ascend*"))]
        chosen = [each for each in found if self.process_id in {0, each.header.process_id}]
        return sorted(chosen, key=lambda capture: capture.header.start_ns)

    @property
    def capture(self) -> Capture:
        """The only capture."""
        assert len(self.captures) == 1, f"{len(self.captures)} captures, expected one\n{self.stderr}"
        return self.captures[0]

    @property
    def report(self) -> dict[str, str]:
        """The only report."""
        assert len(self.reports) == 1, f"expected one report line, got: {self.stdout}"
        return self.reports[0]

    def captures_of(self, process_id: int | str) -> list[Capture]:
        """The captures of one process."""
        return [capture for capture in self.captures if capture.header.process_id == int(process_id)]


def run(
    command: Sequence[object],
    *,
    output: Path,
    stdin: str = "",
    variables: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
    folder: Path | None = None,
) -> ToolRun:
    """Run a command as it is.

    Args:
        command: The command line.
        output: Where captures are expected.
        stdin: What the command reads.
        variables: Changes of the environment.
        timeout_s: Seconds after which the test fails.
        folder: The current directory of the command; that of the tests if not given.
    """
    words = tuple(str(word) for word in command)
    start = time.perf_counter()
    try:
        finished = subprocess.run(
            words,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
            env=environment(**(variables or {})),
            cwd=folder,
        )
    except subprocess.TimeoutExpired as expired:
        message = f"{words} did not end within {timeout_s} s\nstdout: {expired.stdout!r}\nstderr: {expired.stderr!r}"
        raise AssertionError(message) from expired
    return ToolRun(
        command=words,
        returncode=finished.returncode,
        stdout=finished.stdout,
        stderr=finished.stderr,
        wall_s=time.perf_counter() - start,
        output=output,
        reports=parse_report(finished.stdout),
    )

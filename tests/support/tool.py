"""Runs commands under the tool and opens what they left behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.support.nightly import NIGHT
from tests.support.targets import environment, parse_report
from tests.support.warm_process import WarmPython

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from msmemscope.formats.event_log import Capture

TOOL = (sys.executable, "-m", "msmemscope")
TIMEOUT_S = 180.0

_MODULES: Final = ("msmemscope.cli.main", "msmemscope.launch.captures", "msmemscope.questions")
"""Modules that the tool imports in nearly every run. For most programs of tests the import takes longer than all else
that the tool does."""
_READ_AT_THE_START: Final = ("PYTHON", "LD_PRELOAD", "LC_", "LANG", "TZ")
"""Variables that Python or the loader reads before the tool runs. PYTHONPATH is none of them: a forked process heeds it
too."""


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
    """Run a command as it is; by day the tool itself is forked from a process that has imported it.

    Args:
        command: The command line.
        output: Where captures are expected.
        stdin: The text that the command reads.
        variables: Changes of the environment.
        timeout_s: Seconds after which the test fails.
        folder: The current directory of the command. The default is that of the tests.
    """
    words = tuple(str(word) for word in command)
    if words[: len(TOOL)] == TOOL and not (NIGHT or stdin or _are_read_at_the_start(variables or {})):
        whole = environment(**(variables or {}))
        return warm_run(_warm_tool(), words[1:], whole, output=output, folder=folder, timeout_s=timeout_s)
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
    return _finished(words, finished.returncode, finished.stdout, finished.stderr, start, output)


def warm_run(
    server: WarmPython,
    words: Sequence[object],
    variables: Mapping[str, str] | None,
    *,
    output: Path,
    folder: Path | None = None,
    timeout_s: float = TIMEOUT_S,
    only_this_process: bool = False,
    changes: Mapping[str, str] | None = None,
    settings: str = "",
) -> ToolRun:
    """Run `python WORDS` in a process that is forked from a running one.

    Args:
        server: The running Python.
        words: The words after `python`.
        variables: The whole environment. The default is that of the running Python.
        output: Where captures are expected.
        folder: The current directory of the command. The default is that of the tests.
        timeout_s: Seconds after which the test fails.
        only_this_process: Whether only the captures of the forked process itself are meant.
        changes: Changes of the environment.
        settings: The settings of observation, if the running Python is under the tool and collects nothing.
    """
    start = time.perf_counter()
    ended = server.run([str(word) for word in words], variables, folder, timeout_s, changes, settings)
    command = (sys.executable, *map(str, words))
    assert ended.status != -signal.SIGALRM, (
        f"{command} did not end within {timeout_s} s\nstdout: {ended.stdout!r}\nstderr: {ended.stderr!r}"
    )
    run = _finished(command, ended.status, ended.stdout, ended.stderr, start, output)
    return replace(run, process_id=ended.process_id) if only_this_process else run


def _finished(command: tuple[str, ...], status: int, stdout: str, stderr: str, start: float, output: Path) -> ToolRun:
    return ToolRun(
        command=command,
        returncode=status,
        stdout=stdout,
        stderr=stderr,
        wall_s=time.perf_counter() - start,
        output=output,
        reports=parse_report(stdout),
    )


@cache
def _warm_tool() -> WarmPython:
    return WarmPython(_MODULES)


def _are_read_at_the_start(variables: Mapping[str, str]) -> bool:
    return any(name.startswith(_READ_AT_THE_START) and name != "PYTHONPATH" for name in variables)

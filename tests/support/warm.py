"""Python programs in processes that are forked after torch was imported, which takes longer than most programs of tests.

For programs of which nothing depends on how torch was loaded: alone, or under the launcher if what is asked for stands in the
event log. What is about dumps, the summary or loading starts anew. `make test-nightly` starts every program anew.
"""

from __future__ import annotations

import atexit
import functools
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from tests.support import tool
from tests.support.nightly import NIGHT
from tests.support.targets import SOURCES, environment, parse_report

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.support.tool import ToolRun

WITH_TORCH: Final = ("torch", "torch._dynamo")
"""The second is what torch loads when a first operator is dispatched, or an optimizer made."""


def run_python(
    words: Sequence[object],
    *,
    output: Path,
    variables: Mapping[str, str],
    modules: tuple[str, ...] = WITH_TORCH,
    folder: Path | None = None,
) -> ToolRun:
    """Run `python WORDS`, by day in a process forked from one that has imported modules.

    Args:
        words: `-c CODE`, `-m MODULE` or a file, and arguments.
        output: Where captures are expected.
        variables: Changes of the environment.
        modules: What is imported before; msmemscope is not.
        folder: The current directory of the program; that of the tests if not given.
    """
    if NIGHT:
        return tool.run([sys.executable, *words], output=output, variables=variables, folder=folder)
    changed = environment(**variables)
    # What modules read when they are imported must be there before.
    early = {name: value for name, value in changed.items() if name.startswith(("PYTHON", "HF_"))}
    return _server(modules, tuple(sorted(early.items()))).run([str(word) for word in words], output, changed, folder)


def run_observed(words: Sequence[object], *options: str, output: Path) -> ToolRun:
    """Run `python WORDS` under the tool, by day in a process forked from one under the tool that has imported torch.

    Only captures of the program itself are there, without dumps, and messages of the program alone.

    Args:
        words: `-c CODE`, `-m MODULE` or a file, and arguments.
        options: Of the tool, but for the device and the output.
        output: Where captures are expected if the program starts anew.
    """
    if NIGHT:
        line = (*tool.TOOL, "--device=cpu", f"--output={output}", *options, "--", sys.executable, *words)
        return tool.run(line, output=output)
    return _observing_server(options).run([str(word) for word in words], None, environment(), None)


@functools.cache
def _server(modules: tuple[str, ...], variables: tuple[tuple[str, str], ...]) -> _Server:
    return _Server((), modules, dict(variables), None)


@functools.cache
def _observing_server(options: tuple[str, ...]) -> _Server:
    output = Path(tempfile.mkdtemp()) / "output"
    atexit.register(shutil.rmtree, output.parent, ignore_errors=True)
    return _Server((*tool.TOOL, "--device=cpu", f"--output={output}", *options, "--"), WITH_TORCH, {}, output)


class _Server:
    """A running Python that forks; it ends with the tests."""

    def __init__(
        self, before: Sequence[str], modules: Sequence[str], variables: Mapping[str, str], output: Path | None
    ) -> None:
        self._output = output
        self._process = subprocess.Popen(
            [*before, sys.executable, str(SOURCES / "warm_python.py"), *modules],
            env=environment(**variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        atexit.register(self._end)

    def run(self, words: list[str], output: Path | None, variables: Mapping[str, str], folder: Path | None) -> ToolRun:
        """Run a program and wait for its end, or that of the test's time."""
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as scratch:
            files = {name: Path(scratch) / name for name in ("stdout", "stderr")}
            program = {
                "words": words,
                "folder": str(folder or Path.cwd()),
                "environment": dict(variables) if self._output is None else {},
                **{name: str(path) for name, path in files.items()},
            }
            self._pipe(self._process.stdin).write(json.dumps(program) + "\n")
            self._pipe(self._process.stdin).flush()
            answer = self._pipe(self._process.stdout).readline()
            assert answer, "the Python that forks has ended"
            process_id, status = json.loads(answer)
            stdout, stderr = (path.read_text(encoding="utf-8", errors="replace") for path in files.values())
        return tool.ToolRun(
            command=(sys.executable, *words),
            returncode=status,
            stdout=stdout,
            stderr=stderr,
            wall_s=time.perf_counter() - start,
            output=output or self._output or Path(),
            process_id=0 if output else process_id,
            reports=parse_report(stdout),
        )

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe

    def _end(self) -> None:
        self._process.kill()
        self._process.communicate()

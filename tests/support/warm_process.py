"""A running Python that has imported modules, and forks a process for each program that it is given.

It runs tests/target_programs/warm_python.py.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import weakref
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from tests.support.targets import SOURCES, environment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Ended(NamedTuple):
    """The outcome of a program."""

    process_id: int
    status: int
    """As `subprocess` has it: the number of a signal is negative."""
    stdout: str
    stderr: str


class WarmPython:
    """The running Python; it ends with the tests, or when nothing refers to this any more."""

    def __init__(
        self,
        modules: Sequence[str],
        *,
        variables: Mapping[str, str] | None = None,
        before: Sequence[str] = (),
        stderr: Path | None = None,
    ) -> None:
        """Start it.

        Args:
            modules: The modules that it imports.
            variables: Changes of the environment that modules read when they are imported.
            before: Words of the command line before `python`.
            stderr: The file that is stderr of this Python and of all programs. It is for observed programs, which end
                as Python does. If not given, each program has a file of its own, and ends without taking its modules
                apart.
        """
        self._one_at_a_time = threading.Lock()
        self._stderr = stderr
        with contextlib.ExitStack() as files:
            self._process = subprocess.Popen(
                [*before, sys.executable, str(SOURCES / "warm_python.py"), *modules],
                env=environment(**(variables or {})),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None if stderr is None else files.enter_context(stderr.open("a")),
                text=True,
            )
        weakref.finalize(self, _end, self._process)

    def run(
        self,
        words: Sequence[str],
        variables: Mapping[str, str] | None,
        folder: Path | None,
        limit_s: float,
        changes: Mapping[str, str] | None = None,
        settings: str = "",
    ) -> Ended:
        """Run a program and wait for its end.

        Args:
            words: The words after `python`: `-c CODE`, `-m MODULE` or a file, and arguments.
            variables: The whole environment of the program. The default is that of the running Python.
            folder: The current directory of the program. The default is that of the tests.
            limit_s: Seconds after which SIGALRM ends it.
            changes: Changes of that environment.
            settings: The settings of observation, if the running Python is under the tool and collects nothing.
        """
        with self._one_at_a_time, tempfile.TemporaryDirectory() as scratch:
            files = {name: Path(scratch) / name for name in ("stdout", "stderr")}
            begin = 0
            if self._stderr is not None:
                files["stderr"] = self._stderr
                begin = self._stderr.stat().st_size
            program = {
                "words": words,
                "folder": str(folder or Path.cwd()),
                "environment": dict(variables or {}),
                "changes": dict(changes or {}),
                "settings": settings,
                "ends_wholly": self._stderr is not None,
                "limit_s": limit_s,
                "stdout": str(files["stdout"]),
                "stderr": None if self._stderr is not None else str(files["stderr"]),
            }
            _pipe(self._process.stdin).write(json.dumps(program) + "\n")
            _pipe(self._process.stdin).flush()
            answer = _pipe(self._process.stdout).readline()
            assert answer, "the Python that forks has ended"
            process_id, status = json.loads(answer)
            stdout, stderr = (path.read_bytes() for path in files.values())
        return Ended(process_id, status, stdout.decode(errors="replace"), stderr[begin:].decode(errors="replace"))


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe

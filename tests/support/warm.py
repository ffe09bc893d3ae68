"""Python programs in processes that are forked after torch was imported, which takes longer than most programs of tests.

For programs of which nothing depends on how torch was loaded: alone, or under the launcher if what is asked for stands in the
event log. What is about dumps, the summary or loading starts anew. `make test-nightly` starts every program anew.
"""

from __future__ import annotations

import atexit
import functools
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.support import tool
from tests.support.nightly import NIGHT
from tests.support.targets import environment
from tests.support.warm_process import WarmPython

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
    server = _server(modules, tuple(sorted(early.items())))
    return tool.warm_run(server, words, changed, output=output, folder=folder)


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
    server, folder = _observing_server(options)
    return tool.warm_run(server, words, None, output=folder, only_this_process=True)


@functools.cache
def _server(modules: tuple[str, ...], variables: tuple[tuple[str, str], ...]) -> WarmPython:
    return WarmPython(modules, variables=dict(variables))


@functools.cache
def _observing_server(options: tuple[str, ...]) -> tuple[WarmPython, Path]:
    output = Path(tempfile.mkdtemp()) / "output"
    atexit.register(shutil.rmtree, output.parent, ignore_errors=True)
    before = (*tool.TOOL, "--device=cpu", f"--output={output}", *options, "--")
    return WarmPython(WITH_TORCH, before=before), output

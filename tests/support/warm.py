"""Python programs in processes that are forked after torch was imported, which takes longer than most programs of tests.

This is for programs that do not depend on how torch was loaded. They run alone, or under the launcher if the event log
has the answer. Tests of dumps, the summary or loading start anew. `make test-nightly` starts every program anew.
"""

from __future__ import annotations

import atexit
import functools
import shutil
import sys
import tempfile
from dataclasses import replace
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
        modules: The modules that are imported before. msmemscope is none of them.
        folder: The current directory of the program. The default is that of the tests.
    """
    if NIGHT:
        return tool.run([sys.executable, *words], output=output, variables=variables, folder=folder)
    changed = environment(**variables)
    # Variables that modules read when they are imported must be there before.
    early = {name: value for name, value in changed.items() if name.startswith(("PYTHON", "HF_"))}
    server = _server(modules, tuple(sorted(early.items())))
    return tool.warm_run(server, words, changed, output=output, folder=folder)


def run_observed(words: Sequence[object], *options: str, output: Path) -> ToolRun:
    """Run `python WORDS` under the tool, by day in a process forked from one that has imported torch.

    There are only captures of the program itself, without dumps, and messages of the program alone.

    Args:
        words: `-c CODE`, `-m MODULE` or a file, and arguments.
        options: Options of the tool, except the device and the output.
        output: Where captures are expected.
    """
    if NIGHT:
        line = (*tool.TOOL, "--device=cpu", f"--output={output}", *options, "--", sys.executable, *words)
        return tool.run(line, output=output)
    output.mkdir(exist_ok=True)
    settings = _settings(("--device=cpu", *options), output)
    return tool.warm_run(
        _observed_server(WITH_TORCH, ()), words, None, output=output, only_this_process=True, settings=settings
    )


def run_with_results(
    words: Sequence[object],
    options: Sequence[str],
    *,
    output: Path,
    variables: Mapping[str, str],
    modules: tuple[str, ...],
    changes: Mapping[str, str],
    timeout_s: float,
    log_alone: bool = False,
) -> ToolRun:
    """Run `python WORDS` in a process forked from one under the tool, and then have the results made, as they are at an exit.

    Messages of the launcher at the start are left out.

    Args:
        words: A file and arguments.
        options: Options of the tool, except the output.
        output: Where the results go. The program runs in the folder above.
        variables: Changes of the environment that the tool and the modules see.
        modules: The modules that are imported before.
        changes: Changes of the environment that the program alone sees.
        timeout_s: Seconds after which the test fails.
        log_alone: Whether the test looks at the event log alone. Then no results are made of it.
    """
    server = _observed_server(modules, tuple(sorted(variables.items())))
    output.mkdir(exist_ok=True)
    ran = tool.warm_run(
        server,
        words,
        None,
        output=output,
        folder=output.parent,
        timeout_s=timeout_s,
        changes=changes,
        settings=_settings(("--device=npu" if "torch_npu" in modules else "--device=cpu", *options), output),
    )
    if log_alone or not any(output.glob("msmemscope_*_ascend*")):
        return ran
    results = tool.run([*tool.TOOL, "recover", output], output=output, variables=variables)
    assert results.returncode == 0, results.stderr
    return replace(ran, stderr=ran.stderr + results.stderr)


def run_observed_with_results(
    words: Sequence[object],
    *options: str,
    output: Path,
    modules: tuple[str, ...] = WITH_TORCH,
) -> ToolRun:
    """Run `python WORDS` under the tool, by day in a process forked from one that has imported torch.

    Unlike with `run_observed`, dumps, reports and the summary are there, too. By day the launcher's messages at the
    start are not there.

    Args:
        words: `-c CODE`, `-m MODULE` or a file, and arguments.
        options: Options of the tool, except the device and the output.
        output: Where captures are expected.
        modules: The modules that are imported before.
    """
    if NIGHT:
        line = (*tool.TOOL, "--device=cpu", f"--output={output}", *options, "--", sys.executable, *words)
        return tool.run(line, output=output)
    return run_with_results(
        words, options, output=output, variables={}, modules=modules, changes={}, timeout_s=tool.TIMEOUT_S
    )


def _settings(options: Sequence[str], output: Path) -> str:
    """The settings that the launcher would pass on to programs that it starts with these options."""
    from msmemscope.cli.arguments import LaunchRequest, parse_command_line
    from msmemscope.configuration import Config, new_session, with_options

    request = parse_command_line([f"--output={output}", *options, "--", "python"])
    assert isinstance(request, LaunchRequest), options
    return with_options(Config(session=new_session()), request.given).to_settings_text()


@functools.cache
def _server(modules: tuple[str, ...], variables: tuple[tuple[str, str], ...]) -> WarmPython:
    return WarmPython(modules, variables=dict(variables))


@functools.lru_cache(maxsize=6)  # each takes half a gigabyte
def _observed_server(modules: tuple[str, ...], variables: tuple[tuple[str, str], ...]) -> WarmPython:
    """One under the tool that collects nothing itself: each program that is forked from it has settings of its own."""
    output = Path(tempfile.mkdtemp()) / "output"
    atexit.register(shutil.rmtree, output.parent, ignore_errors=True)
    before = (*tool.TOOL, f"--output={output}", "--collect-mode=deferred", "--device=npu,cpu", "--")
    # One file for all: where stderr is not what it was when the process began, the tool writes nothing.
    stderr = output.with_name("stderr.txt")
    return WarmPython(modules, variables=dict(variables), before=before, stderr=stderr)

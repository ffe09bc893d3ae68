"""Whoever asks about what was not recorded is told so, with the true reason: never that nothing was found."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

import msmemscope
from msmemscope.cli.main import main
from tests.support import tool
from tests.support.nightly import nightly

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.targets import Builder

NONE_FOUND = ("No leaks", "No inefficient", "No growth", "No allocation failed", "No memory leaks", "Memory changes")


@pytest.fixture(scope="module")
def steps_under_tool(
    python_target: Callable[..., list[str | Path]],
    target_builder: Builder,
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[..., tool.ToolRun]:
    """Run five steps that leak, with options of the tool: once for all tests that ask for the same options."""

    @functools.cache
    def run(*options: str) -> tool.ToolRun:
        output = tmp_path_factory.mktemp("steps") / "output"
        command = python_target("leaky_steps", str(target_builder.library()), "5")
        return tool.run([*tool.TOOL, "--device=cpu", f"--output={output}", *options, "--", *command], output=output)

    return run


def analyzed(path: Path, kind: str, *options: str) -> tuple[int, str, dict[str, Any]]:
    """The exit status and the text of `analyze`, and its JSON for the one process."""
    status, text = asked(["analyze", kind, str(path), *options])
    _, data = asked(["analyze", kind, str(path), *options, "--json"])
    (process,) = json.loads(data)["processes"]
    return status, " ".join(text.split()), process


def asked(arguments: list[str]) -> tuple[int, str]:
    """The exit status and the output of a command, which is run in this process."""
    with contextlib.redirect_stdout(io.StringIO()) as output, contextlib.redirect_stderr(io.StringIO()) as errors:
        status = main(arguments)
    assert "Traceback" not in errors.getvalue()
    return status, output.getvalue()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--events=launch"], "allocations were not recorded (--events=alloc records them)"),
        (["--events=traceback"], "allocations were not recorded (--events=alloc records them)"),
        (["--events="], "--events= selects nothing"),
        (["--steps=9"], "steps 1 to 5 ended, --steps=9 did not happen"),
    ],
)
@pytest.mark.parametrize("kind", ["leaks", "growth", "inefficient", "decompose", "peak", "operators", "oom"])
def test_no_answer_about_what_was_not_recorded(
    steps_under_tool: Callable[..., tool.ToolRun], options: list[str], reason: str, kind: str
) -> None:
    """The program leaks a block per step; each question says why it cannot know, in the terminal and in JSON."""
    run = steps_under_tool(*options)
    assert reason in " ".join(run.stderr.split())
    status, text, process = analyzed(run.capture.directory, kind)
    assert status == 0
    assert reason in text
    assert ": not known" in text
    assert [word for word in NONE_FOUND if word in text] == []
    assert process["is_answered"] is False
    assert reason in process["result"]["coverage"]["missing"]


def test_a_gate_does_not_pass_what_it_could_not_look_at(steps_under_tool: Callable[..., tool.ToolRun]) -> None:
    """In a pipeline, "not recorded" must not look like "clean"."""
    run = steps_under_tool("--events=launch")
    path = run.capture.directory
    assert analyzed(path, "leaks", "--fail-on-findings")[0] == 1
    command = [*tool.TOOL, "compare", path, path, f"--output={run.output}", "--fail-on=peak>5%"]
    compared = tool.run(command, output=run.output)
    assert compared.returncode == 1
    assert "Comparison: not known" in compared.stdout
    assert "--fail-on: base: allocations were not recorded" in compared.stderr
    assert not (run.output / "compare").exists()


def test_results_in_python_say_it_too(steps_under_tool: Callable[..., tool.ToolRun]) -> None:
    """Also quiet, where nobody reads a report."""
    path = steps_under_tool("--events=launch").capture.directory
    for kind in ("leaks", "growth", "inefficient", "decompose", "peak", "operators", "oom"):
        result: Any = msmemscope.analyze(kind, quiet=True, input_path=path)
        assert not result.coverage.is_answered, kind
        assert result.coverage.missing[0] == "allocations were not recorded (--events=alloc records them)"


def test_what_an_answer_leaves_out(steps_under_tool: Callable[..., tool.ToolRun]) -> None:
    """Steps that were not chosen, and those that did not happen."""
    run = steps_under_tool("--steps=2,9")
    limits = ["only step 2 was collected (--steps)", "steps 1 to 5 ended, --steps=9 did not happen"]
    for line in limits:
        assert line in " ".join(run.stderr.split())
    _, text, process = analyzed(run.capture.directory, "peak")
    assert process["is_answered"] is True
    assert process["result"]["coverage"]["limits"] == limits
    assert all(f"Not seen: {line}" in text for line in limits)
    # Memory that one step allocates and another one keeps is judged from step to step.
    assert analyzed(run.capture.directory, "leaks")[2]["is_answered"] is False


def test_collection_between_start_and_stop(
    python_target: Callable[..., list[str | Path]], target_builder: Builder, tmp_path: Path
) -> None:
    """Parts of the run outside of collection are named as not seen."""
    command = python_target("leaky_steps", str(target_builder.library()), "5", "start")
    run = tool.run(["env", "-C", tmp_path, *command], output=tmp_path / "memscopeDumpResults")
    _, text, process = analyzed(run.capture.directory, "leaks")
    assert process["is_answered"] is True
    assert "Leaks over 5 steps" in text
    assert "Not seen: collection was on for a part of the run only" in text


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--collect-mode=deferred"], "collection waited for msmemscope.start(), which was never called"),
        (["--events=", "--collect-mode=deferred"], "--events= selects nothing"),
    ],
)
def test_a_run_that_recorded_nothing_says_why(
    steps_under_tool: Callable[..., tool.ToolRun], options: list[str], reason: str
) -> None:
    """Right below the verdict."""
    run = steps_under_tool(*options)
    lines = run.stderr.splitlines()
    verdict = lines.index("msmemscope: nothing was recorded")
    assert reason in " ".join(lines[verdict + 1 : verdict + 4])
    assert "library of CANN" not in run.stderr
    assert not run.output.exists()


def run_program(text: str, folder: Path, library: Path, *options: str) -> tool.ToolRun:
    """Run a program that can allocate by `keep()`; with options, under the tool."""
    program = folder / "program.py"
    program.write_text(
        "import ctypes, sys\nimport msmemscope\n"
        "library = ctypes.CDLL(sys.argv[1])\nlibrary.fake_tensor_allocate.restype = ctypes.c_void_p\n"
        "library.fake_tensor_allocate.argtypes = [ctypes.c_size_t]\n"
        f"def keep(): return library.fake_tensor_allocate(4096)\n{text}\n"
    )
    command = [sys.executable, str(program), str(library)]
    whole = [*tool.TOOL, "--device=cpu", *options, "--", *command] if options else command
    return tool.run(whole, output=folder / "memscopeDumpResults", folder=folder)


WATCHING = "msmemscope.watcher.watch(keep(), length=64, name='test')"


@pytest.mark.parametrize(
    ("before", "options", "reason"),
    [
        ("", [], "collection is off until msmemscope.start() is called"),
        pytest.param(
            "msmemscope.start(); msmemscope.stop()",
            [],
            "collection is off until msmemscope.start() is called",
            marks=nightly,
        ),
        ("", ["--collect-mode=deferred"], "collection is off until msmemscope.start() is called"),
        ("msmemscope.config(events='')\nmsmemscope.start()", [], "--events= selects nothing"),
        ("", ["--level=kernel"], "--level=kernel observes no operators of the cpu, add op to it"),
        pytest.param("msmemscope.start()", [], None, marks=nightly),
        ("", ["--level=op"], None),
    ],
)
def test_watching_without_collection_is_not_silent(
    before: str, options: list[str], reason: str | None, tmp_path: Path, target_builder: Builder
) -> None:
    """One line, once; nothing where changes are seen."""
    text = f"{before}\n{WATCHING}\n{WATCHING}"
    run = run_program(text, tmp_path, target_builder.library(), *options)
    assert run.returncode == 0, run.stderr
    lines = [line for line in run.stderr.splitlines() if line.startswith("msmemscope: watcher.watch:")]
    expected = f"msmemscope: watcher.watch: changes of 'test' are not seen: {reason}"
    assert lines == ([] if reason is None else [expected])


@pytest.mark.parametrize(
    ("text", "is_reported"),
    [
        ("msmemscope.config(level='op')\nkeep()", True),
        ("keep()\nmsmemscope.step()", False),
        pytest.param("msmemscope.config(level='op')\nmsmemscope.start()\nkeep()", False, marks=nightly),
        ("msmemscope.config(level='op')\nwith msmemscope.collect():\n    keep()", False),
        ("import os\nmsmemscope.config(level='op')\nif os.fork(): os.wait()", True),
    ],
)
def test_settings_without_start_are_not_silent(
    text: str, tmp_path: Path, target_builder: Builder, *, is_reported: bool
) -> None:
    """A program that chose what to collect, and never began, is told so at its end; a mere import is not."""
    run = run_program(text, tmp_path, target_builder.library())
    assert run.returncode == 0, run.stderr
    printed = run.stderr.count("nothing was recorded: collection waited for msmemscope.start(), which was never called")
    assert printed == int(is_reported)


REFUSES_PRELOADING = """
import os, sys
if os.environ.get("LD_PRELOAD"):
    sys.exit("this program does not run with LD_PRELOAD set")
msmemscope.start()
block = keep()
"""


def test_a_program_that_refuses_preloading_is_observed_from_inside(tmp_path: Path, target_builder: Builder) -> None:
    """Nothing is preloaded then, and its allocations are recorded all the same."""
    refused = run_program(REFUSES_PRELOADING, tmp_path, target_builder.library(), "--events=alloc,free")
    assert refused.returncode == 1
    lines = [line.strip() for line in refused.stderr.splitlines()]
    assert "import msmemscope; msmemscope.start()" in " ".join(lines)
    alone = run_program(REFUSES_PRELOADING, tmp_path, target_builder.library())
    assert alone.returncode == 0, alone.stderr
    _, _, process = analyzed(tmp_path / "memscopeDumpResults", "peak")
    assert process["is_answered"] is True
    assert [device["peak_bytes"] for device in process["result"]["devices"]] == [4096]

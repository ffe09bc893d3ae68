"""The first line and the first screen of runs with little to say about them, or with a part missing."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

from msmemscope.launch.ended_by import EndedBy, note_end
from tests.support import tool
from tests.support.targets import environment

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [pytest.mark.torch, pytest.mark.slow]

_LEAK: Final = """\
import torch
kept = []
layer = torch.nn.Linear(256, 256)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for _ in range(8):
    result = layer(torch.randn(64, 256))
    result.square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    kept.append(result)
"""
_WAITS: Final = "import torch, time\nkept = torch.ones(1000)\nprint('ready', flush=True)\ntime.sleep(100)\n"


def _run(folder: Path, *words: str | Path, options: tuple[str, ...] = (), **variables: str) -> tool.ToolRun:
    output = folder / "out"
    command = [*tool.TOOL, f"--output={output}", *options, "--", sys.executable, *words]
    return tool.run(command, output=output, variables=variables)


def _program(folder: Path, text: str) -> Path:
    path = folder / "program.py"
    path.write_text(text)
    return path


def _said(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("-c", "print(1)"), "neither torch nor CANN was loaded, and Python used little other host memory"),
        (("-c", "import torch"), "torch, CANN or CUDA was loaded, and no tensor was allocated"),
        (("missing.py",), "the program ended with status 2 before it used memory that is recorded"),
        (("-m", "no_such_module"), "the program ended with status 1 before it used memory that is recorded"),
        (("-W", "ignore", "missing.py"), "the program ended with status 2 before it used memory that is recorded"),
    ],
)
def test_why_nothing_was_recorded(words: tuple[str, ...], reason: str, tmp_path: Path) -> None:
    """In the line behind; of a program that did not start its own error is enough."""
    said = _said(_run(tmp_path, *words).stderr)
    assert f"msmemscope: nothing was recorded {reason}" in said
    assert "LD_PRELOAD" not in said


@pytest.mark.parametrize("words", [(), ("-W", "ignore"), ("-X", "dev", "-u")], ids=["plain", "warnings", "development"])
def test_a_program_that_began_is_told_of_preloading(words: tuple[str, ...], tmp_path: Path) -> None:
    """Whatever options of Python stand before it: Python itself says whether it got as far as the program."""
    program = _program(tmp_path, "import sys\nsys.exit(3)\n")
    said = _said(_run(tmp_path, *words, program).stderr)
    assert "the program ended with status 3 before it used memory that is recorded" in said
    assert "one that does not run with LD_PRELOAD set is observed from inside" in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_signal_that_ended_a_program_is_named(number: signal.Signals, tmp_path: Path) -> None:
    """At its end, and when the summary is asked for again."""
    output = tmp_path / "out"
    process = subprocess.Popen(
        [*tool.TOOL, f"--output={output}", "--", sys.executable, _program(tmp_path, _WAITS)],
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    subprocess.run(["pkill", f"-{int(number)}", "-P", str(process.pid)], check=True)
    said = process.communicate(timeout=60)[1]
    again = tool.run([*tool.TOOL, "summary", output], output=output).stdout
    for text in (said, again):
        assert f"{number.name} ended the process; all it had recorded is here" in text
        assert "replaced by exec" not in text


def test_root_is_warned_once(tmp_path: Path) -> None:
    """Per user, not per run: a file among the user's own says that it was."""
    state = str(tmp_path / "state")
    both = [_run(tmp_path, "-c", "print(1)", XDG_STATE_HOME=state).stderr for _ in range(2)]
    assert [text.count("running as root") for text in both] in ([1, 0], [0, 0])  # the second is somebody else


def test_quiet_prints_errors_only(tmp_path: Path) -> None:
    """Not even the summary, which is kept in report.txt."""
    run = _run(tmp_path, _program(tmp_path, _LEAK), options=("-q",), XDG_STATE_HOME=str(tmp_path / "state"))
    assert run.stderr == ""
    assert list(run.output.glob("*/report.txt"))


def test_a_screen_of_one_finding_has_24_lines(tmp_path: Path) -> None:
    """Of 80 columns; lines for scripts stand there where leaks were asked for by name."""
    program = _program(tmp_path, _LEAK)
    screen = _run(tmp_path, program).stderr
    lines = screen[screen.index("\nmsmemscope: leak: ") + 1 :].rstrip("\n").split("\n")
    assert len(lines) <= 24
    assert max(len(line) for line in lines if str(tmp_path) not in line) <= 80  # paths stay whole
    assert "memory leak of" not in screen
    (report,) = (tmp_path / "out").glob("*/report.txt")
    assert "Direct Host memory leak of" in report.read_text()
    named = _run(tmp_path, program, options=("--analysis=leaks",))
    assert "Direct Host memory leak of" in named.stderr


def _flip(content: bytearray) -> bytearray:
    used = [place for place in range(4096, len(content)) if content[place]]
    for place in random.Random(1).sample(used, 8):  # noqa: S311 - no secret
        content[place] ^= 0xFF
    return content


@pytest.mark.parametrize("damage", [_flip, lambda content: content[:5000]])
def test_damage_stands_in_the_first_line(damage: Callable[[bytearray], bytearray], tmp_path: Path) -> None:
    """No figure comes from a record that does not check; where no record does, the command fails."""
    run = _run(tmp_path, _program(tmp_path, _LEAK))
    assert "msmemscope: leak: " in run.stderr
    (log,) = run.output.glob("*/event_log/events_0.segment")
    log.write_bytes(damage(bytearray(log.read_bytes())))
    summary = tool.run([*tool.TOOL, "summary", run.output], output=run.output)
    said = _said(summary.stdout)
    assert said.startswith("msmemscope: leaks and failed allocations not judged: the event log is damaged, ")
    assert summary.returncode == int("(0 events of 1 process)" in said)
    leaks = tool.run([*tool.TOOL, "analyze", "leaks", run.output], output=run.output)
    assert "Leaks: not known the event log is damaged" in _said(leaks.stdout)


@pytest.mark.parametrize(
    ("limit", "why"),
    [(256 << 20, "its control group may have 256 MiB"), (0, "the machine had no more"), (None, None)],
    ids=["group", "machine", "somebody"],
)
def test_the_kernel_ended_it(limit: int | None, why: str | None, tmp_path: Path) -> None:
    """First line and the command that shows what filled memory; not where anybody sent the same signal.

    The note is what a run leaves beside the log where the count of its group grew.
    """
    program = _program(
        tmp_path,
        "import os, signal, torch\nkept = [torch.ones(1 << 20) for _ in range(5)]\nos.kill(os.getpid(), signal.SIGKILL)\n",
    )
    run = _run(tmp_path, program)
    assert "out of memory" not in run.stderr
    note_end(run.capture.directory, EndedBy("SIGKILL", limit))
    said = tool.run([*tool.TOOL, "summary", tmp_path / "out"], output=tmp_path / "out").stdout
    if why is None:
        assert "out of memory" not in said
    else:
        first = (
            f"msmemscope: out of memory on cpu: the kernel ended the process, {why}; CPU tensors had 20.0 MiB at most"
        )
        assert first in _said(said)
        assert "next: msmemscope analyze peak " in said
    assert "SIGKILL ended the process; all it had recorded is here" in _said(said)

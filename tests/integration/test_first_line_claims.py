"""Whatever was asked for: a planted fault stands in the first line, or the first line says that it was not judged.

Never "nothing found". Some runs by day, at least 500 at night.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest

from tests.support import tool
from tests.support.nightly import NIGHT
from tests.support.targets import environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.torch, pytest.mark.slow]

_PROGRAM: Final = """\
import os, sys, time, torch
fault, mode, marks, end = sys.argv[1:5]
torch.set_num_threads(1)
if mode != "launched" or marks == "marks":
    import msmemscope
if mode == "imported":
    msmemscope.config(**eval(sys.argv[5]))
if mode in ("imported", "deferred"):
    msmemscope.start()
kept = []
layer = torch.nn.Linear(64, 64)
for step in range(24):
    if marks == "optimizer":
        if step == 0:
            optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        layer(torch.randn(32, 64)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    if fault == "leak":
        kept.append(torch.ones(1 << 16))
    if marks == "marks":
        msmemscope.step()
if fault == "oom":
    try:
        torch.empty(1 << 50)
    except RuntimeError:
        if end != "running":
            raise
if end == "running":
    print("ready", flush=True)
    time.sleep(100)
if end == "killed":
    os.kill(os.getpid(), 9)
"""


@dataclass(frozen=True)
class _Run:
    """One combination."""

    fault: str
    marks: str
    mode: str
    events: str | None
    device: str | None
    steps: str | None
    analysis: str | None
    end: str

    @property
    def name(self) -> str:
        """Of the test."""
        return "-".join(str(value) for value in vars(self).values())

    @property
    def options(self) -> dict[str, str]:
        """Those that are given, by their names in Python."""
        given = {"events": self.events, "device": self.device, "steps": self.steps, "analysis": self.analysis}
        return {name: value for name, value in given.items() if value is not None}


_RUNS: Final = [
    _Run(*values)
    for values in itertools.product(
        ("leak", "oom"),
        ("none", "marks", "optimizer"),
        ("launched", "deferred", "unstarted", "imported"),
        (None, "launch", "alloc", "alloc,free", "access", ""),
        (None, "cpu", "npu", "cuda"),
        (None, "2", "3,4", "99"),
        (None, "", "inefficient", "leaks,decompose"),
        ("ended", "running", "killed", "damaged"),
    )
]
_CHOSEN: Final = random.Random(20).sample(_RUNS, 520 if NIGHT else 6)  # noqa: S311 - no secret
_SAID: Final = {"leak": ("leak:", "slow leak:"), "oom": ("out of memory on ",)}
_NOT_JUDGED: Final = {
    "leak": r"(?:leaks|leaks and failed allocations|growth) not judged: |\w+(?::\d)? not observed: |damaged",
    "oom": r"(?:leaks and )?failed allocations not judged: |\w+(?::\d)? not observed: |damaged",
}
_NOTHING: Final = ("nothing was recorded", "nothing to summarise")


def _first_line(text: str) -> str:
    blocks = [block.strip() for block in re.split(r"\n\s*\n", text) if block.strip().startswith("msmemscope: ")]
    return " ".join(blocks[-1].split()).removeprefix("msmemscope: ") if blocks else ""


@contextlib.contextmanager
def _program(run: _Run, folder: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    program, output = folder / "program.py", folder / "out"
    program.write_text(_PROGRAM)
    options = [f"--{name}={value}" for name, value in run.options.items()]
    if run.mode in {"deferred", "unstarted"}:
        options.append("--collect-mode=deferred")
    launcher = [] if run.mode == "imported" else [*tool.TOOL, f"--output={output}", *options, "--"]
    words = [run.fault, run.mode, run.marks, run.end, repr({"output": str(output), **run.options})]
    process = subprocess.Popen(
        [*launcher, sys.executable, program, *words],
        env=environment(OMP_NUM_THREADS="1"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        yield process, output
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _seen(run: _Run, folder: Path) -> str:
    """The output about a run, at its end or when somebody asks."""
    with _program(run, folder) as (process, output):
        if run.end == "running":
            assert process.stdout is not None
            if process.stdout.readline() == "":
                return process.communicate()[1]
            time.sleep(0.2)
            summary = tool.run([*tool.TOOL, "summary", output], output=output)
            return summary.stdout + summary.stderr
        said = process.communicate(timeout=120)[1]
    if run.end == "damaged":
        for log in output.glob("*/event_log/events*"):
            content = bytearray(log.read_bytes())
            used = [place for place in range(4096, len(content)) if content[place]]
            for place in random.Random(3).sample(used, min(len(used), 8)):  # noqa: S311 - no secret
                content[place] ^= 0xFF
            log.write_bytes(content)
        shown = tool.run([*tool.TOOL, "summary", output], output=output)
        return shown.stdout if shown.returncode == 0 else f"msmemscope: damaged: {shown.stderr}"
    return said


@pytest.mark.parametrize("run", [pytest.param(run, id=run.name) for run in _CHOSEN])
def test_the_first_line_names_the_fault_or_says_that_it_was_not_judged(run: _Run, tmp_path: Path) -> None:
    """Of every combination of events, devices, steps, ways in, and ways to end."""
    seen = _seen(run, tmp_path)
    line = _first_line(seen)
    assert not line.startswith("nothing found"), seen
    if not line or line.startswith("error: "):
        # Nothing was recorded: somebody says so who did not find what to sum up, or has nobody to say it.
        assert "holds nothing that can be analysed" in line or run.mode in {"imported", "unstarted"}, seen
        return
    head = seen[seen.rindex("msmemscope: ") :] if line not in seen else seen
    found = line.startswith((*_SAID[run.fault], *_NOTHING))
    assert found or re.search(_NOT_JUDGED[run.fault], f"{line} {' '.join(head.split())}"), seen

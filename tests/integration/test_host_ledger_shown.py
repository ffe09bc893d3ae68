"""The host memory of a process stands wherever a run is summed up, and says the same everywhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest

from msmemscope.analysis.host.host_ledger import account_for_host
from msmemscope.formats.reading import load
from msmemscope.model.events import EventKind
from msmemscope.units import format_bytes
from tests.support import tool

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.torch, pytest.mark.slow]

WORK: Final = """
import subprocess, sys, torch
kept = []
for step in range(40):
    kept.append("x" * {kept} + str(step))
    torch.nn.functional.relu(torch.ones(1 << 18))
if len(sys.argv) > 1:
    subprocess.run([sys.executable, sys.argv[0]], check=True)
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tool.ToolRun:
    """A process that keeps little."""
    return _run(tmp_path_factory.mktemp("small"), 100_000)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tool.ToolRun:
    """A process that keeps 80 MB more."""
    return _run(tmp_path_factory.mktemp("large"), 2_000_000)


def _run(folder: Path, kept: int, *arguments: str) -> tool.ToolRun:
    program, output = folder / "serve.py", folder / "out"
    program.write_text(WORK.format(kept=kept))
    return tool.run([*tool.TOOL, f"--output={output}", "--", sys.executable, program, *arguments], output=output)


def _answer(*words: str | Path) -> Any:
    done = subprocess.run(
        [*map(str, tool.TOOL), *map(str, words), "--json"], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_a_summary_has_its_parts(small: tool.ToolRun) -> None:
    """The screen has the largest, the file and JSON all of them."""
    ledger = account_for_host(load(small.capture.directory))
    assert ledger.parts["peak_bytes"].sum() == ledger.peak_bytes > 0
    heading = f"{format_bytes(ledger.peak_bytes)} at the peak, {format_bytes(ledger.end_bytes)} at the end"
    screen = " ".join(small.stderr.split())
    assert f"Host memory: {heading}" in screen
    libraries = ledger.parts.filter(ledger.parts["part"].str.starts_with("interpreter"))["peak_bytes"][0]
    assert f"libraries {format_bytes(libraries)}" in screen
    report = " ".join((small.capture.directory / "report.txt").read_text().split())
    assert f"Host memory: {format_bytes(ledger.peak_bytes)} resident at the peak" in report
    (process,) = _answer("summary", small.capture.directory)["processes"]
    assert process["host_memory"]["peak_bytes"] == ledger.peak_bytes
    assert sum(part["peak_bytes"] for part in process["host_memory"]["parts"]) == ledger.peak_bytes


def test_live_has_its_figures(small: tool.ToolRun) -> None:
    """The same as those of the recording."""
    recording = load(small.capture.directory)
    ledger = account_for_host(recording)
    (process,) = _answer("live", small.capture.directory)["processes"]
    assert recording.events.filter(kind=int(EventKind.HOST_MEMORY)).height > 1
    assert process["host"]["peak_bytes"] == ledger.peak_bytes
    assert process["host"]["resident_bytes"] == ledger.end_bytes


def test_a_job_has_that_of_each_process(small: tool.ToolRun, large: tool.ToolRun) -> None:
    """In the answer about all ranks."""
    ranks = _answer("cluster", small.capture.directory, large.capture.directory)["ranks"]
    peaks = {account_for_host(load(run.capture.directory)).peak_bytes for run in (small, large)}
    assert {rank["host_bytes"] for rank in ranks} == peaks


def test_runs_are_compared_by_it(small: tool.ToolRun, large: tool.ToolRun, tmp_path: Path) -> None:
    """By part; and a condition guards it."""
    command = [str(word) for word in tool.TOOL]
    compare: list[str | Path] = [*command, "compare", small.capture.directory, large.capture.directory]
    compare.append(f"--output={tmp_path}")
    done = subprocess.run([*compare, "--fail-on=host>20M"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.search(r"host>20M: resident host memory grew by [0-9.]+ MiB", done.stderr)
    pair = json.loads(subprocess.run([*compare, "--json"], capture_output=True, text=True, check=True).stdout)
    first = pair["host_parts"][0]
    assert first["part"] == "Python objects"
    assert re.search(r"\.py\(\d+\)", first["site"])
    # Samples say it, and the kernel agrees.
    assert first["difference_bytes"] == pytest.approx(76e6, rel=0.5)
    assert sum(part["difference_bytes"] for part in pair["host_parts"]) == pytest.approx(76e6, rel=0.3)
    same: list[str | Path] = [*command, "compare", small.capture.directory, small.capture.directory]
    assert (
        subprocess.run(
            [*same, f"--output={tmp_path}", "--fail-on=host>0%"], capture_output=True, check=False
        ).returncode
        == 0
    )


def test_several_processes_have_theirs_together(tmp_path: Path) -> None:
    """Pages that they share count once."""
    found = _run(tmp_path, 100_000, "with a child")
    assert re.search(r"Host memory of 2 together: [0-9.]+ MiB at the peak, shared pages once", found.stderr)

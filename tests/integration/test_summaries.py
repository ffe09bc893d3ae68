"""Whole screens that users see at the end of runs: summaries of real programs, kept as files to be read."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import pytest

from msmemscope.cli.main import main
from msmemscope.reports.summary_screen import MOST_LINES, MOST_LINES_OF_SEVERAL
from tests.support import tool
from tests.support.browser import find_browser
from tests.support.nightly import nightly
from tests.support.recorded_runs import write_run
from tests.support.summaries import REPOSITORY, check
from tests.support.targets import SOURCES
from tests.support.two_clicks import line_after_two_clicks, planted_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TRAIN: Final = (sys.executable, "examples/train_gpt.py", "--device=cpu")


def run_observed(program: Sequence[object], folder: Path) -> tool.ToolRun:
    """Run a program under the tool."""
    output = folder / "memscopeDumpResults"
    line = [*tool.TOOL, f"--output={output}", "--device=cpu", "--call-stack=python", "--", *program]
    # Threads of torch would wait for each other, and busily, where other tests run at the same time.
    one_thread = {"OMP_NUM_THREADS": "1"}
    run = tool.run(
        line, output=output, variables=one_thread, folder=REPOSITORY
    )  # so that paths are the same everywhere
    assert run.returncode == 0, run.stderr
    return run


def observed(program: Sequence[object], folder: Path) -> str:
    """Run a program under the tool and return what is printed on stderr."""
    return run_observed(program, folder).stderr


@pytest.fixture(scope="module")
def leaking_gpt(tmp_path_factory: pytest.TempPathFactory) -> tool.ToolRun:
    """A training that keeps the losses of its steps."""
    pytest.importorskip("torch")
    return run_observed([*TRAIN, "--steps=6", "--leak"], tmp_path_factory.mktemp("leaking"))


@pytest.mark.torch
def test_a_healthy_run(tmp_path: Path) -> None:
    """Nothing found, and no more: no advice, no list of what was looked for in vain."""
    text = check("healthy", observed([*TRAIN, "--steps=6"], tmp_path), tmp_path)
    assert text.splitlines()[1].startswith("msmemscope: nothing found: no leak over 6 steps")
    assert "next:" not in text
    assert len(text.splitlines()) <= MOST_LINES


@pytest.mark.torch
def test_a_leaking_gpt(leaking_gpt: tool.ToolRun) -> None:
    """The line that keeps the losses stands in the first sentence."""
    text = check("leaking_gpt", leaking_gpt.stderr, leaking_gpt.output.parent)
    assert text.splitlines()[1].startswith("msmemscope: leak: ")
    assert len(text.splitlines()) <= MOST_LINES


@pytest.mark.torch
@pytest.mark.skipif(find_browser() is None, reason="no Chromium here: the report is not looked at in a browser")
def test_two_clicks_lead_to_the_line_that_keeps_the_losses(leaking_gpt: tool.ToolRun, tmp_path: Path) -> None:
    """The layers of the model allocate what leaks; the line that keeps it is that of the function that holds it."""
    planted = planted_line(REPOSITORY / "examples" / "train_gpt.py", "history.append(")
    assert line_after_two_clicks(leaking_gpt.capture.directory, tmp_path, "[data-source='holder']") == planted


@pytest.mark.torch
def test_a_server_without_steps(tmp_path: Path) -> None:
    """Growth from request to request is found by parts of the run, with its holder."""
    program = [sys.executable, "tests/target_programs/serve_sessions.py", "100", "4"]
    text = check("server_without_steps", observed(program, tmp_path), tmp_path)
    assert text.splitlines()[1].startswith("msmemscope: slow leak: ")
    assert "held by Sessions.keys['N'], from __main__.SESSIONS" in " ".join(text.split())
    assert len(text.splitlines()) <= MOST_LINES


def test_eight_ranks_that_leak_at_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One finding, of eight ranks; the lines that scripts look for are there for each of them."""
    for rank in range(8):
        write_run(tmp_path, process_id=1001 + rank, rank=rank, leaks=rank != 5)
    assert main(["recover", str(tmp_path)]) == 0
    text = check("leaking_ranks", capsys.readouterr().err, tmp_path)
    assert "(ranks 0-4, 6-7)" in " ".join(text.split())
    assert text.count("====== SUMMARY: 2 Mb(s) leaked in 4 allocation(s) ======") == 7
    assert len(text.splitlines()) <= MOST_LINES_OF_SEVERAL


@nightly
@pytest.mark.torch
def test_ranks_of_a_real_job(tmp_path: Path) -> None:
    """Workers that are forked learn their rank late."""
    program = [sys.executable, SOURCES / "leaking_ranks.py", "8", "6"]
    text = observed(program, tmp_path)
    assert "(ranks 0-7)" in " ".join(text.split())
    assert text.count("====== SUMMARY: 2 Mb(s) leaked in 4 allocation(s) ======") == 8
    assert len(text.splitlines()) <= MOST_LINES_OF_SEVERAL + 1  # a warning about root

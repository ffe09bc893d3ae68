"""Programs that leak, recorded on the CPU: two clicks in the browser lead from the first sentence to the planted line.

By day tests/integration/test_summaries.py clicks in the report of a training that keeps its losses.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.leak_zoo import catalogue
from tests.leak_zoo.scoring import run_zoo
from tests.support import tool
from tests.support.browser import find_browser
from tests.support.nightly import nightly
from tests.support.two_clicks import line_after_two_clicks, planted_line

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = [
    pytest.mark.torch,
    pytest.mark.slow,
    nightly,
    pytest.mark.skipif(find_browser() is None, reason="no Chromium here: the report is not looked at in a browser"),
]


def recorded(folder: Path, program: str, *arguments: str) -> Path:
    """Run an example under the tool, and return its capture."""
    pytest.importorskip("torch")
    output = folder / "output"
    command = [*tool.TOOL, "--device=cpu", f"--output={output}", "--", sys.executable, EXAMPLES / program, *arguments]
    run = tool.run(command, output=output)
    assert run.returncode == 0, run.stderr
    return run.capture.directory


def test_a_gpt_that_keeps_losses_shows_where_they_are_kept(tmp_path: Path) -> None:
    """The layers of the model allocate what leaks; the line that keeps it is that of the function that holds it."""
    capture = recorded(tmp_path, "train_gpt.py", "--device=cpu", "--steps=6", "--batch=4", "--leak")
    planted = planted_line(EXAMPLES / "train_gpt.py", "history.append(")
    assert line_after_two_clicks(capture, tmp_path, "[data-source='holder']") == planted


def test_a_server_that_keeps_answers_shows_where_they_are_made(tmp_path: Path) -> None:
    """As docs/stories.md says."""
    capture = recorded(tmp_path, "serve_requests.py", "--requests=100")
    assert line_after_two_clicks(capture, tmp_path) == planted_line(EXAMPLES / "serve_requests.py", "torch.relu(")


@pytest.mark.parametrize("identity", ["containers.forgotten_list", "training.checkpoints_kept"])
def test_a_program_of_the_leak_zoo_shows_its_marked_line(identity: str, tmp_path: Path) -> None:
    """Which is also where the block is allocated, so there is no second excerpt."""
    (program,) = (one for one in catalogue.programs() if one.identity == identity)
    (line,) = program.leaking_lines
    run_zoo(tmp_path / "output", [program], "cpu")
    (capture,) = (tmp_path / "output").glob("msmemscope_*_ascend*")
    shown = line_after_two_clicks(capture, tmp_path)
    assert shown == f"{line}{program.path.read_text(encoding='utf-8').splitlines()[line - 1]}"

"""The stories of docs/stories.md: what a program shows first, and that it is mended with what the story says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.targets import environment

ROOT = Path(__file__).parents[2]
STORIES = (ROOT / "docs" / "stories.md").read_text(encoding="utf-8")

pytestmark = [pytest.mark.torch, pytest.mark.slow]


def first_sentence(output: Path, *program: str) -> str:
    """Run an example as its story says, and return the verdict in one line."""
    pytest.importorskip("torch")
    command = [sys.executable, "-m", "msmemscope", "--device=cpu", f"--output={output}", "--", sys.executable, *program]
    run = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment(), stdin=subprocess.DEVNULL
    )
    (verdict,) = re.findall(
        r"^msmemscope: ((?:leak|out of memory|nothing found).*(?:\n +.*)*)", run.stdout + run.stderr, re.MULTILINE
    )
    return " ".join(verdict.split())


@pytest.mark.parametrize(
    ("program", "verdict", "mending"),
    [
        (
            "examples/train_on_texts.py",
            r"out of memory on cpu in step 6: batch jump, .* at examples/train_on_texts\.py\((\d+)\): main",
            "--most-words=256",
        ),
        (
            "examples/serve_requests.py",
            r"leak: 24\.9 MiB in 398 blocks on cpu at examples/serve_requests\.py\((\d+)\): answer, .*Server\.answers",
            "--most-answers=20",
        ),
    ],
)
def test_from_the_symptom_to_the_line(tmp_path: Path, program: str, verdict: str, mending: str) -> None:
    """The line is the one of the story, and the program that the story mends has nothing to be found."""
    found = re.match(verdict, first_sentence(tmp_path / "first", program))
    assert found is not None
    assert f"{program}({found[1]})" in " ".join(STORIES.split())
    assert f"`{mending}`" in STORIES
    assert first_sentence(tmp_path / "mended", program, mending).startswith("nothing found")

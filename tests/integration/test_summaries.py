"""What users see at the end of runs, as a whole: summaries of real programs, kept as files to be read."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from msmemscope.cli.main import main
from msmemscope.reports.terminal import MOST_LINES, MOST_LINES_OF_SEVERAL
from tests.support import tool
from tests.support.nightly import nightly
from tests.support.recorded_runs import write_run
from tests.support.targets import SOURCES

if TYPE_CHECKING:
    from collections.abc import Sequence

REPOSITORY: Final = Path(__file__).parents[2]
GOLDEN: Final = REPOSITORY / "tests" / "golden" / "summaries"
"""After a change that is meant, write them anew: MSMEMSCOPE_WRITE_GOLDEN=1 pytest FILE, and read the difference."""
TRAIN: Final = (sys.executable, "examples/train_gpt.py", "--device=cpu")

_WHAT_DIFFERS: Final = (
    (r"msmemscope_\d+_\d+_ascend", "msmemscope_PID_TIME_ascend"),
    (r"memscope_dump_\d+\.", "memscope_dump_TIME."),
    (r"0x[0-9a-f]+", "0xADDRESS"),
    (r"[▁▂▃▄▅▆▇█]+", "▁▂▃▄▅▆▇█"),
    (r"held by main\.history\[\d+\](\s+->\s+autograd graph)?", "held by main.history[N]"),
    (r"\d+\.\d\d s\b", "N s"),
    (r"\([\d,]+ rows\)", "(N rows)"),
    (r"\([\d,]+\s+events\s+of", "(N events of"),
)
"""From run to run, or from machine to machine."""


def stable(text: str, folder: Path) -> str:
    """The summary without what differs from run to run."""
    text = text.replace(str(folder), "FOLDER")
    for pattern, replacement in _WHAT_DIFFERS:
        text = re.sub(pattern, replacement, text)
    return "".join(f"{line}\n" for line in text.splitlines() if "running as root" not in line)


def check(name: str, printed: str, folder: Path) -> str:
    """Compare what was printed at the end of a run with the file of that name."""
    text = stable(printed, folder)
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("MSMEMSCOPE_WRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
    return text


def observed(program: Sequence[object], folder: Path) -> str:
    """Run a program under the tool and return what is printed on stderr."""
    output = folder / "memscopeDumpResults"
    line = [*tool.TOOL, f"--output={output}", "--device=cpu", "--call-stack=python", "--", *program]
    run = tool.run(line, output=output, folder=REPOSITORY)  # so that paths are the same wherever that is
    assert run.returncode == 0, run.stderr
    return run.stderr


@pytest.mark.torch
def test_a_healthy_run(tmp_path: Path) -> None:
    """Nothing found, and no more: no advice, no list of what was looked for in vain."""
    text = check("healthy", observed([*TRAIN, "--steps=6"], tmp_path), tmp_path)
    assert text.splitlines()[1].startswith("msmemscope: nothing found: no leak over 6 steps")
    assert "next:" not in text
    assert len(text.splitlines()) <= MOST_LINES


@pytest.mark.torch
def test_a_leaking_gpt(tmp_path: Path) -> None:
    """The line that keeps the losses stands in the first sentence."""
    text = check("leaking_gpt", observed([*TRAIN, "--steps=6", "--leak"], tmp_path), tmp_path)
    assert text.splitlines()[1].startswith("msmemscope: leak: ")
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

"""Allocations in an installed library are shown under the line of the program that called it."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import pytest

from msmemscope.analysis.leaks.step_leaks import find_step_leaks
from msmemscope.formats.reading import load

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import RunUnderTool

pytestmark = pytest.mark.torch

LIBRARY = """
import torch

class ListMetric:
    def __init__(self):
        self.values = []

    def update(self, values):
        self.values.append(values.clone())  # CLONES
        self._more(values)

    def _more(self, values):
        self.values.append(values * 2)  # DOUBLES

def each(function, count):
    for number in range(count):
        function(number)
"""
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import torch
import metrics

model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
metric = metrics.ListMetric()
kept = []

def step(number):
    loss = model(torch.ones(32, 64)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    metric.update(torch.ones(32, 64))  # UPDATES
    kept.append(torch.ones(16, 64))  # KEEPS

metrics.each(step, 8)
"""
TRAIN = "import metrics\n\nmetrics.each(lambda number: metrics.ListMetric().update(__import__('torch').ones(9)), 3)\n"


def line_of(text: str, mark: str) -> int:
    """The number of the line with a mark."""
    (number,) = (number for number, line in enumerate(text.splitlines(), start=1) if line.endswith(f"# {mark}"))
    return number


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder of installed libraries with one in it."""
    folder = tmp_path / "lib/python3.11/site-packages"
    (folder / "metrics").mkdir(parents=True)
    (folder / "metrics/__init__.py").write_text(LIBRARY, encoding="utf-8")
    (folder / "metrics/train.py").write_text(TRAIN, encoding="utf-8")
    return folder


def test_the_line_of_the_program_comes_first(tmp_path: Path, packages: Path, run_under_tool: RunUnderTool) -> None:
    """Two lines of a library under one of the program are two call sites and one line of the finding."""
    program = tmp_path / "training.py"
    program.write_text(PROGRAM, encoding="utf-8")
    run = run_under_tool([sys.executable, program, packages])
    assert run.returncode == 0, run.stderr
    updates, keeps = (f"{program}({line_of(PROGRAM, mark)}): step" for mark in ("UPDATES", "KEEPS"))
    within = {
        f"metrics/__init__.py({line_of(LIBRARY, mark)}): {function}"
        for mark, function in (("CLONES", "update"), ("DOUBLES", "_more"))
    }
    sites = find_step_leaks(load(run.capture.directory)).leaking_sites
    assert set(sites["site"]) == {keeps, *(f"{updates}, in {line}" for line in within)}
    paths = {path.split("\n")[0].rpartition("/site-packages/")[2] for path in sites["site_path"]}
    assert paths == {keeps, *within}
    finding = " ".join(run.stderr.split())
    # Two lines of the library made as much: neither is named. Another variable holds what the other line keeps.
    assert re.search(rf"leak: [\d.]+ KiB in \d+ blocks on cpu at {re.escape(updates)}, ", finding)
    assert re.search(rf"also leak: [\d.]+ KiB in \d+ blocks on cpu at {re.escape(keeps)}, ", finding)
    assert "in metrics/" not in finding


def test_a_program_that_is_installed_has_lines_of_its_own(packages: Path, run_under_tool: RunUnderTool) -> None:
    """`python -m metrics.train`: the innermost line, as of a program elsewhere."""
    run = run_under_tool([sys.executable, "-m", "metrics.train"], variables={"PYTHONPATH": str(packages)})
    assert run.returncode == 0, run.stderr
    assert f"metrics/__init__.py({line_of(LIBRARY, 'CLONES')}): update" in " ".join(run.stderr.split())
    assert ", in metrics" not in run.stderr

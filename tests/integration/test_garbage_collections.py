"""What the garbage collector frees when it begins by itself has waited for it; what a program collects has not."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Final

import polars as pl
import pytest

from msmemscope.formats.reading import load
from msmemscope.model.events import EventFlag, EventKind
from tests.support import tool

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.torch, pytest.mark.slow]

TRIALS: Final = """
import gc, sys, torch

class Trial:
    def __init__(self):
        self.weights = torch.zeros(1 << 20)  # line 6
        self.itself = self

def many_objects():
    return [[] for _ in range(300_000)]

many_objects()
gc.collect()
gc.freeze()  # so that the collector begins soon
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(40):
    trial = Trial()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    if sys.argv[1] == "asked":
        del trial
        gc.collect()
    elif number in (19, 39):
        del trial
        many_objects()
assert gc.get_stats()[2]["collections"] > 2
print("callbacks", len(gc.callbacks))
"""


def _run(folder: Path, how: str) -> tool.ToolRun:
    program, output = folder / "trials.py", folder / "out"
    program.write_text(TRIALS)
    # Without searches for holders: the collector alone tells.
    command = [*tool.TOOL, f"--output={output}", "--holder-time=0", "--", sys.executable, program, how]
    run = tool.run(command, output=output)
    assert run.returncode == 0, run.stderr
    return run


def _collected(run: tool.ToolRun) -> pl.DataFrame:
    recording = load(run.capture.directory)
    freed = recording.events.filter(kind=int(EventKind.FREE)).filter((pl.col("flags") & int(EventFlag.COLLECTED)) != 0)
    return recording.blocks.join(freed.select(malloc_sequence="extra"), on="malloc_sequence")


def test_what_waited_is_a_finding(tmp_path: Path) -> None:
    """Of twenty trials, 19 waited when the collector began: that of the last step was needed until then."""
    run = _run(tmp_path, "by itself")
    blocks = _collected(run)
    assert blocks.height == 40
    assert set(blocks["size"]) == {4 << 20}
    first = " ".join(run.stderr.split())
    expected = r"leak: 76\.0 MiB on cpu at \S*trials\.py\(6\): __init__, waiting for the garbage collector in a reference cycle"
    assert re.search(expected, first), run.stderr


def test_what_a_program_collects_did_not_wait(tmp_path: Path) -> None:
    """Each trial goes when it has ended."""
    run = _run(tmp_path, "asked")
    assert _collected(run).is_empty()
    assert "nothing found: no leak over 40 steps" in " ".join(run.stderr.split())


ENDS_WITHIN: Final = """
import gc, sys, torch
import msmemscope

class Ends:
    def __init__(self):
        self.itself = self

    def __del__(self):
        msmemscope.stop()
        msmemscope.start()

Ends()
many = [[] for _ in range(300_000)]
for _ in range(10):
    torch.zeros(1 << 20)
"""


def test_collection_of_events_may_end_while_the_collector_works(tmp_path: Path) -> None:
    """What is freed behind it was not freed by the collector."""
    program, output = tmp_path / "ends.py", tmp_path / "out"
    program.write_text(ENDS_WITHIN)
    run = tool.run([*tool.TOOL, f"--output={output}", "--", sys.executable, program], output=output)
    assert run.returncode == 0, run.stderr
    assert _collected(run).is_empty()
